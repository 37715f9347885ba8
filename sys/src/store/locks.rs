//! Locks of the operating system: the kernel frees them at death, so none is ever stale. The files stay where they
//! are, since a lock on a file that was renamed or removed would exclude nobody.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self as std_io, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mahabharatha_core::ids::Time;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::atomic::{make_dir, write_projected};
use super::fault;
use crate::error::{Error, ExitCode, Result, io};

/// Who holds a feature, as far as the lock file tells: it is read while the holder may be writing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    pub pid: Option<u32>,
    pub since: Option<Time>,
}

impl Holder {
    fn parse(text: &str) -> Self {
        let (pid, since) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let since = since.replace('.', "").parse().ok().map(Time);
        Holder { pid: pid.parse().ok(), since }
    }

    /// Known not to be there any more.
    fn is_gone(&self) -> bool {
        let pid = self.pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    }

    pub fn refusal(&self, feature: &impl fmt::Display) -> Error {
        Error::new(ExitCode::Held, format!("{feature} is held by another run or session ({self})"))
            .hint("Wait for it, or end it with `mahabharatha stop`.")
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => f.write_str("process unknown")?,
        }
        match self.since.and_then(|since| Timestamp::from_millisecond(since.0).ok()) {
            Some(since) => write!(f, ", since {since:.0}"),
            None => Ok(()),
        }
    }
}

/// A program that a holder was starting when it was killed shares the lock until it runs.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// Who holds it decides about the feature and writes its journal.
#[derive(Debug)]
pub struct FeatureLock {
    lock: OsLock,
    dir: PathBuf,
    /// The file that shows the holder to people, and what we wrote there.
    sign: PathBuf,
    text: String,
}

impl FeatureLock {
    /// `dir` is the feature's directory below the git directory, `sign` the file that shows people who holds it.
    pub fn try_acquire(dir: &Path, sign: &Path) -> Result<Result<Self, Holder>> {
        make_dir(dir)?;
        let give_up = Instant::now() + LAST_BREATH;
        loop {
            if let Some(lock) = OsLock::try_acquire(&lock_file(dir))? {
                return Self::enter(lock, dir, sign).map(Ok);
            }
            let holder = read_holder(dir);
            if !holder.is_gone() || Instant::now() > give_up {
                return Ok(Err(holder));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn wait(dir: &Path, sign: &Path) -> Result<Self> {
        make_dir(dir)?;
        Self::enter(OsLock::wait(&lock_file(dir))?, dir, sign)
    }

    /// Who holds the feature now, without getting in anybody's way.
    pub fn holder(dir: &Path) -> Result<Option<Holder>> {
        let path = lock_file(dir);
        // Who only looks needs no right to write there.
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std_io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io("open", &path)(error)),
        };
        Ok(if held_by_another(&file, &path)? { Some(read_holder(dir)) } else { None })
    }

    /// Takes the lock that a waiting thread got, and signs for it.
    pub(super) fn enter(lock: OsLock, dir: &Path, sign: &Path) -> Result<Self> {
        let now = Timestamp::now().as_millisecond();
        let text = format!("{}:{}.{:03}", std::process::id(), now / 1000, now % 1000);
        lock.write(&text).map_err(io("write", &lock_file(dir)))?;
        if sign.parent().is_some_and(Path::is_dir) {
            write_projected(sign, text.as_bytes())?;
        }
        Ok(FeatureLock { lock, dir: dir.to_owned(), sign: sign.to_owned(), text })
    }

    /// The directory that the lock guards.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for FeatureLock {
    /// Nothing depends on the texts, so a failure to clear them is no failure to release.
    fn drop(&mut self) {
        if fs::read_to_string(&self.sign).is_ok_and(|text| text == self.text) {
            let _ = fs::remove_file(&self.sign);
        }
        let _ = self.lock.write("");
    }
}

/// Held by a worker for its life. Who else gets it knows that the worker is gone.
#[derive(Debug)]
pub struct JobLock(#[expect(dead_code, reason = "held, not read")] OsLock);

impl JobLock {
    pub fn try_acquire(job_dir: &Path) -> Result<Option<Self>> {
        make_dir(job_dir)?;
        Ok(OsLock::try_acquire(&lock_file(job_dir))?.map(JobLock))
    }

    pub fn wait(job_dir: &Path) -> Result<Self> {
        make_dir(job_dir)?;
        OsLock::wait(&lock_file(job_dir)).map(JobLock)
    }

    /// Whether a worker is at it now, without getting in its way.
    pub fn is_held(job_dir: &Path) -> bool {
        let path = lock_file(job_dir);
        File::open(&path).is_ok_and(|file| held_by_another(&file, &path).unwrap_or(false))
    }

    /// Returns when no worker is at it, without getting in the way of one.
    pub fn wait_until_free(job_dir: &Path) -> Result<()> {
        wait_until_free(&lock_file(job_dir))
    }
}

/// Held while worktrees of the repository are added, removed or pruned: git loses them when that is done in parallel.
#[derive(Debug)]
pub struct WorktreesLock(#[expect(dead_code, reason = "held, not read")] OsLock);

impl WorktreesLock {
    /// `dir` is ours below the git directory, common to all features.
    pub fn wait(dir: &Path) -> Result<Self> {
        make_dir(dir)?;
        OsLock::wait(&dir.join("worktrees.lock")).map(WorktreesLock)
    }
}

/// Held while a level goes from staging to the base branch, so that features land one after the other.
#[derive(Debug)]
pub struct IntegrationLock(#[expect(dead_code, reason = "held, not read")] OsLock);

impl IntegrationLock {
    /// `dir` is ours below the git directory, common to all features.
    pub fn wait(dir: &Path) -> Result<Self> {
        make_dir(dir)?;
        OsLock::wait(&dir.join("integration.lock")).map(IntegrationLock)
    }
}

#[derive(Debug)]
pub(super) struct OsLock {
    file: File,
}

impl OsLock {
    pub(super) fn try_acquire(path: &Path) -> Result<Option<Self>> {
        let file = open(path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(OsLock { file })),
                Err(TryLockError::Error(error)) if error.kind() == std_io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(io("lock", path)(error)),
                // Somebody who only looks holds it for a moment, and shares it: that must not refuse us.
                Err(TryLockError::WouldBlock) if held_by_another(&file, path)? => return Ok(None),
                Err(TryLockError::WouldBlock) => {}
            }
        }
    }

    pub(super) fn wait(path: &Path) -> Result<Self> {
        let file = open(path)?;
        loop {
            match file.lock() {
                Ok(()) => return Ok(OsLock { file }),
                Err(error) if error.kind() == std_io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io("lock", path)(error)),
            }
        }
    }

    pub(super) fn write(&self, text: &str) -> std_io::Result<()> {
        let mut file = &self.file;
        fault::disk()?;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(text.as_bytes())
    }
}

impl Drop for OsLock {
    /// Closing is not enough: a program that another thread is starting right now has the file open until it runs.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

pub(super) fn lock_file(dir: &Path) -> PathBuf {
    dir.join("lock")
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io("open", path))
}

/// Whether somebody holds the lock for themselves alone.
pub(super) fn held_by_another(file: &File, path: &Path) -> Result<bool> {
    loop {
        match file.try_lock_shared() {
            Ok(()) => return file.unlock().map(|()| false).map_err(io("unlock", path)),
            Err(TryLockError::WouldBlock) => return Ok(true),
            Err(TryLockError::Error(error)) if error.kind() == std_io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(error)) => return Err(io("lock", path)(error)),
        }
    }
}

/// Returns when nobody holds the lock alone; where there is no file, nobody does.
pub(super) fn wait_until_free(path: &Path) -> Result<()> {
    let Ok(file) = File::open(path) else { return Ok(()) };
    loop {
        match file.lock_shared() {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std_io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io("lock", path)(error)),
        }
    }
}

fn read_holder(dir: &Path) -> Holder {
    Holder::parse(&fs::read_to_string(lock_file(dir)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::mpsc;

    use super::*;

    struct Places {
        _dir: tempfile::TempDir,
        dir: PathBuf,
        sign: PathBuf,
    }

    fn places() -> Places {
        let temporary = tempfile::tempdir().unwrap();
        let (dir, specs) = (temporary.path().join("mahabharatha/x"), temporary.path().join("specs"));
        fs::create_dir(&specs).unwrap();
        Places { dir, sign: specs.join(".lock"), _dir: temporary }
    }

    #[test]
    fn the_second_is_refused_and_told_who_holds_it() {
        let at = places();
        let lock = FeatureLock::try_acquire(&at.dir, &at.sign).unwrap().unwrap();
        let holder = FeatureLock::try_acquire(&at.dir, &at.sign).unwrap().unwrap_err();
        assert_eq!(holder.pid, Some(std::process::id()));
        assert!(holder.since.is_some());
        assert_eq!(FeatureLock::holder(&at.dir).unwrap(), Some(holder));
        assert_eq!(holder.refusal(&"x").exit(), ExitCode::Held);

        drop(lock);
        assert_eq!(FeatureLock::holder(&at.dir).unwrap(), None);
        assert!(lock_file(&at.dir).exists(), "the file stays");
        FeatureLock::try_acquire(&at.dir, &at.sign).unwrap().unwrap();
    }

    #[test]
    fn who_only_looks_refuses_nobody() {
        let at = places();
        drop(FeatureLock::try_acquire(&at.dir, &at.sign).unwrap().unwrap());
        let file = open(&lock_file(&at.dir)).unwrap();
        file.lock_shared().unwrap();
        let (dir, sign) = (at.dir.clone(), at.sign.clone());
        let taker = thread::spawn(move || FeatureLock::try_acquire(&dir, &sign).unwrap().is_ok());
        thread::sleep(Duration::from_millis(50));
        file.unlock().unwrap();
        assert!(taker.join().unwrap());
    }

    #[test]
    fn what_a_dead_holder_was_starting_is_waited_for() {
        let at = places();
        let mut dead = Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let inherited = FeatureLock::wait(&at.dir, &at.sign).unwrap();
        inherited.lock.write(&format!("{}:1.000", dead.id())).unwrap();
        let (dir, sign) = (at.dir.clone(), at.sign.clone());
        let taker = thread::spawn(move || FeatureLock::try_acquire(&dir, &sign).unwrap().is_ok());
        thread::sleep(Duration::from_millis(20));
        assert!(!taker.is_finished());
        inherited.lock.file.unlock().unwrap();
        assert!(taker.join().unwrap());
    }

    #[test]
    fn the_sign_shows_pid_and_time_and_goes_with_the_lock() {
        let at = places();
        fs::write(&at.sign, "a corrupt one").unwrap();
        let lock = FeatureLock::wait(&at.dir, &at.sign).unwrap();
        let text = fs::read_to_string(&at.sign).unwrap();
        let (pid, timestamp) = text.split_once(':').unwrap();
        assert_eq!(pid.parse(), Ok(std::process::id()));
        assert!(timestamp.parse::<f64>().unwrap() > 1.7e9);
        drop(lock);
        assert!(!at.sign.exists());
    }

    #[test]
    fn the_sign_of_somebody_else_is_left_alone() {
        let at = places();
        let lock = FeatureLock::wait(&at.dir, &at.sign).unwrap();
        fs::write(&at.sign, "1:2").unwrap();
        drop(lock);
        assert_eq!(fs::read_to_string(&at.sign).unwrap(), "1:2");
    }

    #[test]
    fn a_killed_holder_frees_the_lock() {
        let at = places();
        make_dir(&at.dir).unwrap();
        let mut holder = Command::new("flock")
            .arg(lock_file(&at.dir))
            .args(["sh", "-c", "echo held; exec sleep 1000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 5];
        std_io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut said).unwrap();
        assert!(FeatureLock::try_acquire(&at.dir, &at.sign).unwrap().is_err());

        let (sender, receiver) = mpsc::channel();
        let (dir, sign) = (at.dir.clone(), at.sign.clone());
        thread::spawn(move || sender.send(FeatureLock::wait(&dir, &sign)));
        // `flock` holds the file through the shell that it started, so both have to go.
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        let child = fs::read_to_string(children).unwrap();
        holder.kill().unwrap();
        holder.wait().unwrap();
        Command::new("kill").args(["-9", child.trim()]).status().unwrap();
        receiver.recv().unwrap().unwrap();
    }

    #[test]
    fn a_job_is_held_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let job = dir.path().join("jobs/TASK-001.1");
        let lock = JobLock::wait(&job).unwrap();
        assert!(JobLock::try_acquire(&job).unwrap().is_none());
        drop(lock);
        assert!(JobLock::try_acquire(&job).unwrap().is_some());
    }

    #[test]
    fn the_two_locks_of_the_repository_do_not_meet() {
        let dir = tempfile::tempdir().unwrap();
        let _worktrees = WorktreesLock::wait(dir.path()).unwrap();
        let _integration = IntegrationLock::wait(dir.path()).unwrap();
    }

    #[test]
    fn a_holder_is_read_from_whatever_the_file_says() {
        assert_eq!(
            Holder::parse("12:1700000000.250\n"),
            Holder { pid: Some(12), since: Some(Time(1_700_000_000_250)) }
        );
        for text in ["", "x", ":", "12", "-1:y", "99999999999999:1"] {
            assert!(!Holder::parse(text).to_string().is_empty());
        }
        let shown = Holder { pid: Some(12), since: Some(Time(0)) };
        assert_eq!(shown.to_string(), "process 12, since 1970-01-01T00:00:00Z");
    }
}
