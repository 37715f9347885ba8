//! The index of the user's checkout, kept from others while it changes together with the branch.
//!
//! Git itself reads an index before it locks it, so that what a person stages meanwhile would be lost. We take the lock
//! first, as git takes it, and have git work on a copy.

use std::fs::{self, File, FileTimes};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::store::atomic::TEMPORARY;

/// So long another git may be at work there before that counts as in the way.
const PATIENCE: Duration = Duration::from_secs(3);
/// What we write into the lock, to know it again should we be killed while we hold it.
const SIGN: &[u8] = b"mahabharatha is landing a level here\n";

/// Held until it is dropped.
pub(super) struct IndexLock {
    index: PathBuf,
    lock: PathBuf,
    copy: PathBuf,
}

impl IndexLock {
    /// Waits for a person's git, or an editor's; the lock's path where that takes too long. Who calls holds the
    /// integration lock, so that a lock with our sign is left from a process that was killed.
    pub fn take(index: &Path, copy: &Path) -> Result<Result<IndexLock, PathBuf>> {
        let lock = lock_of(index);
        let until = Instant::now() + PATIENCE;
        loop {
            match make_signed(&lock, copy) {
                Ok(()) => return Ok(Ok(IndexLock { index: index.to_owned(), lock, copy: copy.to_owned() })),
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(io("make", &lock)(error)),
                Err(_) if is_signed(&lock) => remove(&lock)?,
                Err(_) if Instant::now() > until => return Ok(Err(lock)),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Takes away what a process that was killed left. Who calls holds the integration lock.
    pub fn clear(index: &Path) -> Result<()> {
        let lock = lock_of(index);
        if is_signed(&lock) { remove(&lock) } else { Ok(()) }
    }

    /// Makes the copy as the index is now.
    pub fn copy(&self) -> Result<()> {
        remove(&lock_of(&self.copy))?;
        remove(&self.copy)?;
        match fs::copy(&self.index, &self.copy) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            copied => copied.map_err(io("copy", &self.index))?,
        };
        // By this git knows which files could have been changed within the clock's resolution.
        let written = fs::metadata(&self.index).and_then(|found| found.modified()).map_err(io("read", &self.index))?;
        let copy = File::options().write(true).open(&self.copy).map_err(io("write", &self.copy))?;
        copy.set_times(FileTimes::new().set_modified(written)).map_err(io("write", &self.copy))
    }

    /// Makes the index as the copy is now.
    pub fn install(&self) -> Result<()> {
        fs::rename(&self.copy, &self.index).map_err(io("write", &self.index))
    }
}

impl Drop for IndexLock {
    /// Left behind, it would be known by its sign.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.copy);
        crash::point(|| "index lock before its end");
        let _ = fs::remove_file(&self.lock);
    }
}

fn is_signed(lock: &Path) -> bool {
    fs::read(lock).is_ok_and(|text| text == SIGN)
}

/// Never seen without its sign: made beside the copy, where it is in nobody's way. Fails where there is one already.
fn make_signed(lock: &Path, copy: &Path) -> std::io::Result<()> {
    let dir = copy.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(dir)?;
    file.write_all(SIGN)?;
    crash::point(|| "index lock signed");
    file.persist_noclobber(lock).map(drop).map_err(|error| error.error)
}

fn lock_of(index: &Path) -> PathBuf {
    let mut name = index.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io("remove", path)(error)),
        _ => Ok(()),
    }
}
