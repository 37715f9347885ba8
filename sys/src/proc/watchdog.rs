//! Watchdog: a small process of ours that outlives the process that started a program, just long enough to kill the
//! program if its starter is killed.

use std::io;
use std::path::{Path, PathBuf};

use super::{Cmd, Feed, Running, system};

/// Environment variable that identifies the processes of a job, even those that detached. Its value is a path in our
/// state directory, so that no two repositories share one.
pub const MARKER: &str = "MAHABHARATHA_JOB";

/// Returns a mark below this directory that is unique to what this process starts.
pub fn own_mark(dir: &Path) -> PathBuf {
    dir.join(std::process::id().to_string())
}

/// While this value lives, every process with the mark is killed if we die.
pub(super) struct Watchdog {
    /// Blocks on its standard input, which we hold open: end of file tells it that we died.
    _watcher: Box<Running>,
}

impl Watchdog {
    pub fn new(mark: &Path) -> io::Result<Watchdog> {
        let watcher =
            Cmd::new(own_program()?).arg("watchdog").arg(mark).cwd("/").stdin_from(Feed::default()).spawn()?;
        Ok(Watchdog { _watcher: Box::new(watcher) })
    }
}

/// Returns the path of the running executable; on Linux even if its file was replaced or removed.
pub fn own_program() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    if program.exists() { Ok(program) } else { system::removed_program() }
}
