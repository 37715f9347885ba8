//! A program in a pid namespace of its own, started by bubblewrap, from outside of that namespace.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, PipeReader};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, WaitOptions};
use serde::Deserialize;

use super::id::ProcessId;

/// Error of a sandbox that ended early.
pub const NOT_STARTED: &str = "the sandbox ended before the program was started";

pub struct Supervised {
    /// The first process inside, with which all others end.
    init: Option<ProcessId>,
    state: Mutex<(Child, BufReader<PipeReader>)>,
}

/// A line of bubblewrap's status.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Status {
    child_pid: Option<u32>,
    exit_code: Option<i32>,
}

impl Supervised {
    /// Starts bubblewrap, and waits until it has started the program or ended. This process may have no other child.
    pub fn start(program: &OsStr, args: &[OsString]) -> io::Result<Supervised> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let (reader, writer) = io::pipe()?;
        fcntl_setfd(&writer, FdFlags::empty())?;
        // A group of its own: a signal to our group must not reach bubblewrap, which would kill everything at once.
        let child = Command::new(program)
            .args(["--json-status-fd", &writer.as_raw_fd().to_string()])
            .args(args)
            .process_group(0)
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("cannot run {}: {error}", program.display())))?;
        drop(writer);
        let mut reader = BufReader::new(reader);
        let init = next(&mut reader)?.and_then(|status| status.child_pid).and_then(ProcessId::of);
        Ok(Supervised { init, state: Mutex::new((child, reader)) })
    }

    /// Sends SIGTERM to the programs inside.
    pub fn terminate(&self) {
        let Some(init) = self.init else { return };
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", init.pid)).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(ProcessId::of) {
            child.signal(Signal::TERM);
        }
    }

    /// Waits until every process inside has ended and returns the program's exit code.
    pub fn wait(&self) -> io::Result<i32> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (child, reader) = &mut *state;
        let mut code = None;
        while let Some(status) = next(reader)? {
            code = status.exit_code.or(code);
        }
        child.wait()?;
        // Bubblewrap returns while processes inside may still run. Their first one has become our child by now.
        while rustix::process::wait(WaitOptions::empty()).is_ok() {}
        code.ok_or_else(|| io::Error::other(NOT_STARTED))
    }
}

/// Runs a program and returns its last line on standard error; none if it succeeds or says nothing.
pub fn last_error_line(program: &OsStr, args: &[OsString]) -> Option<String> {
    let ended = Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&ended.stderr);
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    (!ended.status.success()).then(|| last.to_owned())
}

fn next(reader: &mut BufReader<PipeReader>) -> io::Result<Option<Status>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}
