//! What a running program is still to read.

use std::io::{ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The way to a program's standard input. Whoever gives something while the program runs does so from its listener.
#[derive(Clone, Default)]
pub struct Feed(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    closed: bool,
}

impl Feed {
    pub fn give(&self, bytes: impl Into<Vec<u8>>) {
        self.state().waiting.append(&mut bytes.into());
    }

    /// Nothing more is to come.
    pub fn close(&self) {
        self.state().closed = true;
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.state().waiting.is_empty()
    }

    /// Writes what the pipe takes; `false` when that was the last of it.
    pub(super) fn pass_on(&self, pipe: &mut impl Write) -> bool {
        let mut state = self.state();
        while !state.waiting.is_empty() {
            match pipe.write(&state.waiting) {
                Ok(count) => drop(state.waiting.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                // It does not want to read on; that is its affair.
                Err(_) => return false,
            }
        }
        !state.closed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
