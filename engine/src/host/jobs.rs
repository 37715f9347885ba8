//! Starts, watches, adopts and cancels the workers of jobs. Called by the host for `RunJob`.
//!
//! `settle` determines what a worker that is gone has left, `survivors` ends workers whose orchestrator is gone.
//! Nothing here changes the user's checkout or a branch.

mod settle;
mod survivors;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::Oid;
use mahabharatha_core::run::effect::{Job, Performer};
use mahabharatha_core::run::event::{Event, JobEnd, JobReport};
use mahabharatha_core::run::{MIN_LIFETIME, Run};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Kind, Result};
use mahabharatha_sys::proc::{self, Canceller, ProcessId};
use mahabharatha_sys::store::atomic::{make_projected_dir, write_atomic};
use mahabharatha_sys::store::locks::JobLock;
use mahabharatha_sys::store::state_file;

use super::{Context, slots};
use crate::launch::subprocess;
use crate::lease;
use crate::worker::heartbeat::Watch;
use crate::worker::{self, FENCE, JobSpec};
use settle::{
    Watched, checked, conclude, ended, finished_commit, report_of, send_end, settle, unreported_cost, when_gone,
};
pub use survivors::{
    alive, end_escaped, end_survivors, end_trials, end_working_in, is_alive, remove_container_of, remove_containers,
    runs_commands_in_staging, wait_for_end,
};
use survivors::{end_holder, holder};

/// Extra time after the agent's grace period for the worker to save its work in progress.
const SAVE_PERIOD: Duration = Duration::from_secs(5);
/// Poll interval for detecting that a session's client has exited.
const LEASE_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Handle to cancel a running job.
pub enum Control {
    Child(Canceller),
    /// Job directory of an adopted worker, which may not have written its identity yet.
    Adopted(PathBuf),
    /// Held by a session; a message on the channel ends the attempt.
    Held(Sender<()>),
}

impl Control {
    /// Asks the worker to end, and kills it with all its descendants after the grace period.
    pub fn cancel(&self, job_dir: &Path, force: bool, grace: Duration) {
        let limit = if force { Duration::ZERO } else { grace + SAVE_PERIOD };
        // The worker reads the file when the signal arrives; without it, its agent gets the usual grace period.
        let file = job_dir.join(worker::GRACE);
        if write_atomic(&file, grace.as_millis().to_string().as_bytes()).is_err() {
            // Even a full disk has room for an empty file, which records that the worker did not end by itself.
            let _ = state_file::open(&file);
        }
        match self {
            Control::Child(canceller) => canceller.cancel(limit),
            Control::Adopted(dir) => {
                let dir = dir.clone();
                thread::spawn(move || end_holder(&dir, limit));
            }
            Control::Held(cancel) => drop(cancel.send(())),
        }
    }
}

/// Starts the worker and sends events when it has started and when it has ended.
pub fn start(context: &Context, job: &Job, run: &Run, events: &Sender<Event>) -> Option<Control> {
    match try_start(context, job, run, events) {
        Ok(control) => Some(control),
        Err(error) => {
            let lack = (error.kind() == Kind::OutOfSpace).then(|| error.message().to_owned());
            let end = if lack.is_some() { JobEnd::Cancelled } else { JobEnd::Died { started: false } };
            let mut report = report_of(end, Duration::ZERO).with_cost(Cost::default());
            report.warnings.push(error.to_string());
            send_end(events, lack, ended(job, report));
            None
        }
    }
}

/// Moves damaged objects of the task's earlier results out of the way, so that the attempt can write them again.
fn set_aside_damaged(context: &Context, job: &Job, run: &Run) -> Result<()> {
    let attempts = run.task(&job.task).map(|task| task.attempts.iter()).into_iter().flatten();
    let results = attempts.filter_map(|attempt| match &attempt.ended {
        Some((_, JobReport { end: JobEnd::Done { commit }, .. })) => Some(commit.clone()),
        _ => None,
    });
    let results: Vec<Oid> = results.collect();
    let lost = if results.is_empty() { results } else { context.repository.lost(&results)? };
    if !lost.is_empty() {
        context.repository.set_aside_damaged(&lost, &context.paths.damaged_objects())?;
    }
    Ok(())
}

fn try_start(context: &Context, job: &Job, run: &Run, events: &Sender<Event>) -> Result<Control> {
    set_aside_damaged(context, job, run)?;
    let job = &context.based(job)?;
    if let Performer::Session(session) = &job.performer {
        write_job_spec(context, job, run)?;
        return Ok(await_session(context, job, session, events));
    }
    let dir = context.paths.job(&job.task, job.attempt);
    let point = |what: &'static str| crash::point(|| format!("job {} {} {what}", job.task, job.attempt));
    let spec = write_job_spec(context, job, run)?;
    let running = subprocess::start(&dir, &spec)?;
    point("has a worker");
    let (control, canceller) = (Control::Child(running.canceller()), running.canceller());
    let _ = events.send(Event::JobStarted {
        effect: job.effect,
        task: job.task.clone(),
        attempt: job.attempt,
        pid: running.id().pid,
    });
    let watch = Watch::start(&dir, spec.limits.stall(), move || canceller.cancel(Duration::ZERO));
    let (context, job, events) = (context.clone(), job.clone(), events.clone());
    thread::spawn(move || {
        let seen = running.wait().ok();
        let end = Watched { seen, silent: watch.end() };
        if !matches!(worker::read_result(&dir), Ok(Some(_))) {
            // Processes that the worker left behind are our children now.
            proc::end_orphans();
        }
        let report = when_gone(&dir, |lock| settle(&context, &job, &dir, lock, &end));
        conclude(&context, &job, &events, report);
    });
    Ok(control)
}

fn write_job_spec(context: &Context, job: &Job, run: &Run) -> Result<JobSpec> {
    let dir = context.paths.job(&job.task, job.attempt);
    let point = |what: &'static str| crash::point(|| format!("job {} {} {what}", job.task, job.attempt));
    make_projected_dir(&dir)?;
    point("has a directory");
    if context.repository.worktree_git_dir(&context.paths.worktree(job.worker)).is_none() {
        // The slot was never prepared, or the user has pruned its worktree since.
        slots::prepare(context, job.worker)?;
    }
    let spec = context.spec(job, run)?;
    spec.write(&dir)?;
    point("has a job spec");
    Ok(spec)
}

/// Waits until the lease of the session that holds the task expires or the attempt is cancelled. The session reports
/// any other end itself.
fn await_session(context: &Context, job: &Job, session: &str, events: &Sender<Event>) -> Control {
    let (cancel, cancelled) = mpsc::channel();
    let (context, job, session, events) = (context.clone(), job.clone(), session.to_owned(), events.clone());
    thread::spawn(move || {
        while let Some(left) = lease::time_left(context.paths.dir(), &session) {
            // The lease may be renewed and the client may exit at any time.
            match cancelled.recv_timeout(left.min(LEASE_POLL_INTERVAL)) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) => break,
                // The run no longer waits for this job.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        let dir = context.paths.job(&job.task, job.attempt);
        let report = when_gone(&dir, |lock| settle(&context, &job, &dir, lock, &Watched::default()));
        conclude(&context, &job, &events, report);
    });
    Control::Held(cancel)
}

/// Takes over a job that an earlier process may have started: reports its result, adopts its live worker, or starts it.
pub fn reconcile(context: &Context, job: &Job, run: &Run, events: &Sender<Event>) -> Option<Control> {
    let dir = context.paths.job(&job.task, job.attempt);
    // If the commits that the base was made of are lost, the job spec still names the base.
    let based = context.based(job).or_else(|_| JobSpec::read(&dir).map(|spec| spec.job));
    let Ok(job) = &based else { return start(context, job, run, events) };
    if JobSpec::read(&dir).is_err() {
        // The job never began, unless a power loss took its spec.
        let Some(commit) = finished_commit(context, job) else { return start(context, job, run, events) };
        let cost = unreported_cost(context, job, &dir);
        let report = report_of(JobEnd::Done { commit }, MIN_LIFETIME).with_cost(cost);
        let _ = events.send(ended(job, checked(context, job, report, &Watched::default())));
        return None;
    }
    match JobLock::try_acquire(&dir) {
        Ok(Some(lock)) => {
            if let Some(session) = live_session(context, job) {
                return Some(await_session(context, job, session, events));
            }
            conclude(context, job, events, settle(context, job, &dir, &lock, &Watched::default()));
            None
        }
        Ok(None) => Some(match &job.performer {
            // The session is ending the attempt.
            Performer::Session(session) => await_session(context, job, session, events),
            _ => adopt(context, job, events),
        }),
        Err(error) => {
            let mut report = report_of(JobEnd::Died { started: true }, MIN_LIFETIME);
            report.warnings.push(error.to_string());
            let _ = events.send(ended(job, report));
            None
        }
    }
}

/// Returns the live session that holds an unfinished attempt.
fn live_session<'a>(context: &Context, job: &'a Job) -> Option<&'a str> {
    let Performer::Session(session) = &job.performer else { return None };
    let dir = context.paths.job(&job.task, job.attempt);
    let ended = dir.join(FENCE).exists() || !matches!(worker::read_result(&dir), Ok(None));
    let lives = lease::time_left(context.paths.dir(), session).is_some();
    (lives && !ended).then_some(session)
}

/// Returns the stall limit that a worker was started with; agents may have one of their own.
fn stall_of(context: &Context, dir: &Path) -> Duration {
    JobSpec::read(dir).map_or(context.config.workers.stall, |spec| spec.limits.stall())
}

/// Watches a worker that outlived its orchestrator and waits for its lock.
fn adopt(context: &Context, job: &Job, events: &Sender<Event>) -> Control {
    let dir = context.paths.job(&job.task, job.attempt);
    let (control, at) = (Control::Adopted(dir.clone()), dir.clone());
    let watch = Watch::start(&dir, stall_of(context, &dir), move || end_holder(&at, Duration::ZERO));
    let (context, job, events) = (context.clone(), job.clone(), events.clone());
    thread::spawn(move || {
        if let Some(ProcessId { pid, .. }) = holder(&dir) {
            let _ = events.send(Event::JobStarted {
                effect: job.effect,
                task: job.task.clone(),
                attempt: job.attempt,
                pid,
            });
        }
        let report = when_gone(&dir, |lock| {
            let end = Watched { seen: None, silent: watch.end() };
            settle(&context, &job, &dir, lock, &end)
        });
        conclude(&context, &job, &events, report);
    });
    control
}
