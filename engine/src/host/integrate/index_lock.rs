//! Locks the index of the user's checkout while a level lands there.
//!
//! Git reads an index before it locks it, so what the user stages in between would be lost. We create git's lock file
//! first and have git work on a copy of the index.

use std::fs::{self, File, FileTimes};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use mahabharatha_sys::bounded::{self, INDEX_BYTES};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::store::atomic::TEMPORARY;
use mahabharatha_sys::store::tree::remove_file;

/// How long to wait for another git command to release the index.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);
/// Contents of our lock file, by which we recognize it if we are killed while holding it.
const SIGNATURE: &[u8] = b"mahabharatha is landing a level here\n";

/// The held lock, released on drop.
pub(super) struct IndexLock {
    index: PathBuf,
    lock: PathBuf,
    copy: PathBuf,
    /// A process of ours was killed while it held the lock.
    pub was_left_behind: bool,
}

impl IndexLock {
    /// Takes the lock, waiting for the git of the user or an editor; returns the lock's path if that takes too long.
    /// The caller holds the integration lock, so a lock with our signature is left over from a killed process.
    pub fn take(index: &Path, copy: &Path) -> Result<Result<IndexLock, PathBuf>> {
        let lock = lock_of(index);
        let until = Instant::now() + LOCK_TIMEOUT;
        let mut was_left_behind = false;
        loop {
            match make_signed(&lock, copy) {
                Ok(()) => {
                    let (index, copy) = (index.to_owned(), copy.to_owned());
                    return Ok(Ok(IndexLock { index, lock, copy, was_left_behind }));
                }
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(io("make", &lock)(error)),
                Err(_) if is_signed(&lock) => {
                    was_left_behind = true;
                    remove_file(&lock)?;
                }
                Err(_) if Instant::now() > until => return Ok(Err(lock)),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Removes the lock that a killed process left. The caller holds the integration lock.
    pub fn clear(index: &Path) -> Result<()> {
        let lock = lock_of(index);
        if is_signed(&lock) { remove_file(&lock) } else { Ok(()) }
    }

    /// Copies the index.
    pub fn copy(&self) -> Result<()> {
        remove_file(&lock_of(&self.copy))?;
        remove_file(&self.copy)?;
        match copy_index(&self.index, &self.copy) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            copied => copied.map_err(io("copy", &self.index))?,
        };
        // Git compares the index's time with those of files to detect changes within the clock's resolution.
        let written = fs::metadata(&self.index).and_then(|found| found.modified()).map_err(io("read", &self.index))?;
        let copy = File::options().write(true).open(&self.copy).map_err(io("write", &self.copy))?;
        copy.set_times(FileTimes::new().set_modified(written)).map_err(io("write", &self.copy))
    }

    /// Replaces the index with the copy.
    pub fn install(&self) -> Result<()> {
        fs::rename(&self.copy, &self.index).map_err(io("write", &self.index))
    }
}

impl Drop for IndexLock {
    /// Ignores errors: a lock that is left behind is recognized by its signature.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.copy);
        crash::point(|| "index lock before its end");
        let _ = fs::remove_file(&self.lock);
    }
}

/// Copies an index with its permissions. Refuses what is no file, or too large for an index.
pub(super) fn copy_index(from: &Path, to: &Path) -> std::io::Result<()> {
    let source = bounded::open(from)?;
    let found = source.metadata()?;
    if found.len() > INDEX_BYTES {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let mut target = File::create(to)?;
    std::io::copy(&mut source.take(INDEX_BYTES), &mut target)?;
    target.set_permissions(found.permissions())
}

fn is_signed(lock: &Path) -> bool {
    bounded::read(lock, SIGNATURE.len() as u64).is_ok_and(|text| text == SIGNATURE)
}

/// Creates the lock with its signature in one step, from a temporary file next to the copy. Fails if the lock exists.
fn make_signed(lock: &Path, copy: &Path) -> std::io::Result<()> {
    let dir = copy.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(dir)?;
    file.write_all(SIGNATURE)?;
    crash::point(|| "index lock signed");
    file.persist_noclobber(lock).map(drop).map_err(|error| error.error)
}

fn lock_of(index: &Path) -> PathBuf {
    let mut name = index.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}
