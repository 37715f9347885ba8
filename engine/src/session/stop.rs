//! Stops a run, or what a run that died left running. When it returns, nothing of it is running.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use mahabharatha_core::ids::WorkerId;
use mahabharatha_core::run::effect::Job;
use mahabharatha_core::run::event::Command;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc::{self, ProcessId};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::locks::{FeatureLock, lock_file};
use mahabharatha_sys::store::spool::{self, Asked};

use super::claims;
use super::control::read_run;
use crate::host::jobs;
use crate::lease::{self, Lease};

/// Time that an orchestrator gets to exit after `stop --force`; then it is killed.
const FORCE_TIMEOUT: Duration = Duration::from_secs(10);
/// Poll interval for detecting that the orchestrator has released the feature.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Stops the whole run or one worker. Returns whether anything was running. Calls `answered` when a process that drives the
/// run has answered; what is under way may take longer to end.
pub fn stop(
    place: &Place,
    worker: Option<WorkerId>,
    force: bool,
    grace: Duration,
    answered: impl FnOnce(),
) -> Result<bool> {
    let orchestrator = orchestrator(place.paths.dir())?;
    match orchestrator {
        Some(process) if force && worker.is_none() => {
            let dir = place.paths.dir().to_owned();
            thread::spawn(move || kill_unresponsive(&dir, process, FORCE_TIMEOUT));
        }
        Some(process) if process.is_stopped() => return Err(suspended(place, process)),
        _ => {}
    }
    let command = Command::Stop { force, grace_ms: grace.as_millis() as u64, worker };
    match (spool::ask(place.paths.dir(), &place.paths.holder_file(), &command)?, worker) {
        (Asked::Answered(_), Some(worker)) => {
            answered();
            wait_for_worker(place, worker)?;
            Ok(true)
        }
        (Asked::Answered(_), None) => {
            answered();
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
            let was_driven = orchestrator.is_some() && worker.is_none();
            let held = cancel_held(place, &lock, worker)?;
            Ok(end_survivors(place, &lock, worker, grace)? || held || was_driven)
        }
    }
}

/// Returns the process that holds the feature. A pid in the lock file counts only if that process has the lock file
/// open: an agent may have written any number there.
fn orchestrator(feature_dir: &Path) -> Result<Option<ProcessId>> {
    let pid = FeatureLock::holder(feature_dir)?.and_then(|holder| holder.pid);
    let process = pid.filter(|pid| *pid != std::process::id()).and_then(ProcessId::of);
    Ok(process.filter(|process| process.has_open(&lock_file(feature_dir))))
}

/// Kills an orchestrator that was told to stop by force, if it is suspended or still holds the feature after the
/// timeout. Its workers are ended afterwards, like those of any orchestrator that died.
fn kill_unresponsive(feature_dir: &Path, process: ProcessId, timeout: Duration) {
    let deadline = Instant::now() + timeout;
    while orchestrator(feature_dir).is_ok_and(|holder| holder == Some(process)) {
        if process.is_stopped() || Instant::now() >= deadline {
            return proc::kill_alone(process);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn suspended(place: &Place, process: ProcessId) -> Error {
    let (feature, pid) = (&place.feature, process.pid);
    Error::new(Kind::Held, format!("{feature} is held by process {pid}, which is suspended and does not answer"))
        .hint(format!("Continue it with `kill -CONT {pid}`, or end it with `mahabharatha stop {feature} --force`."))
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Starts a process that holds the feature's lock and reacts to nothing.
    fn hanging_holder(dir: &Path) -> Child {
        let lock = lock_file(dir);
        let mut holder = Command::new("flock")
            .arg("--close")
            .arg(&lock)
            .args(["sh", "-c", "echo held; exec sleep 1000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        holder.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        fs::write(&lock, format!("{}:1.000", holder.id())).unwrap();
        holder
    }

    #[test]
    fn a_process_that_holds_the_feature_too_long_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let mut holder = hanging_holder(dir.path());
        let sleeper = proc::descendants(holder.id());
        let found = orchestrator(dir.path()).unwrap();
        assert_eq!(found.map(|process| process.pid), Some(holder.id()));
        kill_unresponsive(dir.path(), found.unwrap(), Duration::ZERO);
        assert!(!holder.wait().unwrap().success());
        assert_eq!(orchestrator(dir.path()).unwrap(), None);
        assert!(
            sleeper.iter().all(|process| process.alive() && proc::end_process(*process)),
            "only the holder is killed"
        );
    }

    #[test]
    fn a_forged_pid_in_the_lock_file_is_not_killed() {
        let dir = tempfile::tempdir().unwrap();
        let mut holder = hanging_holder(dir.path());
        let sleeper = proc::descendants(holder.id());
        let mut innocent = Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(lock_file(dir.path()), format!("{}:1.000", innocent.id())).unwrap();
        assert_eq!(orchestrator(dir.path()).unwrap(), None);
        kill_unresponsive(dir.path(), ProcessId::of(innocent.id()).unwrap(), Duration::ZERO);
        assert_eq!(innocent.try_wait().unwrap(), None);
        for child in [&mut innocent, &mut holder] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(sleeper.iter().all(|process| proc::end_process(*process)));
    }
}
