//! Access to the directory of one task list, which the client uses at the same time. Follows the client's rules: a lock
//! is a directory, and a file may only be changed while its lock is held. All access goes through the open directory,
//! so that a symlink put in its place has no effect.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use mahabharatha_sys::error::{Error, Kind, Result, io as cannot};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, open, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use serde_json::{Map, Value};

/// Age at which a lock or temporary file counts as left behind by a process that died.
pub const STALE_AFTER: Duration = Duration::from_secs(20);
/// Time for which an incomplete file counts as still being written.
const MAX_WRITE_TIME: Duration = Duration::from_secs(2);
/// Larger files are not tasks of the client.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// A directory with more files is not a task list.
const MAX_FILES: usize = 100_000;
/// File with the highest id that was ever used, including those of removed files.
const HIGH_WATER_MARK: &str = ".highwatermark";
/// Higher ids are ignored as corrupt.
const MAX_ID: u64 = 1 << 50;
/// Name of the lock for creating files.
const LIST_LOCK: &str = ".lock";
/// Prefix of our temporary files.
const TEMP_PREFIX: &str = ".mahabharatha-";

pub struct ListDir {
    fd: OwnedFd,
    path: PathBuf,
}

/// Content of a file of the list.
pub enum Content {
    Task(Map<String, Value>),
    /// Incomplete: the client, which writes in place, is probably writing it now.
    BeingWritten,
    /// The file is gone, or is not a task.
    Nothing,
}

/// A lock that is held until it is dropped.
pub struct Lock<'a> {
    dir: &'a ListDir,
    name: String,
}

impl ListDir {
    /// Opens a list; `None` if it does not exist.
    pub fn open(home: &Path, list: &str) -> Result<Option<ListDir>> {
        match fs::metadata(home) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => ListDir::descend(home, list, false),
        }
    }

    /// Opens a list, and creates it if it does not exist.
    pub fn create(home: &Path, list: &str) -> Result<ListDir> {
        fs::create_dir_all(home).map_err(cannot("create", home))?;
        let created = ListDir::descend(home, list, true)?;
        created.ok_or_else(|| {
            Error::new(Kind::Failed, format!("{} was removed while it was being opened", home.display()))
        })
    }

    fn descend(home: &Path, list: &str, create: bool) -> Result<Option<ListDir>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut fd = open(home, flags, Mode::empty()).map_err(|errno| cannot("open", home)(errno.into()))?;
        let mut path = home.to_owned();
        for name in ["tasks", list] {
            path.push(name);
            if create {
                match mkdirat(&fd, name, Mode::from_raw_mode(0o700)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(cannot("create", &path)(errno.into())),
                }
            }
            fd = match openat(&fd, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(fd) => fd,
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let message = format!("{} is a symbolic link or a file, not a directory", path.display());
                    return Err(Error::new(Kind::Failed, message));
                }
                Err(errno) => return Err(cannot("open", &path)(errno.into())),
            };
        }
        Ok(Some(ListDir { fd, path }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns device and inode, which tell this directory from a later one at the same path.
    pub fn identity(&self) -> Option<(u64, u64)> {
        let found = File::from(self.fd.try_clone().ok()?).metadata().ok()?;
        Some((found.dev(), found.ino()))
    }

    /// Returns the ids that have a file, in ascending order.
    pub fn ids(&self) -> Result<Vec<u64>> {
        let mut ids = Vec::new();
        let entries = Dir::read_from(&self.fd).map_err(|errno| cannot("read", &self.path)(errno.into()))?;
        for (count, entry) in entries.flatten().enumerate() {
            if count > MAX_FILES {
                let message = format!("{} has more than {MAX_FILES} files", self.path.display());
                return Err(Error::new(Kind::Failed, message));
            }
            ids.extend(id_of(entry.file_name()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    pub fn next_id(&self) -> Result<u64> {
        let highest = self.ids()?.last().copied().unwrap_or_default();
        Ok(highest.max(self.high_water_mark()) + 1)
    }

    fn high_water_mark(&self) -> u64 {
        let text = self.read_named(HIGH_WATER_MARK).map(|(text, _)| text).unwrap_or_default();
        let number = String::from_utf8_lossy(&text).trim().parse().unwrap_or_default();
        if number > MAX_ID { 0 } else { number }
    }

    pub fn read(&self, id: u64) -> Content {
        let Some((text, found)) = self.read_named(&file_name(id)) else { return Content::Nothing };
        match serde_json::from_slice(&text) {
            Ok(task) => Content::Task(task),
            Err(_) if is_recent(&found) => Content::BeingWritten,
            Err(_) => Content::Nothing,
        }
    }

    /// Reads a file and its metadata; `None` if it is not a regular file or is too large.
    fn read_named(&self, name: &str) -> Option<(Vec<u8>, Stat)> {
        // NONBLOCK: opening a pipe in its place must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::empty()).ok()?;
        let found = fstat(&fd).ok().filter(|found| FileType::from_raw_mode(found.st_mode).is_file())?;
        let mut bytes = Vec::new();
        let length = File::from(fd).take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).ok()?;
        (length as u64 <= MAX_FILE_BYTES).then_some((bytes, found))
    }

    /// Replaces a file atomically, so that the client never reads half of it. The caller holds its lock.
    pub fn write(&self, _lock: &Lock<'_>, id: u64, text: &[u8]) -> Result<()> {
        self.write_named(&file_name(id), text)
    }

    /// Removes a file, and makes sure that its id is not used again. The caller holds its lock.
    pub fn remove(&self, _lock: &Lock<'_>, id: u64) -> Result<()> {
        if id > self.high_water_mark() {
            self.write_named(HIGH_WATER_MARK, id.to_string().as_bytes())?;
        }
        let name = file_name(id);
        match unlinkat(&self.fd, name.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(cannot("remove", &self.path.join(name))(errno.into())),
        }
    }

    fn write_named(&self, name: &str, text: &[u8]) -> Result<()> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let temp = format!("{TEMP_PREFIX}{}-{number}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let written = openat(&self.fd, temp.as_str(), flags, Mode::from_raw_mode(0o600))
            .map_err(io::Error::from)
            .and_then(|fd| File::from(fd).write_all(text))
            .and_then(|()| Ok(renameat(&self.fd, temp.as_str(), &self.fd, name)?));
        if written.is_err() {
            let _ = unlinkat(&self.fd, temp.as_str(), AtFlags::empty());
        }
        written.map_err(cannot("write", &self.path.join(name)))
    }

    /// Takes the lock for creating files; `None` if another process holds it.
    pub fn lock_list(&self) -> Result<Option<Lock<'_>>> {
        self.lock(LIST_LOCK)
    }

    /// Takes the lock for changing a file; `None` if another process holds it.
    pub fn lock_file(&self, id: u64) -> Result<Option<Lock<'_>>> {
        self.lock(&file_name(id))
    }

    fn lock(&self, what: &str) -> Result<Option<Lock<'_>>> {
        let name = format!("{what}.lock");
        let created = match mkdirat(&self.fd, name.as_str(), Mode::from_raw_mode(0o700)) {
            Err(Errno::EXIST) if self.is_stale(&name) => {
                // Another process may also remove the stale lock and take it first.
                let _ = unlinkat(&self.fd, name.as_str(), AtFlags::REMOVEDIR);
                mkdirat(&self.fd, name.as_str(), Mode::from_raw_mode(0o700))
            }
            created => created,
        };
        match created {
            Ok(()) => Ok(Some(Lock { dir: self, name })),
            Err(Errno::EXIST) if self.is_directory(&name) => Ok(None),
            Err(errno) => Err(cannot("create", &self.path.join(name))(errno.into())),
        }
    }

    /// Returns false if the lock's path is something other than a directory, which no client would create or remove.
    fn is_directory(&self, name: &str) -> bool {
        let found = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        found.ok().is_none_or(|found| FileType::from_raw_mode(found.st_mode).is_dir())
    }

    fn is_stale(&self, name: &str) -> bool {
        let found = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| age(&found) > STALE_AFTER)
    }

    /// Removes temporary files that a killed process of ours left behind.
    pub fn sweep(&self) {
        let Ok(entries) = Dir::read_from(&self.fd) else { return };
        for entry in entries.flatten().take(MAX_FILES) {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with(TEMP_PREFIX) && self.is_stale(name) {
                let _ = unlinkat(&self.fd, name, AtFlags::empty());
            }
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // If it cannot be removed, it becomes stale.
        let _ = unlinkat(&self.dir.fd, self.name.as_str(), AtFlags::REMOVEDIR);
    }
}

fn file_name(id: u64) -> String {
    format!("{id}.json")
}

fn id_of(name: &CStr) -> Option<u64> {
    let id: u64 = name.to_str().ok()?.strip_suffix(".json")?.parse().ok()?;
    (id <= MAX_ID && file_name(id).as_bytes() == name.to_bytes()).then_some(id)
}

fn age(found: &Stat) -> Duration {
    SystemTime::now().duration_since(modified(found)).unwrap_or_default()
}

/// Returns whether a file was modified just now; a time far in the future does not count.
fn is_recent(found: &Stat) -> bool {
    age(found) < MAX_WRITE_TIME && modified(found) < SystemTime::now() + MAX_WRITE_TIME
}

fn modified(found: &Stat) -> SystemTime {
    let seconds = u64::try_from(found.st_mtime).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::new(seconds, found.st_mtime_nsec as u32)
}
