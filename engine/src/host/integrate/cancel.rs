//! Cancels integration from another thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use mahabharatha_sys::proc::Canceller;

/// Cancel switch shared by the integrating thread and the host. Cancelling is final.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    cancelled: Option<Duration>,
    running: Option<Canceller>,
    /// Wakes a thread in `unless_cancelled`.
    wake: Option<Box<dyn FnOnce() + Send>>,
}

impl Cancel {
    /// Ends the running command with all its descendants and prevents further ones. `grace` is the time between SIGTERM
    /// and SIGKILL.
    pub fn cancel(&self, grace: Duration) {
        let mut state = self.state();
        state.cancelled = Some(grace);
        if let Some(running) = &state.running {
            running.cancel(grace);
        }
        if let Some(wake) = state.wake.take() {
            wake();
        }
    }

    /// Returns the result of `wait`, or none once cancelled; `wait` then finishes in the background and its result is
    /// dropped.
    pub fn unless_cancelled<T: Send + 'static>(&self, wait: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, results) = mpsc::channel();
        let waker = sender.clone();
        let mut state = self.state();
        if state.cancelled.is_some() {
            return None;
        }
        state.wake = Some(Box::new(move || drop(waker.send(None))));
        drop(state);
        thread::spawn(move || sender.send(Some(wait())));
        results.recv().ok().flatten()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.state().cancelled.is_some()
    }

    /// Registers a command that has started, and ends it if integration is already cancelled.
    pub(super) fn watch(&self, running: Canceller) {
        let mut state = self.state();
        if let Some(grace) = state.cancelled {
            running.cancel(grace);
        }
        state.running = Some(running);
    }

    pub(super) fn unwatch(&self) {
        self.state().running = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
