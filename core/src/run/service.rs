//! Stops launching while the service behind the agents does not serve: a limit until it is reset, an overload for a while.

use super::event::{Backoff, BackoffStrategy};
use super::jobs::backoff;
use crate::ids::Time;

/// So many times in a row a launch may go unserved before the run pauses.
pub const MAX_UNSERVED: u32 = 10;
/// Between two tries where the service does not say when it will serve again.
const BETWEEN_TRIES: Backoff = Backoff { strategy: BackoffStrategy::Exponential, base_ms: 5_000, max_ms: 300_000 };

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// Tries in a row that were not served.
    pub unserved: u32,
    pub pause: Option<Pause>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    pub since: Time,
    /// No launches before.
    pub until: Time,
    /// Whether the service itself named that time.
    pub told: bool,
    pub why: String,
}

impl Service {
    pub(super) fn may_launch(&self, now: Time) -> bool {
        self.pause.as_ref().is_none_or(|pause| pause.until <= now)
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.unserved >= MAX_UNSERVED
    }

    pub(super) fn served(&mut self) {
        self.unserved = 0;
    }

    /// A job that began at `began` was not served; `reset`: when the service says that it will serve again.
    pub(super) fn not_served(&mut self, now: Time, began: Time, reset: Option<Time>, why: &str) {
        // What was launched before the pause began is of the same try.
        if self.pause.as_ref().is_none_or(|pause| pause.since < began) {
            self.unserved += 1;
        }
        let reset = reset.filter(|reset| *reset > now);
        let until = reset.unwrap_or(now + backoff(BETWEEN_TRIES, self.unserved.max(1)));
        let since = match &self.pause {
            Some(pause) if pause.until >= until => return,
            Some(pause) if pause.until > now => pause.since,
            _ => now,
        };
        self.pause = Some(Pause { since, until, told: reset.is_some(), why: why.to_string() });
    }

    /// Another process goes on. It may try again, though not before the time that the service itself named.
    pub(super) fn resumed(&mut self, heeds_limits: bool) {
        self.unserved = 0;
        self.pause = self.pause.take().filter(|pause| pause.told && heeds_limits);
    }

    /// When launches may begin again, while they may not.
    pub(super) fn wakeup(&self, now: Time) -> Option<Time> {
        self.pause.as_ref().map(|pause| pause.until).filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_lasts_until_its_reset() {
        let mut service = Service::default();
        service.not_served(Time(1_000), Time(0), Some(Time(90_000)), "limit");
        assert!(!service.may_launch(Time(89_999)));
        assert!(service.may_launch(Time(90_000)));
    }

    #[test]
    fn what_began_together_counts_once() {
        let mut service = Service::default();
        for ended in [1_000, 1_000, 2_000] {
            service.not_served(Time(ended), Time(0), None, "overloaded");
        }
        assert_eq!(service.unserved, 1);
        service.not_served(Time(20_000), Time(10_000), None, "overloaded");
        assert_eq!(service.unserved, 2);
        assert!(!service.may_launch(Time(29_999)));
        assert!(service.may_launch(Time(30_000)));
    }

    #[test]
    fn gives_up_only_when_nothing_is_served_in_between() {
        let mut service = Service::default();
        let mut now = 0;
        for served in [true, false] {
            for _ in 0..MAX_UNSERVED - 1 {
                now += 1_000_000;
                service.not_served(Time(now + 1), Time(now), None, "overloaded");
            }
            assert!(!service.is_given_up());
            if served {
                service.served();
            }
        }
        service.not_served(Time(now + 1_000_001), Time(now + 1_000_000), None, "overloaded");
        assert!(service.is_given_up());
    }

    #[test]
    fn a_later_process_heeds_what_the_service_said_and_nothing_else() {
        let not_served = |reset| {
            let mut service = Service::default();
            service.not_served(Time(1_000), Time(0), reset, "limit");
            service
        };
        for (reset, heeds_limits, waits) in
            [(Some(Time(90_000)), true, true), (Some(Time(90_000)), false, false), (None, true, false)]
        {
            let mut service = not_served(reset);
            service.resumed(heeds_limits);
            assert_eq!(!service.may_launch(Time(1_001)), waits, "{reset:?} {heeds_limits}");
            assert_eq!(service.unserved, 0);
        }
    }

    #[test]
    fn a_reset_that_is_past_is_no_word_to_go_by() {
        let mut service = Service::default();
        service.not_served(Time(1_000), Time(0), Some(Time(999)), "limit");
        assert!(!service.may_launch(Time(5_999)));
        assert!(service.may_launch(Time(6_000)));
    }
}
