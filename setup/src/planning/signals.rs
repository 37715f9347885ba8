//! Handles Ctrl-C while an agent or the user is being asked: kills what was started and exits, but never in the middle
//! of writing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mahabharatha_sys::error::{Error, Result};
use mahabharatha_sys::{proc, signals, ui};

/// Temporary directory to remove on exit.
static TEMP_DIR: Mutex<Option<PathBuf>> = Mutex::new(None);
static WRITING: Mutex<()> = Mutex::new(());
/// Whether a run listens for the signals now.
static RELEASED: AtomicBool = AtomicBool::new(false);

/// Keeps signals from ending the process while the guard is held.
pub fn uninterrupted() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks forever if a signal is ending this process. Call it before reporting how a program ended: the signal may have
/// killed it.
pub fn wait_if_exiting() {
    drop(uninterrupted());
}

/// Removes the directory when a signal ends the process.
pub fn remove_on_exit(dir: &Path) {
    *TEMP_DIR.lock().unwrap_or_else(PoisonError::into_inner) = Some(dir.to_owned());
}

/// Installs the signal handler, which kills every program that was started and then exits.
pub fn exit_on_signals(code: i32) -> Result<()> {
    let end = move |_, _| {
        if RELEASED.load(Ordering::SeqCst) {
            return;
        }
        let _whole = uninterrupted();
        proc::end_descendants(Duration::ZERO);
        if let Some(dir) = TEMP_DIR.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = fs::remove_dir_all(dir);
        }
        ui::restore_terminal();
        std::process::exit(code);
    };
    signals::listen(end).map_err(Error::caused("cannot listen for signals"))
}

/// Leaves the signals to a run that follows in the same process.
pub fn release_signals() {
    RELEASED.store(true, Ordering::SeqCst);
}
