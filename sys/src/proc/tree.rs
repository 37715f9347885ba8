//! Whole trees of processes, also those that tried to leave: as a subreaper we become the parent of whatever lost its own.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitIdOptions, WaitOptions};

use super::id::{ProcessId, Stat, table};

/// After SIGKILL only the kernel, or another user's rights, can keep a process for so long.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Our living children. Held while one is started or reaped, so that nobody mistakes it for an orphan.
static CHILDREN: Mutex<Registry> =
    Mutex::new(Registry { subreaper: false, spawned: BTreeSet::new(), inherited: BTreeSet::new() });

struct Registry {
    subreaper: bool,
    spawned: BTreeSet<u32>,
    /// Were our children before we started any (`sh -c 'server & exec mahabharatha …'`): not ours to end.
    inherited: BTreeSet<u32>,
}

impl Registry {
    /// Children that fell to us, dead ones included.
    fn orphans(&self) -> Vec<Stat> {
        if !self.subreaper || !has_children() {
            return Vec::new();
        }
        let own = std::process::id();
        let known = |pid| self.spawned.contains(&pid) || self.inherited.contains(&pid);
        table().into_iter().filter(|stat| stat.parent == own && !known(stat.id.pid)).collect()
    }

    fn reap_orphans(&self) {
        for pid in self.orphans().iter().filter_map(|stat| Pid::from_raw(stat.id.pid as i32)) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

fn registry() -> MutexGuard<'static, Registry> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn spawn_registered(command: &mut Command) -> io::Result<Child> {
    let mut registry = registry();
    let child = command.spawn()?;
    registry.spawned.insert(child.id());
    Ok(child)
}

pub(super) fn reap(child: &mut Child) -> io::Result<ExitStatus> {
    let mut registry = registry();
    let status = child.wait();
    registry.spawned.remove(&child.id());
    status
}

/// From now on processes that lose their parent below us become our children.
pub fn become_subreaper() -> io::Result<()> {
    let mut registry = registry();
    if !registry.subreaper {
        registry.subreaper = true;
        registry.inherited = registry.orphans().iter().map(|stat| stat.id.pid).collect();
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    }
    Ok(())
}

/// The living processes below this one.
pub fn descendants(pid: u32) -> Vec<ProcessId> {
    below(&[pid])
}

/// Whether anything lives below this process.
pub fn has_descendants() -> bool {
    has_children() && !descendants(std::process::id()).is_empty()
}

/// Ends every process below this one; `false` if some would not die. `grace` is the time after SIGTERM.
pub fn end_descendants(grace: Duration) -> bool {
    if !has_children() {
        return true;
    }
    let ours = || {
        let registry = registry();
        let mut roots: Vec<u32> = registry.orphans().iter().map(|stat| stat.id.pid).collect();
        roots.extend(&registry.spawned);
        drop(registry);
        with_roots(&roots)
    };
    if !grace.is_zero() {
        ours().iter().for_each(ask_to_end);
        let until = Instant::now() + grace;
        while Instant::now() < until && !ours().is_empty() {
            registry().reap_orphans();
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    end_all(ours)
}

/// Ends what fell to us when its parent died, with all that is below it; `false` if some would not die.
pub fn end_orphans() -> bool {
    if !has_children() {
        return true;
    }
    end_all(|| {
        let orphans = registry().orphans();
        with_roots(&orphans.iter().map(|stat| stat.id.pid).collect::<Vec<u32>>())
    })
}

/// Asks one process to end, and ends it with everything below it when the time is over.
pub fn end_process_in(id: ProcessId, grace: Duration) -> bool {
    ask_to_end(&id);
    let until = Instant::now() + grace;
    while id.alive() && Instant::now() < until {
        // Not our child: there is nothing to wait on.
        std::thread::sleep(Duration::from_millis(20));
    }
    end_process(id)
}

/// Who is stopped hears nothing until it goes on.
fn ask_to_end(id: &ProcessId) {
    id.signal(Signal::TERM);
    id.signal(Signal::CONT);
}

/// Ends one process and everything below it; `false` if some would not die.
pub fn end_process(id: ProcessId) -> bool {
    end_all(|| if id.alive() { with_roots(&[id.pid]) } else { Vec::new() })
}

fn end_all(living: impl Fn() -> Vec<ProcessId>) -> bool {
    let until = Instant::now() + KILL_LIMIT;
    loop {
        let mut stopped = BTreeSet::new();
        // Stopped before killed, so that nothing forks out of sight between the look and the kill.
        for _ in 0..64 {
            let fresh: Vec<ProcessId> = living().into_iter().filter(|id| stopped.insert(*id)).collect();
            fresh.iter().for_each(|id| id.signal(Signal::STOP));
            if fresh.is_empty() {
                break;
            }
        }
        stopped.iter().for_each(|id| id.signal(Signal::KILL));
        registry().reap_orphans();
        if stopped.is_empty() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Without any child there is nothing below us at all: the common case costs one system call.
fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(rustix::process::WaitId::All, options), Err(rustix::io::Errno::CHILD))
}

fn with_roots(roots: &[u32]) -> Vec<ProcessId> {
    let mut found: Vec<ProcessId> =
        roots.iter().filter_map(|&pid| ProcessId::of(pid)).filter(ProcessId::alive).collect();
    if !roots.is_empty() {
        found.extend(below(roots));
    }
    found
}

fn below(roots: &[u32]) -> Vec<ProcessId> {
    let table = table();
    let mut inside: BTreeSet<u32> = roots.iter().copied().collect();
    let mut found = BTreeSet::new();
    loop {
        let before = inside.len();
        for stat in &table {
            if inside.contains(&stat.parent) && inside.insert(stat.id.pid) && !stat.zombie {
                found.insert(stat.id);
            }
        }
        if inside.len() == before {
            return found.into_iter().collect();
        }
    }
}
