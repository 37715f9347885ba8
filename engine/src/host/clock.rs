//! Time that never goes back and never stands still, whatever the machine's clock does.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mahabharatha_core::ids::Time;

/// Who waits does not notice that the machine slept meanwhile, so the time is looked at now and then.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

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

    /// What comes before that time.
    pub fn wait<T>(&self, inbox: &Receiver<T>, until: Time) -> Result<T, RecvTimeoutError> {
        wait_in_pieces(inbox, LONGEST_WAIT, || until.since(self.now()))
    }

    fn told(&self, clock: Time, now: Instant) -> Time {
        let (last, at) = self.0.get();
        let time = clock.max(last + now.saturating_duration_since(at));
        self.0.set((time, now));
        time
    }
}

fn wait_in_pieces<T>(
    inbox: &Receiver<T>,
    longest: Duration,
    left: impl Fn() -> Duration,
) -> Result<T, RecvTimeoutError> {
    loop {
        let left = left();
        match inbox.recv_timeout(left.min(longest)) {
            Err(RecvTimeoutError::Timeout) if left > longest => {}
            received => return received,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_is_waited_for_comes_in_time_though_the_machine_slept() {
        let (sender, inbox) = mpsc::channel();
        let hours_left = Cell::new(10);
        let left = || Duration::from_secs(3_600 * hours_left.replace(hours_left.get() / 2));
        let piece = Duration::from_millis(1);
        assert_eq!(wait_in_pieces(&inbox, piece, left), Err(RecvTimeoutError::Timeout));
        assert_eq!(hours_left.get(), 0);
        sender.send(7).unwrap();
        assert_eq!(wait_in_pieces(&inbox, piece, || Duration::from_secs(3_600)), Ok(7));
    }

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
