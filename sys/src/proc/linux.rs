//! Processes of Linux, through `/proc`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal,
    set_dumpable_behavior, waitid,
};

use super::id::{ProcessId, Stat};

/// Poll interval for the end of a process on kernels without pidfds.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the process that has this pid.
pub fn stat(pid: u32) -> Option<Stat> {
    let text = stat_fields(pid)?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    // If only the first thread of a process has ended, it counts as a zombie for the kernel, and goes on.
    let threads: u32 = fields.get(17)?.parse().ok()?;
    Some(Stat {
        id: ProcessId { pid, start: fields.get(19)?.parse().ok()?, boot: boot() },
        parent: fields.get(1)?.parse().ok()?,
        session: fields[3].parse().ok()?,
        zombie: matches!(fields[0], "Z" | "X") && threads <= 1,
        stopped: matches!(fields[0], "T" | "t"),
    })
}

/// Returns the fields after the name. The name in parentheses may itself contain parentheses.
fn stat_fields(pid: u32) -> Option<String> {
    let mut text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_name = text.iter().rposition(|&byte| byte == b')')? + 1;
    String::from_utf8(text.split_off(after_name)).ok()
}

/// Returns all processes of the system.
pub fn table() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(stat).collect()
}

fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
        u64::from_str_radix(&digits, 16).unwrap_or(0)
    })
}

/// Returns the environment of a process, each variable ended by a zero. Empty for a moment during exec.
pub fn environ(pid: u32) -> Option<Vec<u8>> {
    let of_first = fs::read(format!("/proc/{pid}/environ")).ok();
    let others = || other_threads(pid).filter_map(|thread| fs::read(thread.join("environ")).ok());
    of_first.filter(|environ| !environ.is_empty()).or_else(|| others().next())
}

pub fn working_dir(pid: u32) -> Option<PathBuf> {
    let of_first = fs::read_link(format!("/proc/{pid}/cwd")).ok();
    let dir = of_first.or_else(|| other_threads(pid).find_map(|thread| fs::read_link(thread.join("cwd")).ok()));
    let bytes = dir?.into_os_string().into_vec();
    // The kernel adds a suffix if the directory was removed.
    Some(OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(&bytes)).into())
}

/// Returns the directories of a process's threads but the first, which may have ended.
fn other_threads(pid: u32) -> impl Iterator<Item = PathBuf> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter(move |thread| thread.file_name().to_str() != Some(&pid.to_string())).map(|thread| thread.path())
}

/// Tells whether the process has a controlling terminal.
pub fn has_terminal(pid: u32) -> bool {
    stat_fields(pid).is_some_and(|text| text.split_ascii_whitespace().nth(4).is_some_and(|terminal| terminal != "0"))
}

/// Tells whether the process has the file with this canonical path open.
pub fn has_open(pid: u32, file: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| target == file)
}

pub fn wait_until_gone(id: &ProcessId) {
    let handle = Pid::from_raw(id.pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    while id.alive() {
        match &handle {
            // Becomes readable when the process ends.
            Some(handle) => drop(poll(&mut [PollFd::new(handle, PollFlags::IN)], None)),
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Returns a descriptor that is readable when the child with this pid has ended; none on kernels without them.
pub fn end_event(pid: u32) -> Option<OwnedFd> {
    Pid::from_raw(pid.cast_signed()).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
}

/// Sends a signal through a pidfd, so that it cannot hit another process that has reused the pid.
pub fn signal(id: &ProcessId, signal: Signal) {
    let Some(pid) = Pid::from_raw(id.pid as i32) else { return };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => {
            if ProcessId::of(id.pid) == Some(*id) {
                let _ = pidfd_send_signal(handle, signal);
            }
        }
        // A container's system call filter may answer with PERM.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) if id.alive() => {
            let _ = kill_process(pid, signal);
        }
        Err(_) => {}
    }
}

/// Tells whether this process ignores the signal, as it does if it was started that way (`nohup`).
pub fn ignores(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Makes this process the new parent of every process below it that loses its own parent.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Does nothing: orphans are found by their parent.
pub fn remember_mark(_command: &Command, _pid: u32) {}

/// Returns our children, orphans among them.
pub fn adopted() -> Vec<Stat> {
    let own = std::process::id();
    table().into_iter().filter(|stat| stat.parent == own).collect()
}

/// Tells whether this process has any child. Answers the common case, no children, with a single system call.
pub fn may_have_descendants() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(rustix::io::Errno::CHILD))
}

/// Returns the priority of this process for the disk; empty for the one that processes have by default, which the kernel
/// shows in another way once a process has used the disk.
pub fn disk_priority() -> String {
    /// Best effort, the level in the middle.
    const DEFAULT: libc::c_long = 2 << 13 | 4;
    let priority = crate::raw::disk_priority();
    if [0, DEFAULT].contains(&priority) { String::new() } else { priority.to_string() }
}

/// Forbids other processes of this user to trace this one or read its memory.
pub fn refuse_tracing() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Returns a path that leads to the running executable after its file was removed.
pub fn removed_program() -> io::Result<PathBuf> {
    Ok("/proc/self/exe".into())
}
