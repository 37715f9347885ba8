//! Jobs: started, watched, adopted from a process that died, fenced, ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Attempt, Oid, TaskId, WorkerId};
use mahabharatha_core::run::Run;
use mahabharatha_core::run::effect::{Doer, Effect, Job, Purpose};
use mahabharatha_core::run::event::{Event, FailCause, JobEnd, JobReport};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::proc::{self, Canceller, Ended, Exit, MARKER, ProcessId};
use mahabharatha_sys::project::FeaturePaths;
use mahabharatha_sys::store::atomic::write_atomic;
use mahabharatha_sys::store::disk::lack_of_space;
use mahabharatha_sys::store::locks::JobLock;

use super::{Context, slots};
use crate::launch::subprocess;
use crate::lease;
use crate::worker::heartbeat::Watch;
use crate::worker::{self, FENCE, JobSpec, Progress, WORKER, result_ref, subagents};

/// What a worker is given beyond the agent's grace time, to keep the work that was under way.
const TIME_TO_SAVE: Duration = Duration::from_secs(5);
/// A worker whose end we did not watch is not taken for one that died as it started.
const NOT_EARLY: Duration = Duration::from_secs(2);
/// A worker that has its job's lock says who it is; it is not waited for any longer than this.
const TIME_TO_SAY_WHO: Duration = Duration::from_secs(2);

/// So often it is looked whether a session's client is gone.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A job under way, ours or adopted.
pub enum Control {
    Child(Canceller),
    /// By its directory: who is at it may not have said so yet.
    Adopted(PathBuf),
    /// A session's; told when it is to end.
    Held(Sender<()>),
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
            Control::Adopted(dir) => {
                let dir = dir.clone();
                thread::spawn(move || end_holder(&dir, limit));
            }
            Control::Held(given_up) => drop(given_up.send(())),
        }
    }
}

/// Starts the worker, and tells when it started and how it ended.
pub fn start(context: &Context, job: &Job, run: &Run, events: &Sender<Event>) -> Option<Control> {
    match try_start(context, job, run, events) {
        Ok(control) => Some(control),
        Err(error) => {
            let lack = error.is_lack_of_space().then(|| error.message().to_owned());
            let end = if lack.is_some() { JobEnd::Interrupted } else { JobEnd::Died { started: false } };
            let mut report = report_of(end, Duration::ZERO).with_cost(Cost::default());
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

fn try_start(context: &Context, job: &Job, run: &Run, events: &Sender<Event>) -> Result<Control> {
    if let Doer::Session(session) = &job.doer {
        write_job_spec(context, job, run)?;
        return Ok(await_session(context, job, session, events));
    }
    let dir = context.paths.job(&job.task, job.attempt);
    let point = |what: &'static str| crash::point(|| format!("job {} {} {what}", job.task, job.attempt));
    let spec = write_job_spec(context, job, run)?;
    let pass = [&spec.env_pass[..], &spec.agent.env_pass[..]].concat();
    let running = subprocess::start(&context.program, &dir, job, &pass)?;
    point("has a worker");
    let (control, canceller) = (Control::Child(running.canceller()), running.canceller());
    let _ = events.send(Event::JobStarted { task: job.task.clone(), attempt: job.attempt, pid: running.id().pid });
    let watch = Watch::start(&dir, spec.limits.stall(), move || canceller.cancel(Duration::ZERO));
    let (context, job, events) = (context.clone(), job.clone(), events.clone());
    thread::spawn(move || {
        let seen = running.wait().ok();
        let end = Watched { seen, silent: watch.end() };
        if !matches!(worker::read_result(&dir), Ok(Some(_))) {
            // Whatever the worker left behind has fallen to us.
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
    fs::create_dir_all(&dir).map_err(io("make", &dir))?;
    point("has a directory");
    if context.repository.worktree_git_dir(&context.paths.worktree(job.worker)).is_none() {
        // It was there when the slot was made ready, and somebody has pruned it since; or nobody has made it ready.
        slots::prepare(context, job.worker)?;
    }
    let spec = context.spec(job, run)?;
    spec.write(&dir)?;
    point("has a job spec");
    Ok(spec)
}

/// Waits until the session that holds the task has been silent for too long, or is to give it up. How its attempt ends
/// otherwise it says itself.
fn await_session(context: &Context, job: &Job, session: &str, events: &Sender<Event>) -> Control {
    let (give_up, told) = mpsc::channel();
    let (context, job, session, events) = (context.clone(), job.clone(), session.to_owned(), events.clone());
    thread::spawn(move || {
        while let Some(left) = lease::time_left(context.paths.dir(), &session) {
            // It may be renewed any time, and its client may be gone any time.
            match told.recv_timeout(left.min(LOOK_AGAIN)) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) => break,
                // The run does not wait for it any more.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        let dir = context.paths.job(&job.task, job.attempt);
        let report = when_gone(&dir, |lock| settle(&context, &job, &dir, lock, &Watched::default()));
        conclude(&context, &job, &events, report);
    });
    Control::Held(give_up)
}

/// Finds out what became of a job that an earlier process may have started.
pub fn reconcile(context: &Context, job: &Job, run: &Run, events: &Sender<Event>) -> Option<Control> {
    let dir = context.paths.job(&job.task, job.attempt);
    if JobSpec::read(&dir).is_err() {
        // It was not begun, unless a power loss took the job spec away again.
        let Some(commit) = finished_commit(context, job) else { return start(context, job, run, events) };
        let cost = unreported_cost(context, job, &dir);
        let report = report_of(JobEnd::Done { commit }, NOT_EARLY).with_cost(cost);
        let _ = events.send(ended(job, checked(context, job, report, &Watched::default())));
        return None;
    }
    match JobLock::try_acquire(&dir) {
        Ok(Some(lock)) => {
            if let Some(session) = holds_still(context, job) {
                return Some(await_session(context, job, session, events));
            }
            conclude(context, job, events, settle(context, job, &dir, &lock, &Watched::default()));
            None
        }
        Ok(None) => Some(match &job.doer {
            // It is about to end it, and is ours no more than the session is.
            Doer::Session(session) => await_session(context, job, session, events),
            _ => adopt(context, job, events),
        }),
        Err(error) => {
            let mut report = report_of(JobEnd::Died { started: true }, NOT_EARLY);
            report.warnings.push(error.to_string());
            let _ = events.send(ended(job, report));
            None
        }
    }
}

/// The session that goes on with an attempt which has not ended.
fn holds_still<'a>(context: &Context, job: &'a Job) -> Option<&'a str> {
    let Doer::Session(session) = &job.doer else { return None };
    let dir = context.paths.job(&job.task, job.attempt);
    let ended = dir.join(FENCE).exists() || !matches!(worker::read_result(&dir), Ok(None));
    let lives = lease::time_left(context.paths.dir(), session).is_some();
    (lives && !ended).then_some(session)
}

/// A worker that outlived the process that started it goes on; we wait for its lock.
fn adopt(context: &Context, job: &Job, events: &Sender<Event>) -> Control {
    let dir = context.paths.job(&job.task, job.attempt);
    let (control, at) = (Control::Adopted(dir.clone()), dir.clone());
    let watch = Watch::start(&dir, context.config.workers.stall, move || end_holder(&at, Duration::ZERO));
    let (context, job, events) = (context.clone(), job.clone(), events.clone());
    thread::spawn(move || {
        if let Some(ProcessId { pid, .. }) = holder(&dir) {
            let _ = events.send(Event::JobStarted { task: job.task.clone(), attempt: job.attempt, pid });
        }
        let report = when_gone(&dir, |lock| {
            let end = Watched { seen: None, silent: watch.end() };
            settle(&context, &job, &dir, lock, &end)
        });
        conclude(&context, &job, &events, report);
    });
    control
}

/// How a worker ended, as far as it was watched.
#[derive(Default)]
struct Watched {
    seen: Option<Ended>,
    /// It was ended for giving no sign of life.
    silent: bool,
}

/// Waits for the job's lock, which is free when its worker is gone.
fn when_gone(dir: &Path, report: impl FnOnce(&JobLock) -> JobReport) -> JobReport {
    match JobLock::wait(dir) {
        Ok(lock) => report(&lock),
        Err(_) => report_of(JobEnd::Died { started: true }, NOT_EARLY),
    }
}

/// What a worker that is gone left: its result, or its commit, or nothing. In that case a late starter is fenced off.
fn settle(context: &Context, job: &Job, dir: &Path, _gone: &JobLock, end: &Watched) -> JobReport {
    if let Ok(Some(report)) = worker::read_result(dir) {
        return checked(context, job, report, end);
    }
    let of_session = matches!(job.doer, Doer::Session(_));
    if !of_session {
        // There may have been nobody to whom they could fall; the next attempt must be alone in its worktree.
        end_left_of(dir);
    }
    let since = fs::metadata(dir.join(worker::ORDER)).and_then(|spec| spec.modified());
    let ran = since.ok().and_then(|since| SystemTime::now().duration_since(since).ok()).unwrap_or_default();
    if let Some(commit) = finished_commit(context, job) {
        let cost = unreported_cost(context, job, dir);
        return checked(context, job, report_of(JobEnd::Done { commit }, ran).with_cost(cost), end);
    }
    let lived = end.seen.as_ref().map_or(ran.max(NOT_EARLY), |seen| seen.duration);
    let end = match of_session {
        true => JobEnd::Interrupted,
        false => end_without_result(dir, end.silent.then_some(context.config.workers.stall)),
    };
    let never_started = end == JobEnd::Died { started: false };
    let cost = if never_started { Cost::default() } else { unreported_cost(context, job, dir) };
    let mut report = report_of(end, lived).with_cost(cost);
    if let Err(error) = write_atomic(&dir.join(FENCE), b"") {
        report.warnings.push(error.to_string());
    }
    report
}

/// Returns what is known of the cost of an attempt that left no result.
fn unreported_cost(context: &Context, job: &Job, dir: &Path) -> Cost {
    match &job.doer {
        Doer::Session(_) => Cost::of(None, subagents::tokens(dir)),
        Doer::Nobody { .. } => Cost::default(),
        Doer::Agent => {
            // A power loss may have taken the job spec away; the configuration names the same agent.
            let agent = JobSpec::read(dir).map(|spec| spec.agent).or_else(|_| context.agent_spec(job));
            let cost = agent.map_or_else(|_| Cost::unknown(), |agent| agent.unreported_cost());
            let progress = Progress::read(context.paths.dir(), job.worker, &job.task, job.attempt);
            cost + Cost::of(Some(0.0), progress.map_or(0, |progress| progress.tokens))
        }
    }
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

/// A worker that we called off did not die of itself, though it could not say so: that uses up no retry.
fn end_without_result(dir: &Path, silent_for: Option<Duration>) -> JobEnd {
    if dir.join(worker::GRACE).exists() {
        return JobEnd::Interrupted;
    }
    match silent_for {
        None => JobEnd::Died { started: read_identity(dir).is_some() },
        Some(limit) => JobEnd::Failed {
            cause: FailCause::Stalled,
            feedback: format!("The worker gave no sign of life for {:.0} s, so it was ended.", limit.as_secs_f64()),
            strays: Vec::new(),
        },
    }
}

/// Anybody can write a result. One of a worker that was not seen to end with it is looked at; and so is a remedy, which
/// goes onto staging as it is. Other work is looked at when it is staged.
fn checked(context: &Context, job: &Job, mut report: JobReport, end: &Watched) -> JobReport {
    let JobEnd::Done { commit } = &report.end else { return report };
    let by_itself = end.seen.as_ref().is_some_and(|seen| seen.status == Exit::Code(worker::exit_code(&report.end)));
    if by_itself && job.purpose == Purpose::Build {
        return report;
    }
    let (feedback, strays) = match context.objections_to(job, commit) {
        Ok(strays) if strays.is_empty() => {
            if let Some(seen) = end.seen.as_ref().filter(|_| !by_itself) {
                report.warnings.push(format!("its worker ended with {}, after it had left a result", seen.status));
            }
            return report;
        }
        Ok(strays) => (format!("The commit of the attempt is not taken:\n{}", strays.join("\n")), strays),
        Err(error) => (format!("The commit of the attempt cannot be read: {error}"), vec![commit.to_string()]),
    };
    report.end = JobEnd::Failed { cause: FailCause::Strays, feedback, strays };
    report
}

fn report_of(end: JobEnd, ran: Duration) -> JobReport {
    JobReport::new(end, ran.as_millis() as u64)
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
    let dir = paths.job(task, attempt);
    let identity = read_identity(&dir);
    JobLock::wait_until_free(&dir)?;
    // It lets go of the lock with its last steps.
    if let Some(id) = identity {
        id.wait_until_gone();
    }
    Ok(())
}

/// Ends workers that outlived their orchestrator, all or one, and what escaped from them; whether there was anything.
/// The caller holds the feature's lock: nobody drives them.
pub fn end_survivors(paths: &FeaturePaths, run: Option<&Run>, only: Option<WorkerId>, grace: Duration) -> Result<bool> {
    let is_meant =
        |dir: &PathBuf| only.is_none_or(|worker| JobSpec::read(dir).is_ok_and(|spec| spec.job.worker == worker));
    let entries = fs::read_dir(paths.dir().join("jobs")).into_iter().flatten();
    let of_sessions: Vec<PathBuf> = run.map(|run| held_by_the_living(paths, run)).unwrap_or_default();
    let dirs: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|dir| is_meant(dir) && !of_sessions.contains(dir)).collect();
    let mut ending = Vec::new();
    for dir in &dirs {
        match JobLock::try_acquire(dir)? {
            // Where there is no result, nobody shall come any more.
            Some(_gone) if matches!(worker::read_result(dir), Ok(Some(_))) => {}
            Some(_gone) => write_atomic(&dir.join(FENCE), b"")?,
            None => {
                Control::Adopted(dir.clone()).interrupt(dir, grace.is_zero(), grace);
                ending.push(dir);
            }
        }
    }
    for dir in &ending {
        // Freed when it is gone, by itself or by the kill.
        drop(JobLock::wait(dir)?);
    }
    // Who wrote a result had ended everything before.
    let unfinished = dirs.iter().filter(|dir| !matches!(worker::read_result(dir), Ok(Some(_))));
    let mut escaped: usize = unfinished.map(|dir| end_left_of(dir)).sum();
    if only.is_none() {
        // What a session has its work verified by is not ours.
        let spared: Vec<ProcessId> = of_sessions.iter().flat_map(|dir| proc::find_marked(MARKER, dir)).collect();
        let marked = proc::find_marked(MARKER, paths.dir());
        escaped += end_each(marked.into_iter().filter(|id| !spared.contains(id)).collect());
        if run.is_some_and(|run| run.outstanding().any(|(_, effect)| runs_commands_in_staging(effect))) {
            escaped += end_working_in(&paths.staging_worktree());
        }
    }
    Ok(!ending.is_empty() || escaped > 0)
}

/// The attempts that sessions go on with, by their directories.
fn held_by_the_living(paths: &FeaturePaths, run: &Run) -> Vec<PathBuf> {
    let held = run.held().filter(|(_, session)| lease::time_left(paths.dir(), session).is_some());
    held.map(|(job, _)| paths.job(&job.task, job.attempt)).collect()
}

/// Who is at this job, once it has said so; none also where what it said is not true, or no longer: another program
/// may have the pid by now.
fn holder(dir: &Path) -> Option<ProcessId> {
    let patience = Instant::now() + TIME_TO_SAY_WHO;
    while JobLock::is_held(dir) {
        if let Some(id) = read_identity(dir).filter(ProcessId::alive) {
            return Some(id);
        }
        if Instant::now() > patience {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Ends whoever is at this job. One that cannot be told from others is known by its mark, as its agent is.
fn end_holder(dir: &Path, limit: Duration) {
    match holder(dir) {
        Some(id) => drop(proc::end_process_in(id, limit)),
        None => drop(end_escaped(dir)),
    }
}

/// Ends what outlived a worker that is gone: by its mark, and by where it works if it has none; how many there were.
fn end_left_of(dir: &Path) -> usize {
    let ours = JobSpec::read(dir).ok().filter(|spec| !matches!(spec.job.doer, Doer::Session(_)));
    end_escaped(dir) + ours.map_or(0, |spec| end_working_in(&spec.worktree))
}

/// Ends every process that belongs to this directory or one below it; how many there were.
pub fn end_escaped(dir: &Path) -> usize {
    end_each(proc::find_marked(MARKER, dir))
}

/// Ends every process that works in a worktree where nobody but our own has any business; how many there were.
pub fn end_working_in(worktree: &Path) -> usize {
    end_each(proc::find_working_in(worktree))
}

fn end_each(found: Vec<ProcessId>) -> usize {
    found.into_iter().filter(|id| proc::end_process(*id)).count()
}

/// Whether commands of the repository run in staging's worktree for the effect; at other times a person may be there.
pub fn runs_commands_in_staging(effect: &Effect) -> bool {
    matches!(effect, Effect::CheckBase { .. } | Effect::Gate { .. } | Effect::Blame { .. })
}
