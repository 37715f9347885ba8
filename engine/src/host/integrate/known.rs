//! The index of the staging worktree, kept in memory between commands, because a command could tamper with the file.
//!
//! Without an index git would rewrite every file with a new modification time, and builds would start from scratch.

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use mahabharatha_sys::bounded::{self, INDEX_BYTES};
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::store::atomic::write_projected;
use mahabharatha_sys::store::tree::remove_file;

/// The index as of the last `set_to`, if any. Shared by all users of the staging worktree in one process.
#[derive(Clone, Default)]
pub struct KnownFiles(Arc<Mutex<Option<Index>>>);

struct Index {
    bytes: Vec<u8>,
    written: SystemTime,
}

impl KnownFiles {
    /// Writes the remembered index to the file, or removes the file if there is none.
    pub(super) fn restore(&self, path: &Path) -> Result<()> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Index { bytes, written }) => {
                write_projected(path, bytes)?;
                // Git compares the index's time with those of files to detect changes within the clock's resolution.
                let file = File::options().write(true).open(path).map_err(io("write", path))?;
                file.set_modified(*written).map_err(io("write", path))
            }
            None => remove_file(path),
        }
    }

    /// Remembers the index and returns it. Must be called before a command of the project can have written to the file.
    pub(super) fn remember(&self, path: &Path) -> Result<Vec<u8>> {
        let bytes = bounded::read(path, INDEX_BYTES).map_err(io("read", path))?;
        let written = fs::metadata(path).and_then(|found| found.modified()).map_err(io("read", path))?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Index { bytes: bytes.clone(), written });
        Ok(bytes)
    }
}
