//! The end of a program whose starter is killed: a process of ours outlives the starter just long enough to see to it.

use std::io;
use std::path::{Path, PathBuf};

use super::{Cmd, Feed, Running};

/// The environment variable that tells which directory of ours a process belongs to, also when it has escaped. A path, so
/// that no other repository has the same.
pub const MARKER: &str = "MAHABHARATHA_JOB";

/// A mark below this directory that nobody has but what this process starts.
pub fn own_mark(dir: &Path) -> PathBuf {
    dir.join(std::process::id().to_string())
}

/// While it lives, our death is the end of every process with this mark.
pub(super) struct Watchdog {
    /// Reads its input, which we hold open; that it ends is all that it learns of us.
    _watcher: Box<Running>,
}

impl Watchdog {
    pub fn new(mark: &Path) -> io::Result<Watchdog> {
        let watcher = Cmd::new(own_program()?).arg("watchdog").arg(mark).cwd("/").fed_by(Feed::default()).spawn()?;
        Ok(Watchdog { _watcher: Box::new(watcher) })
    }
}

/// The program that is running now, also where another has taken its place on the disk.
fn own_program() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(if program.exists() { program } else { PathBuf::from("/proc/self/exe") })
}
