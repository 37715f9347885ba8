//! Events that have arrived at the host, in their order; but a stop overtakes the others.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use mahabharatha_core::ids::Time;
use mahabharatha_core::run::event::{Command, Event};

use super::clock::Clock;

/// Events that have arrived, in order, except that a stop is taken first: fifty workers may report at the same moment,
/// and each of their events may take as long as the start of a process.
pub struct Inbox {
    arriving: Receiver<Event>,
    arrived: VecDeque<Event>,
}

impl Inbox {
    pub fn new(arriving: Receiver<Event>) -> Inbox {
        Inbox { arriving, arrived: VecDeque::new() }
    }

    /// Returns the next event that has already arrived.
    pub fn take(&mut self) -> Option<Event> {
        self.arrived.extend(self.arriving.try_iter());
        let stop = self.arrived.iter().position(is_stop);
        self.arrived.remove(stop.unwrap_or(0))
    }

    /// Waits for the next event; none if it does not come until this time.
    pub fn wait(&mut self, clock: &Clock, until: Option<Time>) -> Option<Event> {
        if let Some(event) = self.take() {
            return Some(event);
        }
        let received = match until {
            None => self.arriving.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => clock.wait(&self.arriving, until),
        };
        match received {
            Err(RecvTimeoutError::Timeout) => None,
            received => Some(received.expect("the host itself keeps a sender")),
        }
    }
}

fn is_stop(event: &Event) -> bool {
    matches!(event, Event::Asked { command: Command::Stop { .. }, .. })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_stop_overtakes_what_arrived_before_it() {
        let (sender, arriving) = mpsc::channel();
        let asked = |request: &str, command| Event::Asked { request: request.to_string(), command };
        let stop = |request| asked(request, Command::Stop { force: false, grace_ms: 0, worker: None });
        let events = [Event::Woke, asked("1", Command::Pause), stop("2"), asked("3", Command::Resume), stop("4")];
        events.iter().for_each(|event| sender.send(event.clone()).unwrap());
        let clock = Clock::after(Time(0));
        let mut inbox = Inbox::new(arriving);
        let order = [2, 4, 0, 1, 3].map(|index| Some(events[index].clone()));
        assert_eq!([(); 5].map(|()| inbox.wait(&clock, None)), order);
        assert_eq!((inbox.take(), inbox.wait(&clock, Some(Time(0)))), (None, None));
    }
}
