//! The only module that starts programs: with a minimal environment, in their own process group, with bounded output.
//! Ends a program together with its whole process tree.

mod attended;
mod env;
mod feed;
mod helper;
mod id;
mod lines;
mod output;
mod process;
mod quote;
mod running;
#[cfg(target_os = "linux")]
mod supervised;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(target_os = "macos", path = "macos.rs")]
mod system;
mod tree;
mod watchdog;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use process::Process;
use running::Plan;
use watchdog::Watchdog;

pub use crate::raw::limit_memory_pools;
pub use attended::Attended;
pub use env::{
    NETWORK_VARIABLES, absolute_path, base_env, dotted, expand_home, find_program, hidden_names, home, is_program,
    is_set, leading_program, shell,
};
pub use feed::Feed;
pub use helper::{Program, Relayed, loaded_files, own_standing};
pub use id::{ProcessId, ancestor_without, find_marked, find_working_in, login_session};
pub use lines::Lines;
pub use output::{Kept, bounded_text};
pub use process::REQUEST;
pub use quote::{shell_line, shell_word};
pub use running::{Canceller, Running};
#[cfg(target_os = "linux")]
pub use supervised::{NOT_STARTED, Supervised, last_error_line};
pub use system::{ignores, may_have_descendants as has_children, refuse_tracing};
pub use tree::{
    become_subreaper, descendants, end_descendants, end_orphans, end_process, end_process_within, has_descendants,
    interrupt_descendants, kill_alone, terminate_descendants,
};
pub use watchdog::{MARKER, own_mark, own_program};

/// Bytes kept by default from the beginning and the end of each stream.
const DEFAULT_KEEP: (usize, usize) = (64 * 1024, 64 * 1024);

/// A program to run. It inherits no environment variable; every one must be passed explicitly.
pub struct Cmd {
    program: OsString,
    args: Vec<OsString>,
    cwd: Option<PathBuf>,
    env: BTreeMap<OsString, OsString>,
    stdin: Option<Feed>,
    timeout: Option<Duration>,
    grace: Duration,
    keep: (usize, usize),
    streams: Streams,
    copy: Option<Box<dyn Write + Send>>,
    listener: Option<Box<dyn Write + Send>>,
    watchdog_mark: Option<PathBuf>,
    own_group: bool,
    passed_on: Vec<OwnedFd>,
    server: Option<OwnedFd>,
}

enum Streams {
    Separate,
    /// Those of this process, standard input included.
    Inherited,
    /// Like `Inherited`, but standard error is read.
    ErrorsRead,
    Merged,
    Files {
        /// None: nothing to read.
        input: Option<File>,
        output: File,
    },
}

impl Cmd {
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Cmd {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            stdin: None,
            timeout: None,
            grace: Duration::ZERO,
            keep: DEFAULT_KEEP,
            streams: Streams::Separate,
            copy: None,
            listener: None,
            watchdog_mark: None,
            own_group: true,
            passed_on: Vec::new(),
            server: None,
        }
    }

    /// Runs a command line of the repository or the user in a shell, unchanged.
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
        self.stdin_from(feed)
    }

    /// Connects standard input to a feed; it stays open until the feed is closed.
    pub fn stdin_from(mut self, feed: Feed) -> Self {
        self.stdin = Some(feed);
        self
    }

    /// Sets the time after which the whole process tree is ended.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the time between SIGTERM and SIGKILL after a timeout; with zero the tree is killed at once.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how many bytes of each stream are kept, from its beginning and from its end. All output is read.
    pub fn keep(mut self, head: usize, tail: usize) -> Self {
        self.keep = (head, tail);
        self
    }

    /// Merges both streams into one, in the order in which they were written.
    pub fn merged(mut self) -> Self {
        self.streams = Streams::Merged;
        self
    }

    /// Lets the program use the terminal, or whatever this process reads from and writes to.
    pub fn inherited(mut self) -> Self {
        self.streams = Streams::Inherited;
        self
    }

    /// Like `inherited`, but standard error is read, as the only stream. `copy_to` passes it on.
    pub fn errors_read(mut self) -> Self {
        self.streams = Streams::ErrorsRead;
        self
    }

    /// Keeps the program in our process group, so that it can read keys from our terminal.
    pub fn in_our_group(mut self) -> Self {
        self.own_group = false;
        self
    }

    /// Connects standard input and both output streams directly to files, so that the program can outlive us.
    pub fn files(mut self, input: File, output: File) -> Self {
        self.streams = Streams::Files { input: Some(input), output };
        self
    }

    /// Connects both output streams directly to a file, so that the program can outlive us.
    pub fn output_to(mut self, output: File) -> Self {
        self.streams = Streams::Files { input: None, output };
        self
    }

    /// Also writes the output to `sink`, up to a limit.
    pub fn copy_to(mut self, sink: impl Write + Send + 'static) -> Self {
        self.copy = Some(Box::new(sink));
        self
    }

    /// Passes all standard output to the listener as it arrives, and none of it to the copy. What the listener adds to
    /// the program's feed is written at once.
    pub fn listen(mut self, listener: impl Write + Send + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Marks the program and starts a watchdog: if we are killed, all processes with this mark are killed.
    pub fn watched(mut self, mark: impl AsRef<Path>) -> Self {
        self.watchdog_mark = Some(mark.as_ref().to_owned());
        self.env(MARKER, mark.as_ref())
    }

    /// Starts the program through another one of ours, which gets program and arguments after its own and creates a
    /// session for them.
    pub fn through<const N: usize>(mut self, launcher: impl AsRef<OsStr>, args: [OsString; N]) -> Self {
        let program = std::mem::replace(&mut self.program, launcher.as_ref().to_owned());
        self.args.splice(0..0, args.into_iter().chain([program]));
        // The leader of a group cannot create a session.
        self.own_group = false;
        self
    }

    /// Leaves it to the program to create a session of its own (`begin_session`), so that it outlives our terminal.
    pub fn for_own_session(mut self) -> Self {
        // The leader of a group cannot create a session.
        self.own_group = false;
        self
    }

    /// Lets the program inherit a descriptor, under the same number.
    pub fn pass_on(mut self, descriptor: OwnedFd) -> Self {
        self.passed_on.push(descriptor);
        self
    }

    /// Has a server of ours start the program, in the server's own place. The program reads nothing.
    pub fn served_by(mut self, server: OwnedFd) -> Self {
        self.server = Some(server);
        self
    }

    pub fn run(self) -> io::Result<Ended> {
        self.spawn()?.wait()
    }

    pub fn spawn(mut self) -> io::Result<Running> {
        match self.server.take() {
            Some(server) => self.request(&server),
            None => self.spawn_child(),
        }
    }

    fn request(self, server: &OwnedFd) -> io::Result<Running> {
        let (readers, [stdout, stderr]) = self.pipes()?.ok_or(io::ErrorKind::Unsupported)?;
        let stdin = File::options().read(true).open("/dev/null")?;
        let words = [&self.program].into_iter().chain(&self.args).cloned().collect();
        let workdir = self.cwd.clone().unwrap_or_default();
        let program = Program { words, env: self.env.clone().into_iter().collect(), workdir };
        let process = Process::request(server, &program, [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()])?;
        Running::new(process, self.plan(readers, None, None))
    }

    fn spawn_child(mut self) -> io::Result<Running> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(&self.env);
        if self.own_group {
            command.process_group(0);
        }
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        command.stdin(match (&self.stdin, &self.streams) {
            (Some(_), _) => Stdio::piped(),
            (None, Streams::Inherited | Streams::ErrorsRead) => Stdio::inherit(),
            (None, Streams::Files { input: Some(input), .. }) => input.try_clone()?.into(),
            (None, _) => Stdio::null(),
        });
        let mut readers = Vec::new();
        if let Some((pipes, [stdout, stderr])) = self.pipes()? {
            command.stdout(stdout).stderr(stderr);
            readers = pipes;
        } else if matches!(self.streams, Streams::ErrorsRead) {
            let (reader, errors) = io::pipe()?;
            command.stderr(errors);
            readers.push(reader);
        } else if let Streams::Files { output, .. } = &self.streams {
            command.stdout(output.try_clone()?).stderr(output.try_clone()?);
        }
        let watchdog = self.watchdog_mark.as_deref().map(Watchdog::new).transpose()?;
        let mut child = tree::spawn_passing(&mut command, &self.passed_on).map_err(|error| self.explain(error))?;
        drop(command);
        let stdin = child.stdin.take().zip(self.stdin.take());
        Running::new(Process::of_child(child)?, self.plan(readers, stdin, watchdog))
    }

    /// Returns the pipes of the output streams, if we read them: what we read, and what standard output and error are.
    fn pipes(&self) -> io::Result<Option<(Vec<PipeReader>, [PipeWriter; 2])>> {
        let (reader, writer) = match self.streams {
            Streams::Separate | Streams::Merged => io::pipe()?,
            Streams::Inherited | Streams::ErrorsRead | Streams::Files { .. } => return Ok(None),
        };
        if matches!(self.streams, Streams::Merged) {
            return Ok(Some((vec![reader], [writer.try_clone()?, writer])));
        }
        let (errors, other) = io::pipe()?;
        Ok(Some((vec![reader, errors], [writer, other])))
    }

    fn plan(self, readers: Vec<PipeReader>, stdin: Option<(ChildStdin, Feed)>, watchdog: Option<Watchdog>) -> Plan {
        let Cmd { keep, timeout, grace, copy, listener, .. } = self;
        Plan { readers, keep, stdin, timeout, grace, copy, listener, watchdog }
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

/// Makes this process the leader of a session of its own, without a terminal.
pub fn begin_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Replaces this process by the program; returns only if that fails.
pub fn exec(program: &OsStr, args: &[OsString]) -> io::Error {
    let error = Command::new(program).args(args).exec();
    io::Error::new(error.kind(), format!("cannot run {}: {error}", program.display()))
}

/// Exit status and output of a program that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: Exit,
    pub timed_out: bool,
    pub cancelled: bool,
    /// Holds both streams if they were merged, and standard error if only that was read.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Another process still held the output open, and was killed.
    pub left_others: bool,
    /// The middle of a stream was left out.
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
