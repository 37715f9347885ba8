//! Jobs: started, watched, adopted from a process that died, fenced, ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, SystemTime};

use mahabharatha_core::ids::{Attempt, Oid, TaskId, WorkerId};
use mahabharatha_core::run::effect::Job;
use mahabharatha_core::run::event::{Event, JobEnd, JobReport};

use super::Context;
use crate::error::{Result, io};
use crate::launch::subprocess;
use crate::proc::{self, Canceller, ProcessId};
use crate::project::FeaturePaths;
use crate::store::atomic::write_atomic;
use crate::store::disk::lack_of_space;
use crate::store::locks::JobLock;
use crate::worker::{self, FENCE, MARKER, Order, WORKER, result_ref};

/// What a worker is given beyond the agent's grace time, to keep the work that was under way.
const TIME_TO_SAVE: Duration = Duration::from_secs(5);
/// A worker whose end we did not watch is not taken for one that died as it started.
const NOT_EARLY: Duration = Duration::from_secs(2);

/// A job under way, ours or adopted.
pub enum Control {
    Child(Canceller),
    Adopted(ProcessId),
}

impl Control {
    /// Asks the worker to end; when the time is over it is killed with all that is below it.
    pub fn interrupt(&self, job_dir: &Path, force: bool, grace: Duration) {
        let limit = if force { Duration::ZERO } else { grace + TIME_TO_SAVE };
        // The worker reads it when the signal comes; without it, it gives its agent the usual time.
        let file = job_dir.join(worker::GRACE);
        if write_atomic(&file, grace.as_millis().to_string().as_bytes()).is_err() {
            // On a full disk there is room for a name at least, which tells that the end was not the worker's own.
            let _ = fs::File::create(&file);
        }
        match self {
            Control::Child(canceller) => canceller.cancel(limit),
            Control::Adopted(id) => {
                let id = *id;
                thread::spawn(move || proc::end_process_in(id, limit));
            }
        }
    }
}

/// Starts the worker, and tells when it started and how it ended.
pub fn start(context: &Context, job: &Job, events: &Sender<Event>) -> Option<Control> {
    match try_start(context, job, events) {
        Ok(control) => Some(control),
        Err(error) => {
            let lack = error.is_lack_of_space().then(|| error.message().to_owned());
            let end = if lack.is_some() { JobEnd::Interrupted } else { JobEnd::Died { started: false } };
            let mut report = report_of(end, Duration::ZERO);
            report.warnings.push(error.to_string());
            tell(events, lack, ended(job, report));
            None
        }
    }
}

/// A lack of room comes first, so that nothing is tried again before there is some.
fn tell(events: &Sender<Event>, lack_of_space: Option<String>, event: Event) {
    let lack = lack_of_space.map(|why| Event::OutOfSpace { why });
    for event in lack.into_iter().chain([event]) {
        let _ = events.send(event);
    }
}

fn try_start(context: &Context, job: &Job, events: &Sender<Event>) -> Result<Control> {
    let dir = context.paths.job(&job.task, job.attempt);
    fs::create_dir_all(&dir).map_err(io("make", &dir))?;
    let order = context.order(job)?;
    order.write(&dir)?;
    let pass = [&order.env_pass[..], &order.agent.env_pass[..]].concat();
    let running = subprocess::start(&context.program, &dir, job, &pass)?;
    let control = Control::Child(running.canceller());
    let _ = events.send(Event::JobStarted { task: job.task.clone(), attempt: job.attempt, pid: running.id().pid });
    let (context, job, events) = (context.clone(), job.clone(), events.clone());
    thread::spawn(move || {
        let waited = running.wait();
        let ran = waited.map(|ended| ended.duration).unwrap_or_default();
        let report = worker::read_result(&dir).ok().flatten().unwrap_or_else(|| {
            // Whatever the worker left behind has fallen to us.
            proc::end_orphans();
            report_of(end_without_result(&context, &job, &dir), ran)
        });
        conclude(&context, &job, &events, report);
    });
    Ok(control)
}

/// Finds out what became of a job that an earlier process may have started.
pub fn reconcile(context: &Context, job: &Job, events: &Sender<Event>) -> Option<Control> {
    let dir = context.paths.job(&job.task, job.attempt);
    if Order::read(&dir).is_err() {
        // It was not begun, unless a loss of power took the order away again.
        let Some(commit) = finished_commit(context, job) else { return start(context, job, events) };
        let _ = events.send(ended(job, report_of(JobEnd::Done { commit }, NOT_EARLY)));
        return None;
    }
    match JobLock::try_acquire(&dir) {
        Ok(Some(lock)) => {
            conclude(context, job, events, settle(context, job, &dir, &lock));
            None
        }
        Ok(None) => Some(adopt(context, job, events)),
        Err(error) => {
            let mut report = report_of(JobEnd::Died { started: true }, NOT_EARLY);
            report.warnings.push(error.to_string());
            let _ = events.send(ended(job, report));
            None
        }
    }
}

/// A worker that outlived the process that started it goes on; we wait for its lock.
fn adopt(context: &Context, job: &Job, events: &Sender<Event>) -> Control {
    let dir = context.paths.job(&job.task, job.attempt);
    let identity = read_identity(&dir);
    let pid = identity.map_or(0, |id| id.pid);
    let _ = events.send(Event::JobStarted { task: job.task.clone(), attempt: job.attempt, pid });
    let (context, job, events) = (context.clone(), job.clone(), events.clone());
    thread::spawn(move || {
        let report = match JobLock::wait(&dir) {
            Ok(lock) => settle(&context, &job, &dir, &lock),
            Err(_) => report_of(JobEnd::Died { started: true }, NOT_EARLY),
        };
        conclude(&context, &job, &events, report);
    });
    Control::Adopted(identity.unwrap_or(ProcessId { pid: 0, start: 0, boot: 0 }))
}

/// What a worker that is gone left: its result, or its commit, or nothing. In that case a late starter is fenced off.
fn settle(context: &Context, job: &Job, dir: &Path, _gone: &JobLock) -> JobReport {
    if let Ok(Some(report)) = worker::read_result(dir) {
        return report;
    }
    // Nobody was there to whom they could fall; the next attempt must be alone in its worktree.
    end_escaped(dir);
    let since = fs::metadata(dir.join(worker::ORDER)).and_then(|order| order.modified());
    let ran = since.ok().and_then(|since| SystemTime::now().duration_since(since).ok()).unwrap_or_default();
    let mut report = report_of(end_without_result(context, job, dir), ran.max(NOT_EARLY));
    if matches!(report.end, JobEnd::Done { .. }) {
        return report;
    }
    if let Err(error) = write_atomic(&dir.join(FENCE), b"") {
        report.warnings.push(error.to_string());
    }
    report
}

/// Tells how a job ended. Where the disk is full the attempt is not to blame: it uses up no retry, and the run pauses until
/// there is room.
fn conclude(context: &Context, job: &Job, events: &Sender<Event>, mut report: JobReport) {
    let mut lack = None;
    if matches!(report.end, JobEnd::Failed { .. } | JobEnd::Died { .. }) {
        let places = [context.paths.job(&job.task, job.attempt), context.paths.worktrees()];
        lack = places.iter().find_map(|dir| lack_of_space(dir));
    }
    if lack.is_some()
        && let JobEnd::Failed { feedback, .. } = std::mem::replace(&mut report.end, JobEnd::Interrupted)
    {
        report.warnings.push(feedback);
    }
    tell(events, lack, ended(job, report));
}

/// Work that was committed is done. A worker that we called off did not die of itself, though it could not say so: that
/// uses up no retry.
fn end_without_result(context: &Context, job: &Job, dir: &Path) -> JobEnd {
    if let Some(commit) = finished_commit(context, job) {
        return JobEnd::Done { commit };
    }
    if dir.join(worker::GRACE).exists() {
        return JobEnd::Interrupted;
    }
    JobEnd::Died { started: read_identity(dir).is_some() }
}

fn report_of(end: JobEnd, ran: Duration) -> JobReport {
    JobReport { end, wip: None, ran_ms: ran.as_millis() as u64, cost_usd: 0.0, tokens: 0, warnings: Vec::new() }
}

fn ended(job: &Job, report: JobReport) -> Event {
    Event::JobEnded { task: job.task.clone(), attempt: job.attempt, report }
}

/// Who took the job on, where somebody did.
fn read_identity(dir: &Path) -> Option<ProcessId> {
    serde_json::from_slice(&fs::read(dir.join(WORKER)).ok()?).ok()
}

/// The commit of an attempt that ended between its commit and its result.
fn finished_commit(context: &Context, job: &Job) -> Option<Oid> {
    let commit = context.repository.resolve_ref(&result_ref(context.paths.feature(), job)).ok()??;
    let format = "--format=%P %(trailers:key=Mahabharatha-Attempt,valueonly)";
    let output = context.repository.run(["log", "-1", format, commit.as_str()]).ok()?;
    (output.text().ok()?.trim() == format!("{} {}", job.base, job.attempt)).then_some(commit)
}

/// Whether the attempt's worker is at work, whoever started it.
pub fn is_alive(paths: &FeaturePaths, task: &TaskId, attempt: Attempt) -> bool {
    JobLock::is_held(&paths.job(task, attempt))
}

/// The job directories that a worker is at now, and which process it is.
pub fn alive(feature_dir: &Path) -> Vec<(PathBuf, Option<u32>)> {
    let dirs = fs::read_dir(feature_dir.join("jobs")).into_iter().flatten().flatten().map(|entry| entry.path());
    dirs.filter(|dir| JobLock::is_held(dir))
        .map(|dir| {
            let pid = read_identity(&dir).map(|id| id.pid);
            (dir, pid)
        })
        .collect()
}

/// Waits until nobody is at the attempt any more.
pub fn wait_for_end(paths: &FeaturePaths, task: &TaskId, attempt: Attempt) -> Result<()> {
    JobLock::wait_until_free(&paths.job(task, attempt))
}

/// Ends workers that outlived their orchestrator, all or one, and what escaped from them; whether there was anything.
/// The caller holds the feature's lock: nobody drives them.
pub fn end_survivors(paths: &FeaturePaths, only: Option<WorkerId>, grace: Duration) -> Result<bool> {
    let is_meant =
        |dir: &PathBuf| only.is_none_or(|worker| Order::read(dir).is_ok_and(|order| order.job.worker == worker));
    let entries = fs::read_dir(paths.dir().join("jobs")).into_iter().flatten();
    let dirs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_meant).collect();
    let mut ending = Vec::new();
    for dir in &dirs {
        if let Some(id) = survivor(dir)? {
            Control::Adopted(id).interrupt(dir, grace.is_zero(), grace);
            ending.push(dir);
        }
    }
    for dir in &ending {
        // Freed when it is gone, by itself or by the kill.
        drop(JobLock::wait(dir)?);
    }
    let escaped = match only {
        None => end_escaped(paths.dir()),
        Some(_) => dirs.iter().map(|dir| end_escaped(dir)).sum(),
    };
    Ok(!ending.is_empty() || escaped > 0)
}

/// Who is at this job. Where nobody is and there is no result, nobody shall come any more.
fn survivor(dir: &Path) -> Result<Option<ProcessId>> {
    loop {
        if let Some(_gone) = JobLock::try_acquire(dir)? {
            if !matches!(worker::read_result(dir), Ok(Some(_))) {
                write_atomic(&dir.join(FENCE), b"")?;
            }
            return Ok(None);
        }
        if let Some(id) = read_identity(dir) {
            return Ok(Some(id));
        }
        // It has the lock and is about to say who it is.
        thread::sleep(Duration::from_millis(5));
    }
}

/// Ends every process that belongs to this directory or one below it; how many there were.
pub fn end_escaped(dir: &Path) -> usize {
    proc::find_marked(MARKER, dir).into_iter().filter(|id| proc::end_process(*id)).count()
}
