//! Which process is meant: a pid alone is used again by others.

use std::ffi::OsStr;

use serde::{Deserialize, Serialize};

/// A process, told from any later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot; 0 where the platform does not tell.
    pub start: u64,
    /// Which boot that was.
    pub boot: u64,
}

impl ProcessId {
    pub fn own() -> Self {
        let pid = std::process::id();
        Self::of(pid).unwrap_or(ProcessId { pid, start: 0, boot: 0 })
    }

    /// Runs still: not dead, not a zombie, not another process with the same pid.
    pub fn alive(&self) -> bool {
        platform::alive(self)
    }

    /// The process that has this pid now.
    pub fn of(pid: u32) -> Option<Self> {
        platform::identify(pid)
    }

    /// Returns when the process has ended; that of a child nobody has waited for counts too.
    pub fn wait_until_gone(&self) {
        platform::wait_until_gone(self);
    }

    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        platform::signal(self, signal);
    }
}

/// Whether this process was started so that it ignores the signal; not known everywhere, and then not so.
pub fn ignores(signal: i32) -> bool {
    platform::ignores(signal)
}

/// The login session that we belong to; 0 where it began outside of the container that we are in.
pub fn login_session() -> i32 {
    platform::login_session()
}

/// Every other process whose environment has `key=value`, or a path below `value`.
pub fn find_marked(key: &str, value: impl AsRef<OsStr>) -> Vec<ProcessId> {
    platform::find_marked(key, value.as_ref())
}

/// The nearest of our ancestors whose environment has no such variable, where our own has it: who started those that do.
pub fn ancestor_without(key: &str) -> Option<ProcessId> {
    std::env::var_os(key).and_then(|_| platform::ancestor_without(key))
}

/// Every other process that works in this directory or below it and has no terminal, as a person's shell would.
pub fn find_working_in(dir: &std::path::Path) -> Vec<ProcessId> {
    platform::find_working_in(dir)
}

/// A process as the system lists it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stat {
    pub id: ProcessId,
    pub parent: u32,
    pub session: i32,
    pub zombie: bool,
    pub terminal: bool,
}

/// Every process that there is; empty where the platform does not tell, where only process groups can be reached.
pub(super) fn table() -> Vec<Stat> {
    platform::table()
}

#[cfg(target_os = "linux")]
mod platform {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::sync::OnceLock;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

    use super::{ProcessId, Stat};

    impl Stat {
        fn read(pid: u32) -> Option<Stat> {
            let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
            // The name in parentheses may hold anything, also parentheses; fields are counted from behind it.
            let after_name = text.iter().rposition(|&byte| byte == b')')? + 1;
            let rest = std::str::from_utf8(&text[after_name..]).ok()?;
            let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
            let id = ProcessId { pid, start: fields.get(19)?.parse().ok()?, boot: boot() };
            Some(Stat {
                id,
                parent: fields.get(1)?.parse().ok()?,
                session: fields[3].parse().ok()?,
                zombie: matches!(fields[0], "Z" | "X"),
                terminal: fields[4] != "0",
            })
        }
    }

    pub fn table() -> Vec<Stat> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Stat::read).collect()
    }

    pub fn ignores(signal: i32) -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    }

    fn boot() -> u64 {
        static BOOT: OnceLock<u64> = OnceLock::new();
        *BOOT.get_or_init(|| {
            let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
            u64::from_str_radix(&digits, 16).unwrap_or(0)
        })
    }

    /// Not by getsid: rustix takes its answer for a pid, and across the border of a container it is 0.
    pub fn login_session() -> i32 {
        Stat::read(std::process::id()).map_or(0, |stat| stat.session)
    }

    pub fn identify(pid: u32) -> Option<ProcessId> {
        Stat::read(pid).map(|stat| stat.id)
    }

    pub fn alive(id: &ProcessId) -> bool {
        Stat::read(id.pid).is_some_and(|now| now.id == *id && !now.zombie)
    }

    pub fn wait_until_gone(id: &ProcessId) {
        let handle = Pid::from_raw(id.pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        while alive(id) {
            match &handle {
                // Becomes readable with the end of the process.
                Some(handle) => drop(poll(&mut [PollFd::new(handle, PollFlags::IN)], None)),
                None => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        }
    }

    /// Through a pidfd, so that a pid used again in between is not hit.
    pub fn signal(id: &ProcessId, signal: Signal) {
        let Some(pid) = Pid::from_raw(id.pid as i32) else { return };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => {
                if identify(id.pid) == Some(*id) {
                    let _ = pidfd_send_signal(handle, signal);
                }
            }
            Err(rustix::io::Errno::NOSYS) if alive(id) => {
                let _ = kill_process(pid, signal);
            }
            Err(_) => {}
        }
    }

    pub fn find_marked(key: &str, value: &OsStr) -> Vec<ProcessId> {
        let marker = [key.as_bytes(), b"=", value.as_bytes()].concat();
        let is_marker =
            |entry: &[u8]| entry.strip_prefix(marker.as_slice()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
        let environ = |stat: &Stat| std::fs::read(format!("/proc/{}/environ", stat.id.pid)).unwrap_or_default();
        let is_marked = |environ: &[u8]| environ.split(|&byte| byte == 0).any(is_marker);
        // For a moment a program that begins to run has no environment to show: it is looked at once more.
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

    pub fn ancestor_without(key: &str) -> Option<ProcessId> {
        let has_it = |pid: u32| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
            let is_it =
                |entry: &[u8]| entry.strip_prefix(key.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='));
            Some(environ.split(|&byte| byte == 0).any(is_it))
        };
        let mut stat = Stat::read(std::process::id())?;
        loop {
            stat = Stat::read(stat.parent).filter(|parent| parent.id.pid > 1)?;
            if !has_it(stat.id.pid)? {
                return Some(stat.id);
            }
        }
    }

    pub fn find_working_in(dir: &Path) -> Vec<ProcessId> {
        let works_there = |stat: &Stat| {
            let Ok(place) = std::fs::read_link(format!("/proc/{}/cwd", stat.id.pid)) else { return false };
            // So the kernel says that the directory itself is gone.
            let bytes = place.as_os_str().as_bytes();
            let place = Path::new(OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes)));
            place.starts_with(dir)
        };
        others(|stat| !stat.terminal && works_there(stat))
    }

    fn others(wanted: impl FnMut(&Stat) -> bool) -> Vec<ProcessId> {
        let own = std::process::id();
        let living = table().into_iter().filter(|stat| !stat.zombie && stat.id.pid != own);
        living.filter(wanted).map(|stat| stat.id).collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::ffi::OsStr;

    use rustix::process::{Pid, Signal, kill_process, test_kill_process};

    use super::{ProcessId, Stat};

    pub fn ignores(_signal: i32) -> bool {
        false
    }

    pub fn login_session() -> i32 {
        rustix::process::getsid(None).map_or(0, |id| id.as_raw_nonzero().get())
    }

    pub fn table() -> Vec<Stat> {
        Vec::new()
    }

    pub fn identify(pid: u32) -> Option<ProcessId> {
        let id = ProcessId { pid, start: 0, boot: 0 };
        alive(&id).then_some(id)
    }

    pub fn alive(id: &ProcessId) -> bool {
        Pid::from_raw(id.pid as i32).is_some_and(|pid| test_kill_process(pid).is_ok())
    }

    pub fn wait_until_gone(id: &ProcessId) {
        while alive(id) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    pub fn signal(id: &ProcessId, signal: Signal) {
        if let Some(pid) = Pid::from_raw(id.pid as i32) {
            let _ = kill_process(pid, signal);
        }
    }

    pub fn find_marked(_key: &str, _value: &OsStr) -> Vec<ProcessId> {
        Vec::new()
    }

    pub fn ancestor_without(_key: &str) -> Option<ProcessId> {
        None
    }

    pub fn find_working_in(_dir: &std::path::Path) -> Vec<ProcessId> {
        Vec::new()
    }
}
