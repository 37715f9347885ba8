//! Ctrl-C while an agent is asked, or a person: everything ends, but never in the middle of writing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use mahabharatha_sys::error::ExitCode;
use mahabharatha_sys::proc;
use mahabharatha_sys::ui;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A temporary directory that goes with us.
static LEFT: Mutex<Option<PathBuf>> = Mutex::new(None);
static WRITING: Mutex<()> = Mutex::new(());

/// No signal ends the process while this is held.
pub fn uninterrupted() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does not return where a signal is about to end us: what it did to a program is no news then.
pub fn let_end() {
    drop(uninterrupted());
}

pub fn remove_at_end(dir: &Path) {
    *LEFT.lock().unwrap_or_else(PoisonError::into_inner) = Some(dir.to_owned());
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
            if let Some(dir) = LEFT.lock().unwrap_or_else(PoisonError::into_inner).take() {
                let _ = fs::remove_dir_all(dir);
            }
            ui::restore_terminal();
            std::process::exit(ExitCode::Stopped as i32);
        }
    });
}
