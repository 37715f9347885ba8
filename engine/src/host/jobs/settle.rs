//! Determines what a worker that is gone has left (result, commit or nothing) and reports it to the run.

use std::fs;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime};

use mahabharatha_core::cost::Cost;
use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::Oid;
use mahabharatha_core::run::MIN_LIFETIME;
use mahabharatha_core::run::effect::{Job, Performer, Purpose};
use mahabharatha_core::run::event::{Event, FailCause, JobEnd, JobReport};
use mahabharatha_core::run::needs::needs_in;
use mahabharatha_core::secrets::feedback;
use mahabharatha_sys::proc::{Ended, Exit};
use mahabharatha_sys::store::atomic::write_atomic;
use mahabharatha_sys::store::disk::lack_of_space;
use mahabharatha_sys::store::locks::JobLock;

use super::stall_of;
use super::survivors::{end_orphans_of, read_identity};
use crate::host::Context;
use crate::specs;
use crate::worker::{self, FENCE, JobSpec, Progress, heartbeat, result_ref, subagents};

/// How a worker ended, as far as this process watched it.
#[derive(Default)]
pub(super) struct Watched {
    pub seen: Option<Ended>,
    /// Whether it was killed because its heartbeat stopped.
    pub silent: bool,
}

/// Waits for the job's lock, which is free once its worker is gone, and returns the report made under it.
pub(super) fn when_gone(dir: &Path, report: impl FnOnce(&JobLock) -> JobReport) -> JobReport {
    match JobLock::wait(dir) {
        Ok(lock) => report(&lock),
        Err(_) => report_of(JobEnd::Died { started: true }, MIN_LIFETIME),
    }
}

/// Reports what a worker that is gone has left: its result, its commit, or nothing. With nothing left, fences the
/// attempt so that a late worker cannot commit.
pub(super) fn settle(context: &Context, job: &Job, dir: &Path, _gone: &JobLock, end: &Watched) -> JobReport {
    if let Ok(Some(report)) = worker::read_result(dir) {
        return checked(context, job, report, end);
    }
    let of_session = matches!(job.performer, Performer::Session(_));
    if !of_session {
        // Orphans may have been adopted by init; the next attempt must be alone in its worktree.
        end_orphans_of(dir);
    }
    let ran = lifetime(dir, SystemTime::now());
    if let Some(commit) = finished_commit(context, job) {
        let cost = unreported_cost(context, job, dir);
        return checked(context, job, report_of(JobEnd::Done { commit }, ran).with_cost(cost), end);
    }
    let lived = end.seen.as_ref().map_or(ran.max(MIN_LIFETIME), |seen| seen.duration);
    let end = match of_session {
        true => JobEnd::Cancelled,
        false => end_without_result(dir, end.silent.then(|| stall_of(context, dir))),
    };
    let never_started = end == JobEnd::Died { started: false };
    let cost = if never_started { Cost::default() } else { unreported_cost(context, job, dir) };
    let mut report = report_of(end, lived).with_cost(cost);
    if let Err(error) = write_atomic(&dir.join(FENCE), b"") {
        report.warnings.push(error.to_string());
    }
    report
}

/// Returns how long a worker lived that this process did not see exit: up to its last heartbeat, or to when it was told to
/// end. Up to `now` if it left neither.
fn lifetime(dir: &Path, now: SystemTime) -> Duration {
    let modified = |name| fs::metadata(dir.join(name)).and_then(|file| file.modified()).ok();
    let until = heartbeat::last(dir).max(modified(worker::GRACE)).unwrap_or(now);
    modified(worker::JOB_SPEC).and_then(|since| until.min(now).duration_since(since).ok()).unwrap_or_default()
}

/// Returns the known cost of an attempt without a result.
pub(super) fn unreported_cost(context: &Context, job: &Job, dir: &Path) -> Cost {
    match &job.performer {
        Performer::Session(_) => Cost::of(None, subagents::tokens(dir)),
        Performer::Reported { .. } => Cost::default(),
        Performer::Agent(_) => {
            // A power loss may have taken the job spec; the configuration names the same agent.
            let agent = JobSpec::read(dir).map(|spec| spec.agent).or_else(|_| context.agent_spec(job));
            let cost = agent.map_or_else(|_| Cost::unknown(), |agent| agent.unreported_cost());
            let progress = Progress::read(context.paths.dir(), job.worker, &job.task, job.attempt);
            cost + Cost::of(Some(0.0), progress.map_or(0, |progress| progress.tokens))
        }
    }
}

/// Sends how a job ended. An attempt that failed on a full disk counts as cancelled and uses up no retry; the run
/// pauses until there is room.
pub(super) fn conclude(context: &Context, job: &Job, events: &Sender<Event>, mut report: JobReport) {
    let mut lack = None;
    if matches!(report.end, JobEnd::Failed { .. } | JobEnd::Died { .. } | JobEnd::SetupFailed { .. }) {
        let places = [context.paths.job(&job.task, job.attempt), context.paths.worktrees()];
        lack = places.iter().find_map(|dir| lack_of_space(dir));
    }
    if lack.is_some() {
        match std::mem::replace(&mut report.end, JobEnd::Cancelled) {
            JobEnd::Failed { feedback, .. } => report.warnings.push(feedback),
            JobEnd::SetupFailed { failure } => report.warnings.push(failure.to_string()),
            _ => {}
        }
    }
    if job.performer.is_agent()
        && let Ok(JobSpec { agent, task, .. }) = JobSpec::read(&context.paths.job(&job.task, job.attempt))
    {
        report.model = agent.model(&task).map(str::to_owned);
        report.agent = Some(agent.name).filter(|name| !name.is_empty());
    }
    report.ungrantable = ungrantable(context, job, &report.end);
    report.warnings.extend(report.ungrantable.iter().map(|why| format!("cannot be granted: {why}")));
    send_end(events, lack, ended(job, report));
}

/// Returns why files that the agent asks for cannot be granted to any task, as the files of the base are.
fn ungrantable(context: &Context, job: &Job, end: &JobEnd) -> Vec<String> {
    let (JobEnd::Blocked { reason } | JobEnd::Escalated { reason }) = end else { return Vec::new() };
    let needs = needs_in(reason);
    if needs.is_empty() {
        return Vec::new();
    }
    match specs::start_tree(&context.repository, &job.base) {
        Ok(found) => {
            let paths = needs.iter().filter_map(|need| OwnedPath::read(&need.path).ok());
            paths.filter_map(|path| found.cannot_grant(&path)).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}

/// Returns how a worker without a result ended. A cancelled one did not die by itself and uses up no retry.
fn end_without_result(dir: &Path, silent_for: Option<Duration>) -> JobEnd {
    if dir.join(worker::GRACE).exists() {
        return JobEnd::Cancelled;
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

/// Checks the commit of a result that this process did not see its worker exit with, and of a fix, which is staged as
/// it is. All other commits are checked when they are staged, and were scanned for secrets by their worker.
pub(super) fn checked(context: &Context, job: &Job, mut report: JobReport, end: &Watched) -> JobReport {
    let JobEnd::Done { commit } = &report.end else { return report };
    let by_itself = end.seen.as_ref().is_some_and(|seen| seen.status == Exit::Code(worker::exit_code(&report.end)));
    if by_itself && job.purpose == Purpose::Build {
        return report;
    }
    let scan = worker::scan_secrets(&context.repository, &job.base, commit, &context.config.secrets.allow);
    let (feedback, strays) = match context.objections_to(job, commit).and_then(|strays| Ok((strays, scan?))) {
        Ok((strays, scan)) if strays.is_empty() && !scan.findings.is_empty() => {
            let feedback = feedback(&scan.findings);
            report.secrets = scan.findings;
            report.end = JobEnd::Failed { cause: FailCause::Secrets, feedback, strays };
            return report;
        }
        Ok((strays, scan)) if strays.is_empty() => {
            report.suppressed_secrets = scan.suppressions;
            if let Some(seen) = end.seen.as_ref().filter(|_| !by_itself) {
                report.warnings.push(format!("its worker ended with {}, after it had left a result", seen.status));
            }
            return report;
        }
        Ok((strays, _)) => (format!("The commit of the attempt is not taken:\n{}", strays.join("\n")), strays),
        Err(error) => (format!("The commit of the attempt cannot be read: {error}"), vec![commit.to_string()]),
    };
    report.end = JobEnd::Failed { cause: FailCause::Strays, feedback, strays };
    report
}

pub(super) fn report_of(end: JobEnd, ran: Duration) -> JobReport {
    JobReport::new(end, ran.as_millis() as u64)
}

pub(super) fn ended(job: &Job, report: JobReport) -> Event {
    Event::JobEnded { effect: job.effect, task: job.task.clone(), attempt: job.attempt, report }
}

/// Sends the lack of space first, so that no attempt is retried before there is room.
pub(super) fn send_end(events: &Sender<Event>, lack_of_space: Option<String>, event: Event) {
    let lack = lack_of_space.map(|why| Event::OutOfSpace { why });
    for event in lack.into_iter().chain([event]) {
        let _ = events.send(event);
    }
}

/// Returns the commit of an attempt that was killed between its commit and its result.
pub(super) fn finished_commit(context: &Context, job: &Job) -> Option<Oid> {
    let commit = context.repository.resolve_ref(&result_ref(context.paths.feature(), job)).ok()??;
    let format = "--format=%P %(trailers:key=Mahabharatha-Attempt,valueonly)";
    let output = context.repository.run(["log", "-1", format, commit.as_str()]).ok()?;
    (output.text().ok()?.trim() == format!("{} {}", job.base, job.attempt)).then_some(commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_lived_until_its_last_sign() {
        let dir = tempfile::tempdir().unwrap();
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let written = |name: &str, after: u64| {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            file.set_modified(start + Duration::from_secs(after)).unwrap();
        };
        let lived = || lifetime(dir.path(), start + Duration::from_secs(60)).as_secs();
        written(worker::JOB_SPEC, 0);
        assert_eq!(lived(), 60);
        written("heartbeat", 5);
        // Written when a user restarts the run, however late.
        written(FENCE, 50);
        assert_eq!(lived(), 5);
        written(worker::GRACE, 8);
        assert_eq!(lived(), 8);
        written("heartbeat", 90);
        assert_eq!(lived(), 60, "the clock was set back");
    }
}
