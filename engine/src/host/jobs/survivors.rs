//! Finds, waits for and ends workers that outlived their orchestrator, and their orphans.
//!
//! Processes of a live session must never be ended here.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use mahabharatha_core::ids::{Attempt, TaskId, WorkerId};
use mahabharatha_core::run::Run;
use mahabharatha_core::run::effect::{Effect, Performer};
use mahabharatha_sys::bounded::{self, SMALL_FILE_BYTES};
use mahabharatha_sys::container::Container;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::proc::{self, MARKER, ProcessId};
use mahabharatha_sys::project::FeaturePaths;
use mahabharatha_sys::store::atomic::write_atomic;
use mahabharatha_sys::store::locks::JobLock;
use mahabharatha_sys::store::tree;

use super::super::integrate::STAGING_SANDBOX;
use super::Control;
use crate::containers::{self, slot_of};
use crate::lease;
use crate::worker::{self, FENCE, JobSpec, WORKER, trial};

/// How long a worker that holds its job's lock may take to write its identity.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(2);
/// Poll interval for that identity.
const IDENTITY_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Ends workers that outlived their orchestrator, all or one, and their orphans. Returns whether there were any. The
/// caller holds the feature's lock, so that no orchestrator drives them.
pub fn end_survivors(paths: &FeaturePaths, run: Option<&Run>, only: Option<WorkerId>, grace: Duration) -> Result<bool> {
    let is_meant =
        |dir: &PathBuf| only.is_none_or(|worker| JobSpec::read(dir).is_ok_and(|spec| spec.job.worker == worker));
    let entries = fs::read_dir(paths.dir().join("jobs")).into_iter().flatten();
    let of_sessions: Vec<PathBuf> = run.map(|run| held_by_live_sessions(paths, run)).unwrap_or_default();
    let dirs: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|dir| is_meant(dir) && !of_sessions.contains(dir)).collect();
    let mut trials = false;
    for dir in &dirs {
        trials |= trial::end_open(dir, grace)?;
    }
    let mut ending = Vec::new();
    for dir in &dirs {
        match JobLock::try_acquire(dir)? {
            // Fence an attempt without a result, so that a late worker cannot commit.
            Some(_gone) if matches!(worker::read_result(dir), Ok(Some(_))) => {}
            Some(_gone) => write_atomic(&dir.join(FENCE), b"")?,
            None => {
                Control::Adopted(dir.clone()).cancel(dir, grace.is_zero(), grace);
                ending.push(dir);
            }
        }
    }
    for dir in &ending {
        // Free once the worker has exited or was killed.
        drop(JobLock::wait(dir)?);
    }
    // A worker that wrote a result had ended its processes before.
    let unfinished = dirs.iter().filter(|dir| !matches!(worker::read_result(dir), Ok(Some(_))));
    let mut escaped: usize = unfinished.map(|dir| end_orphans_of(dir)).sum();
    if only.is_none() {
        // Processes of a live session, such as its verification, must not be ended.
        let spared: Vec<ProcessId> = of_sessions.iter().flat_map(|dir| proc::find_marked(MARKER, dir)).collect();
        let marked = proc::find_marked(MARKER, paths.dir());
        escaped += end_each(marked.into_iter().filter(|id| !spared.contains(id)).collect());
        if run.is_some_and(|run| run.outstanding().any(|(_, effect)| runs_commands_in_staging(effect))) {
            escaped += end_working_in(&paths.staging_worktree());
        }
    }
    let removed = if only.is_none() { remove_containers(paths)? } else { 0 };
    Ok(!ending.is_empty() || trials || escaped > 0 || removed > 0)
}

/// Ends what killed trials left running in the worktrees of the feature's attempts; fails if a trial is open.
pub fn end_trials(paths: &FeaturePaths) -> Result<()> {
    for dir in fs::read_dir(paths.dir().join("jobs")).into_iter().flatten().flatten().map(|entry| entry.path()) {
        trial::refuse_open(&dir)?;
        trial::end_killed(&dir);
    }
    Ok(())
}

/// Returns the directories of the attempts that live sessions hold.
fn held_by_live_sessions(paths: &FeaturePaths, run: &Run) -> Vec<PathBuf> {
    let held = run.held().filter(|(_, session)| lease::time_left(paths.dir(), session).is_some());
    held.map(|(job, _)| paths.job(&job.task, job.attempt)).collect()
}

/// Returns whether the attempt's worker is running, whichever process started it.
pub fn is_alive(paths: &FeaturePaths, task: &TaskId, attempt: Attempt) -> bool {
    JobLock::is_held(&paths.job(task, attempt))
}

/// Returns the job directories with a running worker, and its pid.
pub fn alive(feature_dir: &Path) -> Vec<(PathBuf, Option<u32>)> {
    let dirs = fs::read_dir(feature_dir.join("jobs")).into_iter().flatten().flatten().map(|entry| entry.path());
    dirs.filter(|dir| JobLock::is_held(dir))
        .map(|dir| {
            let pid = read_identity(&dir).map(|id| id.pid);
            (dir, pid)
        })
        .collect()
}

/// Waits until the attempt's worker is gone.
pub fn wait_for_end(paths: &FeaturePaths, task: &TaskId, attempt: Attempt) -> Result<()> {
    let dir = paths.job(task, attempt);
    let identity = read_identity(&dir);
    JobLock::wait_until_free(&dir)?;
    // A worker releases the lock shortly before it exits.
    if let Some(id) = identity {
        id.wait_until_gone();
    }
    Ok(())
}

/// Returns the worker that holds this job, once it has written its identity. None if that identity is not of a live
/// process: another program may have the pid by now.
pub(super) fn holder(dir: &Path) -> Option<ProcessId> {
    let deadline = Instant::now() + IDENTITY_TIMEOUT;
    while JobLock::is_held(dir) {
        if let Some(id) = read_identity(dir).filter(ProcessId::alive) {
            return Some(id);
        }
        if Instant::now() > deadline {
            break;
        }
        thread::sleep(IDENTITY_POLL_INTERVAL);
    }
    None
}

/// Ends the worker that holds this job; one that has written no identity is found by its mark.
pub(super) fn end_holder(dir: &Path, limit: Duration) {
    match holder(dir) {
        Some(id) => drop(proc::end_process_within(id, limit)),
        None => drop(end_escaped(dir)),
    }
}

/// Ends the orphans of a worker that is gone, found by their mark or by their working directory. Returns how many.
pub(super) fn end_orphans_of(dir: &Path) -> usize {
    let ours = JobSpec::read(dir).ok().filter(|spec| !matches!(spec.job.performer, Performer::Session(_)));
    if let Some(container) = ours.as_ref().and_then(container_of) {
        // If the engine does not answer, the next attempt waits for it and ends what runs there.
        let _ = container.remove();
    }
    end_escaped(dir) + ours.map_or(0, |spec| end_working_in(&spec.worktree))
}

/// Returns the container in which a job's programs run.
fn container_of(spec: &JobSpec) -> Option<Container> {
    Some(spec.confinement.containers.as_ref()?.container(&slot_of(spec.job.worker), &spec.ports))
}

/// Removes the container of a session's attempt, in which nothing runs any more.
pub fn remove_container_of(job_dir: &Path) {
    if let Some(container) = JobSpec::read(job_dir).ok().as_ref().and_then(container_of) {
        // What is left is removed when the run ends.
        let _ = container.remove();
    }
}

/// Removes the containers of a feature, except those of jobs whose worker is running. Returns how many.
pub fn remove_containers(paths: &FeaturePaths) -> Result<usize> {
    let specs = alive(paths.dir()).into_iter().filter_map(|(dir, _)| JobSpec::read(&dir).ok());
    let used: Vec<String> = specs.map(|spec| slot_of(spec.job.worker)).collect();
    let removed = containers::remove_left(paths.dir(), &used)?;
    if removed > 0 && used.is_empty() {
        // The directories that staging's container had mounted.
        tree::remove(&paths.dir().join(STAGING_SANDBOX))?;
    }
    Ok(removed)
}

/// Ends every process with the mark of this directory or one below it. Returns how many.
pub fn end_escaped(dir: &Path) -> usize {
    end_each(proc::find_marked(MARKER, dir))
}

/// Ends every process whose working directory is in this worktree of ours. Returns how many.
pub fn end_working_in(worktree: &Path) -> usize {
    end_each(proc::find_working_in(worktree))
}

fn end_each(found: Vec<ProcessId>) -> usize {
    found.into_iter().filter(|id| proc::end_process(*id)).count()
}

/// Returns whether the effect runs commands in the staging worktree; at other times the user may be working there.
pub fn runs_commands_in_staging(effect: &Effect) -> bool {
    matches!(effect, Effect::CheckBase { .. } | Effect::Gate { .. } | Effect::Blame { .. })
}

/// Returns the identity that the job's worker has written.
pub(super) fn read_identity(dir: &Path) -> Option<ProcessId> {
    serde_json::from_slice(&bounded::read(&dir.join(WORKER), SMALL_FILE_BYTES).ok()?).ok()
}
