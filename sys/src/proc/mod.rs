//! The only door to other programs: a minimal environment, a process group of their own, bounded output, an end to
//! the whole tree of processes.

mod env;
mod feed;
mod id;
mod lines;
mod output;
mod running;
mod tree;
mod watchdog;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use watchdog::Watchdog;

pub use env::{base_env, called_by, find_program, home, is_program, is_set};
pub use feed::Feed;
pub use id::{ProcessId, ancestor_without, find_marked, find_working_in, ignores, login_session};
pub use lines::Lines;
pub use output::{Kept, bounded_text};
pub use running::{Canceller, Running};
pub use tree::{
    become_subreaper, descendants, end_descendants, end_orphans, end_process, end_process_in, has_descendants,
};
pub use watchdog::{MARKER, own_mark};

/// How much of a stream is kept where nobody says otherwise.
const DEFAULT_KEEP: (usize, usize) = (64 * 1024, 64 * 1024);

/// A program to be run. It sees no variable of ours that was not given to it.
pub struct Cmd {
    program: OsString,
    args: Vec<OsString>,
    cwd: Option<PathBuf>,
    env: BTreeMap<OsString, OsString>,
    stdin: Option<Feed>,
    last_words: Option<Vec<u8>>,
    timeout: Option<Duration>,
    grace: Duration,
    keep: (usize, usize),
    streams: Streams,
    copy: Option<Box<dyn Write + Send>>,
    listener: Option<Box<dyn Write + Send>>,
    tethered_by: Option<PathBuf>,
}

enum Streams {
    Apart,
    Merged,
    File(File),
}

impl Cmd {
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Cmd {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            stdin: None,
            last_words: None,
            timeout: None,
            grace: Duration::ZERO,
            keep: DEFAULT_KEEP,
            streams: Streams::Apart,
            copy: None,
            listener: None,
            tethered_by: None,
        }
    }

    /// A command of the repository or of the user, as they wrote it.
    pub fn shell(command: &str) -> Self {
        Cmd::new("/bin/sh").args(["-c", command])
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Self {
        self.cwd = Some(dir.as_ref().to_owned());
        self
    }

    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.insert(key.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    pub fn envs(mut self, env: BTreeMap<OsString, OsString>) -> Self {
        self.env.extend(env);
        self
    }

    pub fn stdin(self, bytes: impl Into<Vec<u8>>) -> Self {
        let feed = Feed::default();
        feed.give(bytes);
        feed.close();
        self.fed_by(feed)
    }

    /// Its standard input stays open until the feed is closed.
    pub fn fed_by(mut self, feed: Feed) -> Self {
        self.stdin = Some(feed);
        self
    }

    /// What it is told there when it is to end. A signal follows where it does not listen.
    pub fn last_words(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.last_words = Some(bytes.into());
        self
    }

    /// After this time the whole tree is ended.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long the group has between SIGTERM and SIGKILL when the time is up; none: killed at once.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How many bytes of each stream are kept, from its beginning and from its end. All of it is read.
    pub fn keep(mut self, head: usize, tail: usize) -> Self {
        self.keep = (head, tail);
        self
    }

    /// Both streams in one, in the order in which they were written.
    pub fn merged(mut self) -> Self {
        self.streams = Streams::Merged;
        self
    }

    /// Both streams go straight into the file, so that the program can outlive us.
    pub fn output_to(mut self, file: File) -> Self {
        self.streams = Streams::File(file);
        self
    }

    /// What is read is also written here, up to a bound.
    pub fn copy_to(mut self, sink: impl Write + Send + 'static) -> Self {
        self.copy = Some(Box::new(sink));
        self
    }

    /// All of its standard output goes here as it comes, and not into the copy. What the listener gives to the program's
    /// feed is passed on at once.
    pub fn listen(mut self, listener: impl Write + Send + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// It gets this mark, and should we be killed, it ends with everything else that has it.
    pub fn watched(mut self, mark: impl AsRef<Path>) -> Self {
        self.tethered_by = Some(mark.as_ref().to_owned());
        self.env(MARKER, mark.as_ref())
    }

    pub fn run(self) -> io::Result<Ended> {
        self.spawn()?.wait()
    }

    pub fn spawn(self) -> io::Result<Running> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(&self.env).process_group(0);
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut readers = Vec::new();
        match &self.streams {
            Streams::Apart => {
                for to_stdout in [true, false] {
                    let (reader, writer) = io::pipe()?;
                    if to_stdout {
                        command.stdout(writer)
                    } else {
                        command.stderr(writer)
                    };
                    readers.push(reader);
                }
            }
            Streams::Merged => {
                let (reader, writer) = io::pipe()?;
                command.stdout(writer.try_clone()?).stderr(writer);
                readers.push(reader);
            }
            Streams::File(file) => {
                command.stdout(file.try_clone()?).stderr(file.try_clone()?);
            }
        }
        let watchdog = self.tethered_by.as_deref().map(Watchdog::new).transpose()?;
        let child = tree::spawn_registered(&mut command).map_err(|error| self.explain(error))?;
        drop(command);
        Running::new(
            child,
            running::Plan {
                readers,
                keep: self.keep,
                stdin: self.stdin,
                last_words: self.last_words,
                timeout: self.timeout,
                grace: self.grace,
                copy: self.copy,
                listener: self.listener,
                watchdog,
            },
        )
    }

    fn explain(&self, error: io::Error) -> io::Error {
        let program = self.program.to_string_lossy();
        let text = match &self.cwd {
            Some(dir) if !dir.is_dir() => format!("cannot run {program}: {} is not a directory", dir.display()),
            _ => format!("cannot run {program}: {error}"),
        };
        io::Error::new(error.kind(), text)
    }
}

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Ended {
    pub status: Exit,
    pub timed_out: bool,
    pub cancelled: bool,
    /// Both streams where they were merged.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Something else still held its output open, and was ended with it.
    pub left_others: bool,
    /// Something in the middle of a stream was left out.
    pub truncated: bool,
    pub duration: Duration,
}

impl Ended {
    pub fn success(&self) -> bool {
        self.status == Exit::Code(0) && !self.timed_out && !self.cancelled
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or_default()),
        }
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests;
