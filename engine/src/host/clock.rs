//! The host's clock: it never runs backwards or stops, even if the system clock is set back.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mahabharatha_core::ids::Time;

/// Longest wait before the clock is read again: a timeout does not count the time that the machine was suspended.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The system clock if it is ahead of the last reading, otherwise that reading plus the time elapsed since.
pub struct Clock(Cell<(Time, Instant)>);

impl Clock {
    /// Creates a clock that starts no earlier than `last`, the latest time in the journal.
    pub fn after(last: Time) -> Clock {
        Clock(Cell::new((last, Instant::now())))
    }

    pub fn now(&self) -> Time {
        self.advance(Time(Timestamp::now().as_millisecond()), Instant::now())
    }

    /// Receives a message, or times out at `until`.
    pub fn wait<T>(&self, inbox: &Receiver<T>, until: Time) -> Result<T, RecvTimeoutError> {
        wait_in_pieces(inbox, MAX_WAIT, || until.since(self.now()))
    }

    fn advance(&self, system: Time, now: Instant) -> Time {
        let (last, at) = self.0.get();
        let time = system.max(last + now.saturating_duration_since(at));
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
    fn a_wait_ends_on_time_after_the_machine_was_suspended() {
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
    fn time_advances_steadily_when_the_system_clock_jumps_back() {
        let (clock, start) = (Clock::after(Time(10_000)), Instant::now());
        let after = |ms| start + Duration::from_millis(ms);
        clock.advance(Time(10_000), start);
        assert_eq!(clock.advance(Time(11_000), after(1_000)), Time(11_000));
        assert_eq!(clock.advance(Time(2_000), after(1_500)), Time(11_500), "back by nine seconds");
        assert_eq!(clock.advance(Time(3_000), after(2_500)), Time(12_500));
        assert_eq!(clock.advance(Time(90_000), after(2_600)), Time(90_000), "ahead, as after a sleep");
        assert_eq!(clock.advance(Time(3_200), after(2_700)), Time(90_100));
    }
}
