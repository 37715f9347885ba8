//! Ends a command in order when a signal comes: cancels the program that it waits for and starts no other one, so that
//! the command returns, cleans up and says how far it came.
//!
//! Called by `git ship` and everything that runs below it (`git`, `github`). Must never end the process while a run
//! handles the signals.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::proc::{Canceller, Cmd, Ended, Exit};
use crate::signals;

/// Time that a cancelled program has to clean up.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

struct State {
    listens: bool,
    interrupted: bool,
    /// The program that the command waits for.
    running: Option<Canceller>,
    /// Whether a run handles the signals now.
    left_to_run: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { listens: false, interrupted: false, running: None, left_to_run: false });
static INTERRUPTED: Condvar = Condvar::new();

fn locked() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens for signals. The first one cancels the running program, the second one kills it; without one the second
/// signal terminates this process, which may be blocked on its output.
pub fn listen() -> Result<()> {
    signals::listen(|_, signal| {
        let mut state = locked();
        let again = std::mem::replace(&mut state.interrupted, true);
        INTERRUPTED.notify_all();
        match &state.running {
            Some(running) => running.cancel(if again { Duration::ZERO } else { GRACE_PERIOD }),
            None if again && !state.left_to_run => signals::terminate_by(signal),
            None => {}
        }
    })?;
    locked().listens = true;
    Ok(())
}

/// Returns whether a signal is handled here, so that no other listener may terminate the process.
pub fn listens() -> bool {
    locked().listens
}

/// Leaves the signals to a run. One that comes meanwhile still keeps `run` and `sleep` from going on after it.
pub fn left_to_run<T>(run: impl FnOnce() -> T) -> T {
    locked().left_to_run = true;
    let result = run();
    locked().left_to_run = false;
    result
}

/// Runs a program that a signal cancels. Returns none if a signal kept it from starting or from succeeding.
pub fn run(cmd: Cmd) -> io::Result<Option<Ended>> {
    let mut state = locked();
    if state.interrupted {
        return Ok(None);
    }
    let running = cmd.spawn()?;
    state.running = Some(running.canceller());
    drop(state);
    let ended = running.wait();
    locked().running = None;
    ended.map(|ended| (!ended.cancelled || ended.status == Exit::Code(0)).then_some(ended))
}

/// Waits; returns `false` as soon as a signal has come.
pub fn sleep(duration: Duration) -> bool {
    let waited = INTERRUPTED.wait_timeout_while(locked(), duration, |state| !state.interrupted);
    !waited.unwrap_or_else(PoisonError::into_inner).0.interrupted
}
