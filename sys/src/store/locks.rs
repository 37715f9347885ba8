//! File locks of the operating system. The kernel releases them when the holder dies, so none is ever stale. Lock files
//! must never be renamed or removed: a lock on such a file would exclude no other process.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self as std_io, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mahabharatha_core::ids::Time;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::atomic::{make_dir, write_projected};
use super::{fault, state_file};
use crate::bounded::{self, SMALL_FILE_BYTES};
use crate::error::{Error, Kind, Result, io};

/// The process that holds a feature. Fields may be missing: the lock file is read while the holder may be writing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    pub pid: Option<u32>,
    pub since: Option<Time>,
    /// What it does, if it drives no run.
    pub authoring: Option<Authoring>,
}

/// What a process writes that holds a feature without driving a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authoring {
    Requirements,
    Design,
}

impl Authoring {
    fn verb(self) -> &'static str {
        match self {
            Authoring::Requirements => "planned",
            Authoring::Design => "designed",
        }
    }

    fn parse(verb: &str) -> Option<Authoring> {
        [Authoring::Requirements, Authoring::Design].into_iter().find(|authoring| authoring.verb() == verb)
    }
}

impl Holder {
    fn parse(text: &str) -> Self {
        let mut parts = text.trim().splitn(3, ':');
        let mut part = || parts.next().unwrap_or_default();
        let (pid, since, verb) = (part(), part(), part());
        let since = since.replace('.', "").parse().ok().map(Time);
        Holder { pid: pid.parse().ok(), since, authoring: Authoring::parse(verb) }
    }

    /// Tells whether the holder is known to have exited.
    fn is_gone(&self) -> bool {
        let pid = self.pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    }

    pub fn refusal(&self, feature: &impl fmt::Display) -> Error {
        if let Some(authoring) = self.authoring {
            let what = format!("{feature} is being {} in another terminal ({self})", authoring.verb());
            return Error::new(Kind::Held, what).hint(match authoring {
                Authoring::Requirements => {
                    "Finish it there, or end it there with Ctrl-C, which keeps a draft of its answers."
                }
                Authoring::Design => "Wait for it, or end it there with Ctrl-C.",
            });
        }
        Error::new(Kind::Held, format!("{feature} is held by another run or session ({self})"))
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

/// Time to wait for the lock of a dead holder: a program that it was starting when it was killed shares the lock until
/// its exec.
const DEAD_HOLDER_TIMEOUT: Duration = Duration::from_secs(2);

/// Exclusive lock on a feature. Its holder makes all decisions about the feature and writes its journal.
#[derive(Debug)]
pub struct FeatureLock {
    lock: OsLock,
    dir: PathBuf,
    /// The file that shows the user which process holds the feature, and what we wrote there.
    holder_file: PathBuf,
    text: String,
}

impl FeatureLock {
    /// Acquires the lock, or returns its holder. `dir` is the feature's directory below the git directory,
    /// `holder_file` the file that shows the user which process holds the feature.
    pub fn try_acquire(dir: &Path, holder_file: &Path) -> Result<Result<Self, Holder>> {
        make_dir(dir)?;
        let deadline = Instant::now() + DEAD_HOLDER_TIMEOUT;
        loop {
            if let Some(lock) = OsLock::try_acquire(&lock_file(dir))? {
                return Self::enter(lock, dir, holder_file).map(Ok);
            }
            let holder = read_holder(&lock_file(dir));
            if !holder.is_gone() || Instant::now() > deadline {
                return Ok(Err(holder));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn wait(dir: &Path, holder_file: &Path) -> Result<Self> {
        make_dir(dir)?;
        Self::enter(OsLock::wait(&lock_file(dir))?, dir, holder_file)
    }

    /// Returns the current holder of the feature, without blocking others.
    pub fn holder(dir: &Path) -> Result<Option<Holder>> {
        holder_of(&lock_file(dir))
    }

    /// Turns an acquired lock into a feature lock, and writes the holder into the lock file and the holder file.
    pub(super) fn enter(lock: OsLock, dir: &Path, holder_file: &Path) -> Result<Self> {
        let text = own_name();
        lock.write(&text).map_err(io("write", &lock_file(dir)))?;
        if holder_file.parent().is_some_and(Path::is_dir) {
            write_projected(holder_file, text.as_bytes())?;
        }
        Ok(FeatureLock { lock, dir: dir.to_owned(), holder_file: holder_file.to_owned(), text })
    }

    /// Tells those who are refused that the holder drafts something instead of driving a run.
    pub fn announce(&self, authoring: Authoring) -> Result<()> {
        let text = format!("{}:{}", self.text, authoring.verb());
        self.lock.write(&text).map_err(io("write", &lock_file(&self.dir)))
    }

    /// Returns the directory that the lock guards.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for FeatureLock {
    /// Clears the holder's name. Nothing depends on it, so failures are ignored.
    fn drop(&mut self) {
        if bounded::read_to_string(&self.holder_file, SMALL_FILE_BYTES).is_ok_and(|text| text == self.text) {
            let _ = fs::remove_file(&self.holder_file);
        }
        let _ = self.lock.write("");
    }
}

/// Lock that a worker holds for its lifetime. Another process that acquires it knows that the worker has exited.
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

    /// Tells whether a worker holds the job now, without blocking others.
    pub fn is_held(job_dir: &Path) -> bool {
        let path = lock_file(job_dir);
        bounded::open(&path).is_ok_and(|file| held_by_another(&file, &path).unwrap_or(false))
    }

    /// Blocks until no worker holds the job, without acquiring the lock.
    pub fn wait_until_free(job_dir: &Path) -> Result<()> {
        wait_until_free(&lock_file(job_dir))
    }
}

/// Lock that `sandbox --task` holds while its command runs in the worktree of an attempt.
#[derive(Debug)]
pub struct TrialLock(#[expect(dead_code, reason = "held, not read")] OsLock);

impl TrialLock {
    pub fn try_acquire(job_dir: &Path) -> Result<Option<Self>> {
        let path = Self::file(job_dir);
        let Some(lock) = OsLock::try_acquire(&path)? else { return Ok(None) };
        lock.write(&own_name()).map_err(io("write", &path))?;
        Ok(Some(TrialLock(lock)))
    }

    /// Returns the process that holds the lock, without blocking others.
    pub fn holder(job_dir: &Path) -> Result<Option<Holder>> {
        holder_of(&Self::file(job_dir))
    }

    /// Blocks until no process holds the lock.
    pub fn wait_until_free(job_dir: &Path) -> Result<()> {
        wait_until_free(&Self::file(job_dir))
    }

    pub fn file(job_dir: &Path) -> PathBuf {
        job_dir.join("trial.lock")
    }
}

/// Lock for adding, removing or pruning worktrees of the repository: git can lose worktrees if this runs in parallel.
#[derive(Debug)]
pub struct WorktreesLock(#[expect(dead_code, reason = "held, not read")] OsLock);

impl WorktreesLock {
    /// `dir` is ours below the git directory, common to all features.
    pub fn wait(dir: &Path) -> Result<Self> {
        make_dir(dir)?;
        OsLock::wait(&dir.join("worktrees.lock")).map(WorktreesLock)
    }
}

/// Lock for moving a level from staging to the base branch, so that features land one after the other.
#[derive(Debug)]
pub struct IntegrationLock(#[expect(dead_code, reason = "held, not read")] OsLock);

impl IntegrationLock {
    /// `dir` is ours below the git directory, common to all features.
    pub fn wait(dir: &Path) -> Result<Self> {
        make_dir(dir)?;
        OsLock::wait(&dir.join("integration.lock")).map(IntegrationLock)
    }
}

/// Lock for adding tasks to the graph of a feature while it may run.
#[derive(Debug)]
pub struct GraphLock(#[expect(dead_code, reason = "held, not read")] OsLock);

impl GraphLock {
    /// `dir` is that of the feature.
    pub fn wait(dir: &Path) -> Result<Self> {
        OsLock::wait(&dir.join("graph.lock")).map(GraphLock)
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
                // A reader may hold a shared lock for a moment: that is no reason to refuse.
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
    /// Unlocks explicitly. Closing is not enough: a program that another thread is just starting has the file open
    /// until its exec.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Returns the lock file of a feature or a job.
pub fn lock_file(dir: &Path) -> PathBuf {
    dir.join("lock")
}

fn open(path: &Path) -> Result<File> {
    state_file::open(path).map_err(io("open", path))
}

/// Tells whether another process or thread holds the lock exclusively.
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

/// Blocks until no process holds the lock exclusively. Returns at once if there is no lock file.
pub(super) fn wait_until_free(path: &Path) -> Result<()> {
    let Ok(file) = bounded::open(path) else { return Ok(()) };
    loop {
        match file.lock_shared() {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std_io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io("lock", path)(error)),
        }
    }
}

/// Returns the process that holds a lock exclusively.
fn holder_of(path: &Path) -> Result<Option<Holder>> {
    // Opened for reading only, so that no write permission is needed.
    let file = match bounded::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std_io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("open", path)(error)),
    };
    Ok(if held_by_another(&file, path)? { Some(read_holder(path)) } else { None })
}

fn read_holder(path: &Path) -> Holder {
    Holder::parse(&bounded::read_to_string(path, SMALL_FILE_BYTES).unwrap_or_default())
}

/// Returns what a holder writes into its lock file: its pid, and the time.
fn own_name() -> String {
    let now = Timestamp::now().as_millisecond();
    format!("{}:{}.{:03}", std::process::id(), now / 1000, now % 1000)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::mpsc;

    use super::*;

    struct Places {
        _dir: tempfile::TempDir,
        dir: PathBuf,
        holder_file: PathBuf,
    }

    fn places() -> Places {
        let temporary = tempfile::tempdir().unwrap();
        let (dir, specs) = (temporary.path().join("mahabharatha/x"), temporary.path().join("specs"));
        fs::create_dir(&specs).unwrap();
        Places { dir, holder_file: specs.join(".lock"), _dir: temporary }
    }

    #[test]
    fn a_second_holder_is_refused_and_the_first_is_named() {
        let at = places();
        let lock = FeatureLock::try_acquire(&at.dir, &at.holder_file).unwrap().unwrap();
        let holder = FeatureLock::try_acquire(&at.dir, &at.holder_file).unwrap().unwrap_err();
        assert_eq!(holder.pid, Some(std::process::id()));
        assert!(holder.since.is_some());
        assert_eq!(FeatureLock::holder(&at.dir).unwrap(), Some(holder));
        assert_eq!(holder.refusal(&"x").kind(), Kind::Held);

        drop(lock);
        assert_eq!(FeatureLock::holder(&at.dir).unwrap(), None);
        assert!(lock_file(&at.dir).exists(), "the file stays");
        FeatureLock::try_acquire(&at.dir, &at.holder_file).unwrap().unwrap();
    }

    #[test]
    fn a_holder_that_drafts_something_is_told_from_a_run() {
        let at = places();
        let lock = FeatureLock::try_acquire(&at.dir, &at.holder_file).unwrap().unwrap();
        for (authoring, told) in
            [(Authoring::Requirements, "x is being planned"), (Authoring::Design, "x is being designed")]
        {
            lock.announce(authoring).unwrap();
            let holder = FeatureLock::holder(&at.dir).unwrap().unwrap();
            assert_eq!((holder.pid, holder.authoring), (Some(std::process::id()), Some(authoring)));
            assert!(holder.since.is_some() && holder.refusal(&"x").message().starts_with(told));
        }
        assert!(!fs::read_to_string(&at.holder_file).unwrap().contains("planned"), "other programs read it");
    }

    #[test]
    fn a_reader_does_not_block_acquiring() {
        let at = places();
        drop(FeatureLock::try_acquire(&at.dir, &at.holder_file).unwrap().unwrap());
        let file = open(&lock_file(&at.dir)).unwrap();
        file.lock_shared().unwrap();
        let (dir, holder_file) = (at.dir.clone(), at.holder_file.clone());
        let taker = thread::spawn(move || FeatureLock::try_acquire(&dir, &holder_file).unwrap().is_ok());
        thread::sleep(Duration::from_millis(50));
        file.unlock().unwrap();
        assert!(taker.join().unwrap());
    }

    #[test]
    fn a_lock_inherited_from_a_dead_holder_is_waited_for() {
        let at = places();
        let mut dead = Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let inherited = FeatureLock::wait(&at.dir, &at.holder_file).unwrap();
        inherited.lock.write(&format!("{}:1.000", dead.id())).unwrap();
        let (dir, holder_file) = (at.dir.clone(), at.holder_file.clone());
        let taker = thread::spawn(move || FeatureLock::try_acquire(&dir, &holder_file).unwrap().is_ok());
        thread::sleep(Duration::from_millis(20));
        assert!(!taker.is_finished());
        inherited.lock.file.unlock().unwrap();
        assert!(taker.join().unwrap());
    }

    #[test]
    fn the_holder_file_shows_pid_and_time_and_is_removed_with_the_lock() {
        let at = places();
        fs::write(&at.holder_file, "a corrupt one").unwrap();
        let lock = FeatureLock::wait(&at.dir, &at.holder_file).unwrap();
        let text = fs::read_to_string(&at.holder_file).unwrap();
        let (pid, timestamp) = text.split_once(':').unwrap();
        assert_eq!(pid.parse(), Ok(std::process::id()));
        assert!(timestamp.parse::<f64>().unwrap() > 1.7e9);
        drop(lock);
        assert!(!at.holder_file.exists());
    }

    #[test]
    fn the_holder_file_of_another_process_is_left_alone() {
        let at = places();
        let lock = FeatureLock::wait(&at.dir, &at.holder_file).unwrap();
        fs::write(&at.holder_file, "1:2").unwrap();
        drop(lock);
        assert_eq!(fs::read_to_string(&at.holder_file).unwrap(), "1:2");
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
        assert!(FeatureLock::try_acquire(&at.dir, &at.holder_file).unwrap().is_err());

        let (sender, receiver) = mpsc::channel();
        let (dir, holder_file) = (at.dir.clone(), at.holder_file.clone());
        thread::spawn(move || sender.send(FeatureLock::wait(&dir, &holder_file)));
        // The shell that `flock` started shares its lock, so both must be killed.
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
    fn the_two_locks_of_the_repository_are_independent() {
        let dir = tempfile::tempdir().unwrap();
        let _worktrees = WorktreesLock::wait(dir.path()).unwrap();
        let _integration = IntegrationLock::wait(dir.path()).unwrap();
    }

    #[test]
    fn a_holder_is_parsed_from_any_text() {
        assert_eq!(
            Holder::parse("12:1700000000.250\n"),
            Holder { pid: Some(12), since: Some(Time(1_700_000_000_250)), authoring: None }
        );
        for text in ["", "x", ":", "12", "-1:y", "99999999999999:1"] {
            assert!(!Holder::parse(text).to_string().is_empty());
        }
        let shown = Holder { pid: Some(12), since: Some(Time(0)), authoring: None };
        assert_eq!(shown.to_string(), "process 12, since 1970-01-01T00:00:00Z");
    }
}
