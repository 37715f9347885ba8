//! Coordinates which worker fills the API's prompt cache: one file for each prefix that requests share.
//!
//! The worker that fills the cache holds the lock on the file, which the kernel releases if the worker dies. Once the
//! cache is filled the file has content, and its modification time says since when.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::atomic::make_dir;
use super::locks::OsLock;
use crate::error::{Result, io};

/// Time for which the API caches an unused prefix.
const CACHE_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// What a worker must do before it sends its first request.
#[derive(Debug)]
pub enum Turn {
    /// Nothing: the cache is filled.
    Warm,
    /// Fill the cache.
    Fill(Filling),
    /// Call `wait`: another worker is filling the cache.
    Wait,
}

/// Held by the one worker that fills the cache. If dropped without `filled`, the next worker fills it.
#[derive(Debug)]
pub struct Filling(OsLock);

/// Returns this worker's turn, without waiting.
pub fn enter(path: &Path) -> Result<Turn> {
    if let Some(dir) = path.parent() {
        make_dir(dir)?;
    }
    if is_warm(path) {
        return Ok(Turn::Warm);
    }
    Ok(OsLock::try_acquire(path)?.map_or(Turn::Wait, |lock| turn(path, lock)))
}

/// Waits until no other worker fills the cache.
pub fn wait(path: &Path) -> Result<Turn> {
    OsLock::wait(path).map(|lock| turn(path, lock))
}

fn turn(path: &Path, lock: OsLock) -> Turn {
    if is_warm(path) { Turn::Warm } else { Turn::Fill(Filling(lock)) }
}

fn is_warm(path: &Path) -> bool {
    let since = fs::metadata(path).ok().filter(|found| found.len() > 0).and_then(|found| found.modified().ok());
    since.and_then(|since| since.elapsed().ok()).is_some_and(|age| age < CACHE_LIFETIME)
}

impl Filling {
    /// Tells the waiting workers that the cache is filled.
    pub fn filled(self, path: &Path) -> Result<()> {
        self.0.write("filled\n").map_err(io("write", path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn one_worker_fills_the_cache_and_the_others_wait_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slots/a.cache");
        let Turn::Fill(first) = enter(&path).unwrap() else { panic!("it is the first") };
        assert!(matches!(enter(&path).unwrap(), Turn::Wait));
        assert!(matches!(enter(&dir.path().join("slots/b.cache")).unwrap(), Turn::Fill(_)));
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || wait(&path).unwrap()
        });
        first.filled(&path).unwrap();
        assert!(matches!(waiting.join().unwrap(), Turn::Warm));
        assert!(matches!(enter(&path).unwrap(), Turn::Warm));
        let long_ago = SystemTime::now() - CACHE_LIFETIME;
        File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        assert!(matches!(enter(&path).unwrap(), Turn::Fill(_)), "the cache has expired");
    }

    #[test]
    fn the_next_worker_fills_the_cache_if_the_first_one_did_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.cache");
        let Turn::Fill(first) = enter(&path).unwrap() else { panic!("it is the first") };
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || wait(&path).unwrap()
        });
        drop(first);
        assert!(matches!(waiting.join().unwrap(), Turn::Fill(_)));
    }
}
