//! Circuit breaker: stops launching when workers die right after their start.

use std::time::Duration;

use super::effect::EffectId;
use crate::ids::Time;

/// A worker that ends without a result within this time died early. Assumed for a worker whose end no process watched.
pub const MIN_LIFETIME: Duration = Duration::from_secs(2);
/// Early deaths in a row that open the breaker.
const DEATHS_TO_OPEN: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaker {
    Closed {
        deaths: u32,
    },
    /// No launches until then.
    Open {
        until: Time,
    },
    /// One launch is allowed, to see whether it lives.
    HalfOpen {
        probe: Option<EffectId>,
    },
}

impl Breaker {
    pub(super) fn may_launch(&self) -> bool {
        matches!(self, Breaker::Closed { .. } | Breaker::HalfOpen { probe: None })
    }

    pub(super) fn launched(&mut self, job: EffectId) {
        if let Breaker::HalfOpen { probe } = self {
            *probe = Some(job);
        }
    }

    /// Ignores a cancelled job; if it was the probe, allows another one.
    pub(super) fn cancelled(&mut self, job: EffectId) {
        if *self == (Breaker::HalfOpen { probe: Some(job) }) {
            *self = Breaker::HalfOpen { probe: None };
        }
    }

    pub(super) fn died_early(&mut self, now: Time, cooldown: Duration) {
        self.cool(now);
        let deaths = match self {
            Breaker::Closed { deaths } => *deaths + 1,
            Breaker::HalfOpen { .. } => DEATHS_TO_OPEN,
            Breaker::Open { .. } => return,
        };
        *self =
            if deaths >= DEATHS_TO_OPEN { Breaker::Open { until: now + cooldown } } else { Breaker::Closed { deaths } };
    }

    /// Closes the breaker: a job ended in any way but an early death.
    pub(super) fn lived(&mut self, now: Time) {
        self.cool(now);
        if !matches!(self, Breaker::Open { .. }) {
            *self = Breaker::Closed { deaths: 0 };
        }
    }

    pub(super) fn cool(&mut self, now: Time) {
        if let Breaker::Open { until } = *self
            && until <= now
        {
            *self = Breaker::HalfOpen { probe: None };
        }
    }

    pub(super) fn wakeup(&self) -> Option<Time> {
        match self {
            Breaker::Open { until } => Some(*until),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOLDOWN: Duration = Duration::from_secs(60);

    #[test]
    fn opens_after_consecutive_deaths_only() {
        let mut breaker = Breaker::Closed { deaths: 0 };
        for _ in 0..2 {
            breaker.died_early(Time(0), COOLDOWN);
        }
        breaker.lived(Time(5));
        for _ in 0..2 {
            breaker.died_early(Time(0), COOLDOWN);
        }
        assert!(breaker.may_launch());
        breaker.died_early(Time(0), COOLDOWN);
        assert_eq!(breaker, Breaker::Open { until: Time(60_000) });
        assert!(!breaker.may_launch());
    }

    #[test]
    fn half_opens_for_one_probe_and_closes_when_it_lives() {
        let mut breaker = Breaker::Open { until: Time(5) };
        breaker.cool(Time(4));
        assert!(!breaker.may_launch());
        breaker.cool(Time(5));
        assert!(breaker.may_launch());
        breaker.launched(EffectId(7));
        assert!(!breaker.may_launch());
        breaker.lived(Time(5));
        assert_eq!(breaker, Breaker::Closed { deaths: 0 });
    }

    #[test]
    fn a_death_after_the_cooldown_opens_it_again() {
        let mut breaker = Breaker::Open { until: Time(5) };
        breaker.died_early(Time(4), COOLDOWN);
        assert_eq!(breaker, Breaker::Open { until: Time(5) });
        breaker.died_early(Time(6), COOLDOWN);
        assert_eq!(breaker, Breaker::Open { until: Time(60_006) });
    }

    #[test]
    fn sends_another_probe_when_the_first_is_cancelled() {
        let mut breaker = Breaker::HalfOpen { probe: Some(EffectId(7)) };
        breaker.cancelled(EffectId(6));
        assert!(!breaker.may_launch());
        breaker.cancelled(EffectId(7));
        assert!(breaker.may_launch());
    }

    #[test]
    fn opens_again_when_the_probe_dies() {
        let mut breaker = Breaker::HalfOpen { probe: Some(EffectId(7)) };
        breaker.died_early(Time(0), COOLDOWN);
        assert_eq!(breaker, Breaker::Open { until: Time(60_000) });
    }
}
