//! API limits: stop launching an agent until the limit resets, or for a while after an overload.

use std::collections::BTreeMap;

use super::event::{Backoff, BackoffStrategy};
use super::jobs::backoff;
use crate::ids::Time;

/// Launches in a row that hit the API limit before the run pauses.
const MAX_UNSERVED: u32 = 10;
/// Delay between two launches if the API names no time.
const BETWEEN_TRIES: Backoff = Backoff { strategy: BackoffStrategy::Exponential, base_ms: 5_000, max_ms: 300_000 };

/// The limits that the agents of a run have met, by the agent's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Services(BTreeMap<String, Service>);

impl Services {
    pub(super) fn of(&mut self, agent: &str) -> &mut Service {
        self.0.entry(agent.to_string()).or_default()
    }

    pub(super) fn may_launch(&self, agent: &str, now: Time) -> bool {
        self.0.get(agent).is_none_or(|service| service.may_launch(now))
    }

    pub(super) fn is_exhausted(&self, agent: &str) -> bool {
        self.0.get(agent).is_some_and(Service::is_exhausted)
    }

    pub(super) fn resumed(&mut self, waits_for_limits: bool) {
        self.0.values_mut().for_each(|service| service.resumed(waits_for_limits));
    }

    /// Returns when the next limit ends; none if there is none.
    pub(super) fn wakeup(&self, now: Time) -> Option<Time> {
        self.0.values().filter_map(|service| service.wakeup(now)).min()
    }

    /// Returns the pauses that last, with the agent.
    pub(super) fn pauses(&self, now: Time) -> impl Iterator<Item = (&str, &Pause)> {
        let pauses = self.0.iter().filter_map(|(agent, service)| Some((agent.as_str(), service.pause.as_ref()?)));
        pauses.filter(move |(_, pause)| pause.until > now)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// Launches in a row that hit the limit.
    pub unserved: u32,
    pub pause: Option<Pause>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    pub since: Time,
    /// Time before which nothing is launched.
    pub until: Time,
    /// Whether the API named that time.
    pub told: bool,
    pub why: String,
}

impl Service {
    pub(super) fn may_launch(&self, now: Time) -> bool {
        self.pause.as_ref().is_none_or(|pause| pause.until <= now)
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.unserved >= MAX_UNSERVED
    }

    pub(super) fn served(&mut self) {
        self.unserved = 0;
    }

    /// Records that a job which began at `began` hit the limit, which lasts until `reset` according to the API.
    pub(super) fn not_served(&mut self, now: Time, began: Time, reset: Option<Time>, why: &str) {
        // Jobs launched before the pause began count once.
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

    /// Resets the limit for a new process, which waits only for a time that the API named.
    pub(super) fn resumed(&mut self, waits_for_limits: bool) {
        self.unserved = 0;
        self.pause = self.pause.take().filter(|pause| pause.told && waits_for_limits);
    }

    /// Returns when launches are allowed again; none if they are.
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
            assert!(!service.is_exhausted());
            if served {
                service.served();
            }
        }
        service.not_served(Time(now + 1_000_001), Time(now + 1_000_000), None, "overloaded");
        assert!(service.is_exhausted());
    }

    #[test]
    fn a_later_process_heeds_what_the_service_said_and_nothing_else() {
        let not_served = |reset| {
            let mut service = Service::default();
            service.not_served(Time(1_000), Time(0), reset, "limit");
            service
        };
        for (reset, waits_for_limits, waits) in
            [(Some(Time(90_000)), true, true), (Some(Time(90_000)), false, false), (None, true, false)]
        {
            let mut service = not_served(reset);
            service.resumed(waits_for_limits);
            assert_eq!(!service.may_launch(Time(1_001)), waits, "{reset:?} {waits_for_limits}");
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
