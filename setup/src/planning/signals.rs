//! Ctrl-C while an agent or a person is asked: everything ends, but never in the middle of writing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mahabharatha_sys::error::{Error, ExitCode, Result};
use mahabharatha_sys::{proc, signals, ui};

/// A temporary directory to remove at the end.
static LEFT: Mutex<Option<PathBuf>> = Mutex::new(None);
static WRITING: Mutex<()> = Mutex::new(());

/// No signal ends the process while this is held.
pub fn uninterrupted() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does not return while a signal is ending this process: what it did to a program need not be reported then.
pub fn let_end() {
    drop(uninterrupted());
}

pub fn remove_at_end(dir: &Path) {
    *LEFT.lock().unwrap_or_else(PoisonError::into_inner) = Some(dir.to_owned());
}

/// From now on a signal ends what was started, and then this process.
pub fn end_on_signals() -> Result<()> {
    let end = |_, _| {
        let _whole = uninterrupted();
        proc::end_descendants(Duration::ZERO);
        if let Some(dir) = LEFT.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = fs::remove_dir_all(dir);
        }
        ui::restore_terminal();
        std::process::exit(ExitCode::Stopped as i32);
    };
    signals::listen(end).map_err(|error| Error::new(ExitCode::Failed, format!("cannot listen for signals: {error}")))
}
