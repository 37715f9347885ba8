//! Processes of macOS. Type-checked, never run.
//!
//! What differs from Linux: only launchd adopts orphans, so ours are found by the mark in their environment; the
//! environment of programs that belong to the system is not shown; a signal may hit a process that has just reused the pid.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sysinfo::{Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind};

use super::id::{ProcessId, Stat};
use super::{Cmd, Exit, MARKER};

/// Poll interval for the end of a process that is not our child.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit for a program of the system that is asked about a process.
const TOOL_TIMEOUT: Duration = Duration::from_secs(10);
/// The process that adopts orphans.
const LAUNCHD: u32 = 1;

/// Marks of the programs that this process has started, with those that may still run.
static MARKS: Mutex<BTreeMap<OsString, Vec<ProcessId>>> = Mutex::new(BTreeMap::new());

/// Returns the process that has this pid.
pub fn stat(pid: u32) -> Option<Stat> {
    look(pid, ProcessRefreshKind::nothing(), stat_of)?
}

/// Returns all processes of this user.
pub fn table() -> Vec<Stat> {
    let mut system = System::new();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, ProcessRefreshKind::nothing());
    system.processes().values().filter_map(stat_of).collect()
}

fn look<T>(pid: u32, what: ProcessRefreshKind, read: impl Fn(&Process) -> T) -> Option<T> {
    let (mut system, pid) = (System::new(), sysinfo::Pid::from_u32(pid));
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, what);
    system.process(pid).map(read)
}

/// `None` for a process of another user, whose start is not shown.
fn stat_of(process: &Process) -> Option<Stat> {
    let number = |pid: Option<sysinfo::Pid>| pid.map_or(0, sysinfo::Pid::as_u32);
    let start = Some(process.start_time()).filter(|start| *start > 0)?;
    Some(Stat {
        id: ProcessId { pid: process.pid().as_u32(), start, boot: 0 },
        parent: number(process.parent()),
        session: number(process.session_id()).cast_signed(),
        zombie: process.status() == ProcessStatus::Zombie,
        stopped: process.status() == ProcessStatus::Stop,
    })
}

/// Returns the environment of a process, the variables separated by zeros. `None` if it is not shown.
pub fn environ(pid: u32) -> Option<Vec<u8>> {
    let what = ProcessRefreshKind::nothing().with_environ(UpdateKind::Always);
    let variables = look(pid, what, |process| process.environ().to_vec())?;
    (!variables.is_empty()).then(|| variables.join(OsStr::new("\0")).into_vec())
}

pub fn working_dir(pid: u32) -> Option<PathBuf> {
    let what = ProcessRefreshKind::nothing().with_cwd(UpdateKind::Always);
    look(pid, what, |process| process.cwd().map(Path::to_owned))?
}

/// Tells whether the process has a controlling terminal. `true` if that cannot be found out: such processes are spared.
pub fn has_terminal(pid: u32) -> bool {
    let cmd = Cmd::new("/bin/ps").args(["-o", "tty=", "-p", &pid.to_string()]);
    let ended = cmd.timeout(TOOL_TIMEOUT).run();
    !ended.is_ok_and(|ended| ended.success() && ended.stdout.trim_ascii() == b"??")
}

/// Tells whether the process has the file with this canonical path open.
pub fn has_open(pid: u32, file: &Path) -> bool {
    let cmd = Cmd::new("/usr/sbin/lsof").args(["-t", "-a", "-p", &pid.to_string(), "--"]).arg(file);
    let ended = cmd.timeout(TOOL_TIMEOUT).run();
    ended.is_ok_and(|ended| ended.stdout.trim_ascii() == pid.to_string().as_bytes())
}

pub fn wait_until_gone(id: &ProcessId) {
    while id.alive() {
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// None: no descriptor of macOS tells of the end of a process.
pub fn end_event(_pid: u32) -> Option<OwnedFd> {
    None
}

/// Sends a signal if the process is still the same one.
pub fn signal(id: &ProcessId, signal: Signal) {
    if let Some(pid) = Pid::from_raw(id.pid.cast_signed()).filter(|_| id.alive()) {
        let _ = kill_process(pid, signal);
    }
}

/// Tells whether this process ignores the signal, as it does if it was started that way (`nohup`). A program that we start
/// inherits that: it survives the signal.
pub fn ignores(signal: i32) -> bool {
    let ended = Cmd::shell(&format!("kill -{signal} $$")).timeout(TOOL_TIMEOUT).run();
    ended.is_ok_and(|ended| ended.status == Exit::Code(0))
}

/// Does nothing: no process of macOS can ask for orphans. `adopted` finds them.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// Remembers the mark of a program, to find what it leaves behind.
pub fn remember_mark(command: &Command, pid: u32) {
    let mark = command.get_envs().find(|(key, _)| *key == MARKER).and_then(|(_, value)| value);
    if let Some(mark) = mark {
        let mut marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
        let running = marks.entry(mark.to_owned()).or_default();
        running.retain(ProcessId::alive);
        running.extend(ProcessId::of(pid));
    }
}

/// Returns the orphans with the mark of a program of ours that has ended. A worker's are its own until then.
pub fn adopted() -> Vec<Stat> {
    let marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let ended = marks.into_iter().filter(|(_, running)| !running.iter().any(ProcessId::alive));
    let variables: Vec<Vec<u8>> = ended.map(|(mark, _)| [MARKER.as_bytes(), b"=", mark.as_bytes()].concat()).collect();
    let is_ours = |stat: &Stat| {
        let environ = environ(stat.id.pid).unwrap_or_default();
        environ.split(|&byte| byte == 0).any(|variable| variables.iter().any(|ours| ours == variable))
    };
    let orphans = table().into_iter().filter(|stat| stat.parent == LAUNCHD);
    orphans.filter(|stat| !variables.is_empty() && is_ours(stat)).collect()
}

/// Always `true`: orphans are not our children, so it takes a listing to know.
pub fn may_have_descendants() -> bool {
    true
}

/// Nothing: only Linux has sandboxes that need it.
pub fn disk_priority() -> String {
    String::new()
}

/// Refuses: only Linux has sandboxes that need it.
pub fn refuse_tracing() -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "a helper in a sandbox needs Linux"))
}

/// Fails: macOS cannot start an executable whose file was removed.
pub fn removed_program() -> io::Result<PathBuf> {
    Err(io::Error::new(io::ErrorKind::NotFound, "the file of this program was removed or replaced"))
}
