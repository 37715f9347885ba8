//! The directory of one task list, shared with the client by its rules: a lock is a directory, and whoever changes a
//! file holds its lock. Everything goes through the open directory, so that a link put in its place leads nowhere.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use mahabharatha_sys::error::{Error, ExitCode, Result, io as cannot};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, open, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use serde_json::{Map, Value};

/// A lock that nobody touched for so long was left by a client that died.
pub const STALE: Duration = Duration::from_secs(20);
/// A file with half a task in it is being written, as long as it is no older.
const BEING_WRITTEN: Duration = Duration::from_secs(2);
/// The client's tasks are small; what is larger is none.
const LARGEST: u64 = 1 << 20;
/// More cannot be a task list.
const MOST_FILES: usize = 100_000;
/// The highest id that was ever given, where its file may be gone.
const HIGHEST: &str = ".highwatermark";
/// Above it an id is nonsense that somebody wrote.
const MAX_ID: u64 = 1 << 50;
const CREATING: &str = ".lock";
const UNFINISHED: &str = ".mahabharatha-";

pub struct ListDir {
    fd: OwnedFd,
    path: PathBuf,
}

/// What a file of the list holds.
pub enum Content {
    Task(Map<String, Value>),
    /// The client writes in place.
    BeingWritten,
    /// Gone meanwhile, or nothing that the client would take for a task.
    Nothing,
}

/// Held until dropped.
pub struct Lock<'a> {
    dir: &'a ListDir,
    name: String,
}

impl ListDir {
    /// Nothing where there is no such list.
    pub fn open(home: &Path, list: &str) -> Result<Option<ListDir>> {
        match fs::metadata(home) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => ListDir::descend(home, list, false),
        }
    }

    pub fn make(home: &Path, list: &str) -> Result<ListDir> {
        fs::create_dir_all(home).map_err(cannot("make", home))?;
        let made = ListDir::descend(home, list, true)?;
        made.ok_or_else(|| Error::new(ExitCode::Failed, format!("{} was removed meanwhile", home.display())))
    }

    fn descend(home: &Path, list: &str, make: bool) -> Result<Option<ListDir>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut fd = open(home, flags, Mode::empty()).map_err(|errno| cannot("open", home)(errno.into()))?;
        let mut path = home.to_owned();
        for name in ["tasks", list] {
            path.push(name);
            if make {
                match mkdirat(&fd, name, Mode::from_raw_mode(0o700)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(cannot("make", &path)(errno.into())),
                }
            }
            fd = match openat(&fd, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(fd) => fd,
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let message = format!("{} is a symbolic link or a file, not a directory", path.display());
                    return Err(Error::new(ExitCode::Failed, message));
                }
                Err(errno) => return Err(cannot("open", &path)(errno.into())),
            };
        }
        Ok(Some(ListDir { fd, path }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells it from another that was made in its place.
    pub fn identity(&self) -> Option<(u64, u64)> {
        fstat(&self.fd).ok().map(|found| (found.st_dev, found.st_ino))
    }

    /// The ids that have a file, ascending.
    pub fn ids(&self) -> Result<Vec<u64>> {
        let mut ids = Vec::new();
        let entries = Dir::read_from(&self.fd).map_err(|errno| cannot("read", &self.path)(errno.into()))?;
        for (count, entry) in entries.flatten().enumerate() {
            if count > MOST_FILES {
                let message = format!("{} has more than {MOST_FILES} files", self.path.display());
                return Err(Error::new(ExitCode::Failed, message));
            }
            ids.extend(id_of(entry.file_name()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    pub fn next_id(&self) -> Result<u64> {
        let highest = self.ids()?.last().copied().unwrap_or_default();
        Ok(highest.max(self.high_mark()) + 1)
    }

    fn high_mark(&self) -> u64 {
        let text = self.read_named(HIGHEST).map(|(text, _)| text).unwrap_or_default();
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

    /// With what is known of it. Nothing where it is no file, or too large.
    fn read_named(&self, name: &str) -> Option<(Vec<u8>, Stat)> {
        // A pipe in its place must not keep us waiting.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::empty()).ok()?;
        let found = fstat(&fd).ok().filter(|found| FileType::from_raw_mode(found.st_mode).is_file())?;
        let mut bytes = Vec::new();
        let length = File::from(fd).take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
        (length as u64 <= LARGEST).then_some((bytes, found))
    }

    /// Puts the whole file in its place at once, so that the client never reads half of it. Its lock is held.
    pub fn write(&self, _lock: &Lock<'_>, id: u64, text: &[u8]) -> Result<()> {
        self.write_named(&file_name(id), text)
    }

    /// Its lock is held; the id is not given again.
    pub fn remove(&self, _lock: &Lock<'_>, id: u64) -> Result<()> {
        if id > self.high_mark() {
            self.write_named(HIGHEST, id.to_string().as_bytes())?;
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
        let unfinished = format!("{UNFINISHED}{}-{number}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let written = openat(&self.fd, unfinished.as_str(), flags, Mode::from_raw_mode(0o600))
            .map_err(io::Error::from)
            .and_then(|fd| File::from(fd).write_all(text))
            .and_then(|()| Ok(renameat(&self.fd, unfinished.as_str(), &self.fd, name)?));
        if written.is_err() {
            let _ = unlinkat(&self.fd, unfinished.as_str(), AtFlags::empty());
        }
        written.map_err(cannot("write", &self.path.join(name)))
    }

    /// For making a file. Nothing where somebody else holds it.
    pub fn lock_list(&self) -> Result<Option<Lock<'_>>> {
        self.lock(CREATING)
    }

    /// For changing a file. Nothing where somebody else holds it.
    pub fn lock_file(&self, id: u64) -> Result<Option<Lock<'_>>> {
        self.lock(&file_name(id))
    }

    fn lock(&self, what: &str) -> Result<Option<Lock<'_>>> {
        let name = format!("{what}.lock");
        let made = match mkdirat(&self.fd, name.as_str(), Mode::from_raw_mode(0o700)) {
            Err(Errno::EXIST) if self.is_stale(&name) => {
                // Whoever else finds it stale may be faster: then it is theirs.
                let _ = unlinkat(&self.fd, name.as_str(), AtFlags::REMOVEDIR);
                mkdirat(&self.fd, name.as_str(), Mode::from_raw_mode(0o700))
            }
            made => made,
        };
        match made {
            Ok(()) => Ok(Some(Lock { dir: self, name })),
            Err(Errno::EXIST) if self.is_directory(&name) => Ok(None),
            Err(errno) => Err(cannot("make", &self.path.join(name))(errno.into())),
        }
    }

    /// Of a lock that is there, or was: what is no directory was left by no client, and nobody takes it away.
    fn is_directory(&self, name: &str) -> bool {
        let found = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        found.ok().is_none_or(|found| FileType::from_raw_mode(found.st_mode).is_dir())
    }

    fn is_stale(&self, name: &str) -> bool {
        let found = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| age(&found) > STALE)
    }

    /// Removes what we left unfinished when we were killed.
    pub fn sweep(&self) {
        let Ok(entries) = Dir::read_from(&self.fd) else { return };
        for entry in entries.flatten().take(MOST_FILES) {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with(UNFINISHED) && self.is_stale(name) {
                let _ = unlinkat(&self.fd, name, AtFlags::empty());
            }
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // Where it cannot be removed it grows stale.
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
    SystemTime::now().duration_since(changed(found)).unwrap_or_default()
}

/// A time that is far ahead says nothing.
fn is_recent(found: &Stat) -> bool {
    age(found) < BEING_WRITTEN && changed(found) < SystemTime::now() + BEING_WRITTEN
}

fn changed(found: &Stat) -> SystemTime {
    let seconds = u64::try_from(found.st_mtime).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::new(seconds, found.st_mtime_nsec as u32)
}
