//! Handles Ctrl-C while an agent or the user is being asked: kills what was started and exits, but never in the middle
//! of writing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mahabharatha_sys::error::Result;
use mahabharatha_sys::ui::{self, Flags, Style, Ui};
use mahabharatha_sys::{proc, signals};

/// Temporary directory to remove on exit.
static TEMP_DIR: Mutex<Option<PathBuf>> = Mutex::new(None);
/// What the user is told on exit.
static NOTE: Mutex<Option<&'static str>> = Mutex::new(None);
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

/// Sets what the user is told when a signal ends the process.
pub fn tell_on_exit(note: Option<&'static str>) {
    *NOTE.lock().unwrap_or_else(PoisonError::into_inner) = note;
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
        if let Some(note) = NOTE.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Ui::new(Flags::default()).tell(Style::Plain, note);
        }
        std::process::exit(code);
    };
    signals::listen(end)
}

/// Leaves the signals to a run that follows in the same process.
pub fn release_signals() {
    RELEASED.store(true, Ordering::SeqCst);
}
