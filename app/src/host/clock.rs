//! Time that never goes back and never stands still, whatever the machine's clock does.

use std::cell::Cell;
use std::time::Instant;

use jiff::Timestamp;
use mahabharatha_core::ids::Time;

/// The machine's clock where that is ahead; else on from the last time that was told, as fast as time passes.
pub struct Clock(Cell<(Time, Instant)>);

impl Clock {
    /// `last` is the latest time that the journal has.
    pub fn after(last: Time) -> Clock {
        Clock(Cell::new((last, Instant::now())))
    }

    pub fn now(&self) -> Time {
        self.told(Time(Timestamp::now().as_millisecond()), Instant::now())
    }

    fn told(&self, clock: Time, now: Instant) -> Time {
        let (last, at) = self.0.get();
        let time = clock.max(last + now.saturating_duration_since(at));
        self.0.set((time, now));
        time
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_jumps_back_is_gone_past_at_the_speed_of_time() {
        let (clock, start) = (Clock::after(Time(10_000)), Instant::now());
        let after = |ms| start + Duration::from_millis(ms);
        clock.told(Time(10_000), start);
        assert_eq!(clock.told(Time(11_000), after(1_000)), Time(11_000));
        assert_eq!(clock.told(Time(2_000), after(1_500)), Time(11_500), "back by nine seconds");
        assert_eq!(clock.told(Time(3_000), after(2_500)), Time(12_500));
        assert_eq!(clock.told(Time(90_000), after(2_600)), Time(90_000), "ahead, as after a sleep");
        assert_eq!(clock.told(Time(3_200), after(2_700)), Time(90_100));
    }
}
