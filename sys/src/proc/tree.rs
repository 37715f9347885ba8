//! Ends whole process trees, including processes that detached: on Linux we become, as a subreaper, the parent of every
//! orphan below us. Must never end a process that was our child before we started any.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, WaitOptions};

use super::id::{ProcessId, Stat};
use super::system::{self, may_have_descendants, table};

/// Time after which a process counts as unkillable: stuck in the kernel, or owned by another user.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Our living children. Locked while a child is spawned or reaped, so that it is never mistaken for an orphan.
static CHILDREN: Mutex<Registry> =
    Mutex::new(Registry { subreaper: false, spawned: BTreeSet::new(), inherited: BTreeSet::new() });

struct Registry {
    subreaper: bool,
    spawned: BTreeSet<u32>,
    /// Children that existed before we spawned any (`sh -c 'server & exec mahabharatha …'`): not ours to end.
    inherited: BTreeSet<u32>,
}

impl Registry {
    /// Returns the orphans that were reparented to us, zombies included.
    fn orphans(&self) -> Vec<Stat> {
        if !self.subreaper || !may_have_descendants() {
            return Vec::new();
        }
        let known = |pid| self.spawned.contains(&pid) || self.inherited.contains(&pid);
        system::adopted().into_iter().filter(|stat| !known(stat.id.pid)).collect()
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
    spawn_passing(command, &[])
}

/// Spawns a child that inherits these descriptors. Under the lock, so that no other child does.
pub(super) fn spawn_passing(command: &mut Command, passed_on: &[OwnedFd]) -> io::Result<Child> {
    let mut registry = registry();
    for descriptor in passed_on {
        fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    let child = command.spawn();
    for descriptor in passed_on {
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    let child = child?;
    system::remember_mark(command, child.id());
    registry.spawned.insert(child.id());
    Ok(child)
}

pub(super) fn reap(child: &mut Child) -> io::Result<ExitStatus> {
    let mut registry = registry();
    let status = child.wait();
    registry.spawned.remove(&child.id());
    status
}

/// Makes this process the new parent of every process below it that loses its own parent.
pub fn become_subreaper() -> io::Result<()> {
    let mut registry = registry();
    if !registry.subreaper {
        registry.subreaper = true;
        registry.inherited = registry.orphans().iter().map(|stat| stat.id.pid).collect();
        system::adopt_orphans()?;
    }
    Ok(())
}

/// Returns the living descendants of a process.
pub fn descendants(pid: u32) -> Vec<ProcessId> {
    below(&[pid])
}

/// Tells whether this process has living descendants.
pub fn has_descendants() -> bool {
    may_have_descendants() && !descendants(std::process::id()).is_empty()
}

/// Sends SIGTERM to all descendants of this process.
pub fn terminate_descendants() {
    descendants(std::process::id()).iter().for_each(terminate);
}

/// Passes Ctrl-C on: sends SIGINT to what our programs run in other sessions than their own, such as a sandbox, or else to
/// our programs and all that they started.
pub fn interrupt_descendants() {
    let own = std::process::id();
    let found: Vec<Stat> = descendants(own).iter().filter_map(|id| system::stat(id.pid)).collect();
    let sessions: Vec<i32> = found.iter().filter(|stat| stat.parent == own).map(|stat| stat.session).collect();
    let inner: Vec<&Stat> = found.iter().filter(|stat| !sessions.contains(&stat.session)).collect();
    let interrupted = if inner.is_empty() { found.iter().collect() } else { inner };
    interrupted.iter().for_each(|stat| stat.id.signal(Signal::INT));
}

/// Ends all descendants of this process; returns `false` if some could not be killed. `grace` is the time between
/// SIGTERM and SIGKILL; with zero they are killed at once.
pub fn end_descendants(grace: Duration) -> bool {
    if !may_have_descendants() {
        return true;
    }
    let ours = || {
        let registry = registry();
        let mut roots: Vec<u32> = registry.orphans().iter().map(|stat| stat.id.pid).collect();
        roots.extend(&registry.spawned);
        drop(registry);
        with_descendants(&roots)
    };
    if !grace.is_zero() {
        ours().iter().for_each(terminate);
        let deadline = Instant::now() + grace;
        while Instant::now() < deadline && !ours().is_empty() {
            registry().reap_orphans();
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    kill_all(ours)
}

/// Kills the orphans that were reparented to us, with their descendants; returns `false` if some could not be killed.
pub fn end_orphans() -> bool {
    if !may_have_descendants() {
        return true;
    }
    kill_all(|| {
        let orphans = registry().orphans();
        with_descendants(&orphans.iter().map(|stat| stat.id.pid).collect::<Vec<u32>>())
    })
}

/// Kills every other process of the session that this process leads; returns `false` if some could not be killed.
pub(super) fn end_session() -> bool {
    let own = std::process::id();
    let is_in_it = |stat: &Stat| stat.session == own.cast_signed() && stat.id.pid != own && !stat.zombie;
    kill_all(|| table().iter().filter(|stat| is_in_it(stat)).map(|stat| stat.id).collect())
}

/// Sends SIGTERM to a process, and kills it with all its descendants if it is still alive after the grace period.
pub fn end_process_within(id: ProcessId, grace: Duration) -> bool {
    terminate(&id);
    let deadline = Instant::now() + grace;
    while id.alive() && Instant::now() < deadline {
        // Not our child, so it cannot be waited for.
        std::thread::sleep(Duration::from_millis(20));
    }
    end_process(id)
}

/// Sends SIGTERM, then SIGCONT: a stopped process does not handle SIGTERM until it continues.
fn terminate(id: &ProcessId) {
    id.signal(Signal::TERM);
    id.signal(Signal::CONT);
}

/// Kills a process and its descendants; returns `false` if some could not be killed.
pub fn end_process(id: ProcessId) -> bool {
    kill_all(|| if id.alive() { with_descendants(&[id.pid]) } else { Vec::new() })
}

/// Kills a process but none of its descendants.
pub fn kill_alone(id: ProcessId) {
    id.signal(Signal::KILL);
}

fn kill_all(living: impl Fn() -> Vec<ProcessId>) -> bool {
    let deadline = Instant::now() + KILL_TIMEOUT;
    // Processes that die may no longer be listed, because their parent is gone already.
    let mut dying: BTreeSet<ProcessId> = BTreeSet::new();
    loop {
        let mut stopped = BTreeSet::new();
        // Stop all before killing any, so that no process forks between the listing and the kill.
        for _ in 0..64 {
            let fresh: Vec<ProcessId> = living().into_iter().filter(|id| stopped.insert(*id)).collect();
            fresh.iter().for_each(|id| id.signal(Signal::STOP));
            if fresh.is_empty() {
                break;
            }
        }
        stopped.iter().for_each(|id| id.signal(Signal::KILL));
        registry().reap_orphans();
        let found_none = stopped.is_empty();
        dying.extend(stopped);
        dying.retain(ProcessId::alive);
        if found_none && dying.is_empty() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn with_descendants(roots: &[u32]) -> Vec<ProcessId> {
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
