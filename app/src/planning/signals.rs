//! Ctrl-C while an agent is asked, or a person: everything ends, but never in the middle of writing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::ExitCode;
use crate::proc;

static WRITING: Mutex<()> = Mutex::new(());

/// No signal ends the process while this is held.
pub fn uninterrupted() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on a signal ends what was started, and then us.
pub fn end_on_signals() {
    // Who started us with `nohup` wants us to outlive the terminal.
    let hangup = (!proc::ignores(SIGHUP)).then_some(SIGHUP);
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM].into_iter().chain(hangup)) else { return };
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _nobody_writes = uninterrupted();
            proc::end_descendants(Duration::ZERO);
            std::process::exit(ExitCode::Stopped as i32);
        }
    });
}
