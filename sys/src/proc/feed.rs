//! Buffer for the standard input of a running program.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffer that feeds a program's standard input. While the program runs, only its output listener may add to it: the
/// buffer is written out after each round of reading.
#[derive(Clone, Default)]
pub struct Feed(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    pending: VecDeque<u8>,
    closed: bool,
    stop: Option<Vec<u8>>,
}

impl Feed {
    pub fn give(&self, bytes: impl Into<Vec<u8>>) {
        self.state().pending.extend(bytes.into());
    }

    /// Closes the program's standard input once everything in the buffer is written.
    pub fn close(&self) {
        self.state().closed = true;
    }

    /// Sets what is written to make the program end. SIGTERM follows if it does not react.
    pub fn stop_with(&self, bytes: impl Into<Vec<u8>>) {
        self.state().stop = Some(bytes.into());
    }

    pub(super) fn take_stop(&self) -> Option<Vec<u8>> {
        self.state().stop.take()
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.state().pending.is_empty()
    }

    /// Writes as much as the pipe accepts; returns `false` when nothing more will be written.
    pub(super) fn write_pending(&self, pipe: &mut impl Write) -> bool {
        let mut state = self.state();
        while !state.pending.is_empty() {
            match pipe.write(state.pending.as_slices().0) {
                Ok(count) => drop(state.pending.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                // The program has closed its standard input: not an error of ours.
                Err(_) => return false,
            }
        }
        !state.closed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
