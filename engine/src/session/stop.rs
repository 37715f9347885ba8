//! Stops a run, or what a run that died left running. When it returns, nothing of it is running.

use std::time::Duration;

use mahabharatha_core::ids::WorkerId;
use mahabharatha_core::run::effect::Job;
use mahabharatha_core::run::event::Command;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::store::spool::{self, Asked};

use super::claims;
use super::control::read_run;
use crate::host::jobs;
use crate::lease::{self, Lease};

/// Stops the whole run or one worker. Returns whether anything was running.
pub fn stop(place: &Place, worker: Option<WorkerId>, force: bool, grace: Duration) -> Result<bool> {
    let command = Command::Stop { force, grace_ms: grace.as_millis() as u64, worker };
    match (spool::ask(place.paths.dir(), &place.paths.holder_file(), &command)?, worker) {
        (Asked::Answered(_), Some(worker)) => {
            wait_for_worker(place, worker)?;
            Ok(true)
        }
        (Asked::Answered(_), None) => {
            // The run releases its lock after its last process has exited.
            let lock = FeatureLock::wait(place.paths.dir(), &place.paths.holder_file())?;
            if Lease::driving(place.paths.dir()).is_some() {
                // The lock was held by a command of the session.
                cancel_held(place, &lock, None)?;
            }
            end_survivors(place, &lock, None, grace)?;
            Ok(true)
        }
        (Asked::TookLock { lock, .. }, _) => {
            let held = cancel_held(place, &lock, worker)?;
            Ok(end_survivors(place, &lock, worker, grace)? || held)
        }
    }
}

/// Waits for the end of a worker that the run's process has cancelled.
fn wait_for_worker(place: &Place, worker: WorkerId) -> Result<()> {
    let run = read_run(place)?;
    for (task, state) in run.graph().tasks().iter().zip(run.tasks()) {
        for attempt in state.attempts.iter().filter(|attempt| attempt.worker == worker) {
            jobs::wait_for_end(&place.paths, &task.id, attempt.attempt)?;
        }
    }
    Ok(())
}

/// Ends the sessions and the attempts they hold; returns whether there were any. The next attempt saves their work.
fn cancel_held(place: &Place, lock: &FeatureLock, only: Option<WorkerId>) -> Result<bool> {
    let sessions = Lease::all_alive(place.paths.dir());
    if only.is_none() {
        sessions.iter().try_for_each(|lease| lease::end(place.paths.dir(), &lease.session))?;
    }
    let is_meant = |job: &Job, _: &str| only.is_none_or(|only| only == job.worker);
    let held = claims::cancel_held(&place.project, &place.paths, lock, is_meant)?;
    Ok(held || (only.is_none() && !sessions.is_empty()))
}

/// Ends workers that outlived their orchestrator. The lock proves that no orchestrator is running.
fn end_survivors(place: &Place, _lock: &FeatureLock, only: Option<WorkerId>, grace: Duration) -> Result<bool> {
    jobs::end_survivors(&place.paths, Some(&read_run(place)?), only, grace)
}
