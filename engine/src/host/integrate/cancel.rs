//! Calling off what runs, from another thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use mahabharatha_sys::proc::Canceller;

/// Shared between who integrates and who may call it off. Once cancelled, it stays so.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    cancelled: Option<Duration>,
    running: Option<Canceller>,
    /// Wakes who waits for something that cannot be ended.
    wake: Option<Box<dyn FnOnce() + Send>>,
}

impl Cancel {
    /// Ends the command that runs, with everything below it, and lets no other start. `grace` is the time after SIGTERM.
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

    /// What `wait` returns, or nothing once cancelled; what comes later is dropped.
    pub fn unless_cancelled<T: Send + 'static>(&self, wait: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, news) = mpsc::channel();
        let waker = sender.clone();
        let mut state = self.state();
        if state.cancelled.is_some() {
            return None;
        }
        state.wake = Some(Box::new(move || drop(waker.send(None))));
        drop(state);
        thread::spawn(move || sender.send(Some(wait())));
        news.recv().ok().flatten()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.state().cancelled.is_some()
    }

    /// To be told of every command that starts, so that none slips through.
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
