//! Identifies and finds processes. A pid alone is not enough: the kernel reuses pids.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::system;

/// A process, distinct from any later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// Start time: in the kernel's ticks since boot on Linux, in seconds since 1970 on macOS.
    pub start: u64,
    /// The boot that `start` counts from; 0 on macOS.
    pub boot: u64,
}

impl ProcessId {
    pub fn own() -> Self {
        let pid = std::process::id();
        Self::of(pid).unwrap_or(ProcessId { pid, start: 0, boot: 0 })
    }

    /// Returns the process that has this pid now.
    pub fn of(pid: u32) -> Option<Self> {
        Stat::read(pid).map(|stat| stat.id)
    }

    /// Tells whether the process still runs: not dead, not a zombie, not replaced by another with the same pid.
    pub fn alive(&self) -> bool {
        Stat::read(self.pid).is_some_and(|now| now.id == *self && !now.zombie)
    }

    /// Tells whether a signal has stopped the process, so that it reacts to nothing but SIGCONT and SIGKILL.
    pub fn is_stopped(&self) -> bool {
        Stat::read(self.pid).is_some_and(|now| now.id == *self && now.stopped)
    }

    /// Tells whether the process has this file open. `false` for a process of another user.
    pub fn has_open(&self, file: &Path) -> bool {
        let Ok(file) = file.canonicalize() else { return false };
        system::has_open(self.pid, &file) && Self::of(self.pid) == Some(*self)
    }

    /// Blocks until the process has ended, even if its parent has not reaped it yet.
    pub fn wait_until_gone(&self) {
        system::wait_until_gone(self);
    }

    /// Sends a signal to this process, unless another has reused the pid.
    pub(super) fn signal(&self, signal: Signal) {
        system::signal(self, signal);
    }
}

/// A process as the kernel lists it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stat {
    pub id: ProcessId,
    pub parent: u32,
    pub session: i32,
    pub zombie: bool,
    pub stopped: bool,
}

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        system::stat(pid)
    }
}

/// Returns our login session, or 0 if it was created outside our container. Does not use getsid: rustix turns its
/// result into a pid, which must not be 0.
pub fn login_session() -> i32 {
    Stat::read(std::process::id()).map_or(0, |stat| stat.session)
}

/// Finds all other processes whose environment sets `key` to `value`, or to a path below `value`.
pub fn find_marked(key: &str, value: impl AsRef<OsStr>) -> Vec<ProcessId> {
    let marker = [key.as_bytes(), b"=", value.as_ref().as_bytes()].concat();
    let is_marker =
        |entry: &[u8]| entry.strip_prefix(marker.as_slice()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
    let environ = |stat: &Stat| system::environ(stat.id.pid).unwrap_or_default();
    let is_marked = |environ: &[u8]| environ.split(|&byte| byte == 0).any(is_marker);
    // During exec the environment is empty for a moment: check such processes a second time.
    let mut unsure = Vec::new();
    let mut found = others(|stat| {
        let environ = environ(stat);
        if environ.is_empty() {
            unsure.push(*stat);
        }
        is_marked(&environ)
    });
    found.extend(unsure.iter().filter(|stat| is_marked(&environ(stat))).map(|stat| stat.id));
    found
}

/// Returns our nearest ancestor whose environment lacks the variable, if ours has it: the process that introduced it.
pub fn ancestor_without(key: &str) -> Option<ProcessId> {
    std::env::var_os(key)?;
    let has_key = |pid: u32| {
        let environ = system::environ(pid)?;
        let is_key = |entry: &[u8]| entry.strip_prefix(key.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='));
        Some(environ.split(|&byte| byte == 0).any(is_key))
    };
    let mut stat = Stat::read(std::process::id())?;
    loop {
        stat = Stat::read(stat.parent).filter(|parent| parent.id.pid > 1)?;
        if !has_key(stat.id.pid)? {
            return Some(stat.id);
        }
    }
}

/// Finds all other processes whose working directory is this directory or below it. Skips processes with a terminal,
/// such as the user's shell.
pub fn find_working_in(dir: &Path) -> Vec<ProcessId> {
    let works_there = |pid: u32| system::working_dir(pid).is_some_and(|cwd| cwd.starts_with(dir));
    others(|stat| works_there(stat.id.pid) && !system::has_terminal(stat.id.pid))
}

fn others(wanted: impl FnMut(&Stat) -> bool) -> Vec<ProcessId> {
    let own = std::process::id();
    let living = system::table().into_iter().filter(|stat| !stat.zombie && stat.id.pid != own);
    living.filter(wanted).map(|stat| stat.id).collect()
}
