//! Identifies and finds processes through `/proc`. A pid alone is not enough: the kernel reuses pids.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

#[cfg(not(target_os = "linux"))]
compile_error!("processes are found through /proc: only Linux is supported");

/// Poll interval for the end of a process on kernels without pidfds.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A process, distinct from any later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// Start time in the kernel's ticks since boot.
    pub start: u64,
    /// The boot that `start` counts from.
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
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).into_iter().flatten().flatten();
        open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|target| target == file)
            && Self::of(self.pid) == Some(*self)
    }

    /// Blocks until the process has ended, even if its parent has not reaped it yet.
    pub fn wait_until_gone(&self) {
        let handle = Pid::from_raw(self.pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        while self.alive() {
            match &handle {
                // Becomes readable when the process ends.
                Some(handle) => drop(poll(&mut [PollFd::new(handle, PollFlags::IN)], None)),
                None => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Sends a signal through a pidfd, so that it cannot hit another process that has reused the pid.
    pub(super) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid as i32) else { return };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => {
                if Self::of(self.pid) == Some(*self) {
                    let _ = pidfd_send_signal(handle, signal);
                }
            }
            // A container's system call filter may say the latter.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) if self.alive() => {
                let _ = kill_process(pid, signal);
            }
            Err(_) => {}
        }
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
    pub terminal: bool,
}

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may itself contain parentheses: count the fields after the last one.
        let after_name = text.iter().rposition(|&byte| byte == b')')? + 1;
        let rest = std::str::from_utf8(&text[after_name..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let id = ProcessId { pid, start: fields.get(19)?.parse().ok()?, boot: boot() };
        Some(Stat {
            id,
            parent: fields.get(1)?.parse().ok()?,
            session: fields[3].parse().ok()?,
            zombie: matches!(fields[0], "Z" | "X"),
            stopped: matches!(fields[0], "T" | "t"),
            terminal: fields[4] != "0",
        })
    }
}

/// Returns all processes of the system.
pub(super) fn table() -> Vec<Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Stat::read).collect()
}

/// Tells whether this process ignores the signal, as it does if it was started that way (`nohup`).
pub fn ignores(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
        u64::from_str_radix(&digits, 16).unwrap_or(0)
    })
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
    let environ = |stat: &Stat| std::fs::read(format!("/proc/{}/environ", stat.id.pid)).unwrap_or_default();
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
        let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
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
    let works_there = |stat: &Stat| {
        let Ok(cwd) = std::fs::read_link(format!("/proc/{}/cwd", stat.id.pid)) else { return false };
        // The kernel adds a suffix if the directory was removed.
        let bytes = cwd.as_os_str().as_bytes();
        let cwd = Path::new(OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes)));
        cwd.starts_with(dir)
    };
    others(|stat| !stat.terminal && works_there(stat))
}

fn others(wanted: impl FnMut(&Stat) -> bool) -> Vec<ProcessId> {
    let own = std::process::id();
    let living = table().into_iter().filter(|stat| !stat.zombie && stat.id.pid != own);
    living.filter(wanted).map(|stat| stat.id).collect()
}
