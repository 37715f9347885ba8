//! The index of staging's worktree, kept in memory between commands: a command could write anything into the file, and
//! without it every file would be written anew, with a new time, so that builds in the worktree would start over.

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use mahabharatha_sys::error::{Result, io};

/// What the files were when last set, if that is known. Shared by everything that one process does in staging.
#[derive(Clone, Default)]
pub struct KnownFiles(Arc<Mutex<Option<Index>>>);

struct Index {
    bytes: Vec<u8>,
    written: SystemTime,
}

impl KnownFiles {
    /// Makes the index file what it was when it was remembered.
    pub(super) fn restore(&self, path: &Path) -> Result<()> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Index { bytes, written }) => {
                fs::write(path, bytes).map_err(io("write", path))?;
                // By the index's own time git tells which files may have changed in the same instant.
                let file = File::options().write(true).open(path).map_err(io("write", path))?;
                file.set_modified(*written).map_err(io("write", path))
            }
            None => match fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", path)(error)),
                _ => Ok(()),
            },
        }
    }

    /// To be called before any command of others can have written to the file.
    pub(super) fn remember(&self, path: &Path) -> Result<Vec<u8>> {
        let bytes = fs::read(path).map_err(io("read", path))?;
        let written = fs::metadata(path).and_then(|found| found.modified()).map_err(io("read", path))?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Index { bytes: bytes.clone(), written });
        Ok(bytes)
    }
}
