//! One attempt at one task: set up the worktree, run the agent, end all its processes, check ownership, verify and
//! commit the result. The orchestrator gets a result file and an exit code.
//!
//! Started by `host` through `launch`; sessions use its second half. Never touches the user's branches or checkout.
//!
//! ```text
//! job spec → start → agent → guard, ownership → secrets, verify → commit → result.json
//!                         └───────────────── save (wip) ────────────────┘
//! ```

mod attempt;
mod files;
mod found;
mod guard;
mod guard_config;
pub mod heartbeat;
pub mod held;
mod include;
mod job_spec;
mod log;
mod ownership;
mod progress;
mod prompt;
mod redact;
mod sandbox;
mod secrets;
mod setup;
mod snapshot;
mod start;
pub mod subagents;
mod sweep;
pub mod trial;
mod verify;
mod warmup;
mod watch;
mod wip;

use std::path::Path;
use std::time::{Duration, Instant};

use mahabharatha_core::run::event::{JobEnd, JobReport};

use attempt::Attempt;
pub use log::{Log, Severity, redactor};
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::proc::{self, ProcessId};
use mahabharatha_sys::store::atomic::write_projected;
use mahabharatha_sys::store::locks::JobLock;
use mahabharatha_sys::store::ports;
use watch::CancelSignal;

use crate::provision::SETUP_TIMEOUT;

pub use files::check_worktree;
pub use include::wanted_files;
pub use job_spec::{
    FILE as JOB_SPEC, JobSpec, Limits, Logs, PromptContext, Rules, WORKTREE_VARIABLE, result_ref, slots_dir,
};
pub use ownership::owner;
pub use progress::{Phase, Progress};
pub use secrets::scan as scan_secrets;
pub use snapshot::{Running, Snapshot, snapshot};
pub use start::{base_of_wip, occupant, occupants, save_leftovers};

const RESULT: &str = "result.json";
/// Name of the file in the job directory with the prompt that the agent got.
pub const PROMPT: &str = "prompt.md";
/// File in the job directory that fences the attempt: a worker that starts later exits without working.
pub const FENCE: &str = "fence";
/// File with the worker's process id.
pub const WORKER: &str = "worker.json";
/// File with the grace period in milliseconds that replaces the configured one when the attempt is cancelled.
pub const GRACE: &str = "grace";
/// File that tells the user why there is no result.
const ERROR: &str = "error.txt";
/// Time limit for everything except the agent and the verification.
const SETUP_MARGIN: Duration = Duration::from_secs(300);

/// Runs the job and returns the exit code: 0 done, 1 error, 2 checkpoint, 3 blocked, 4 escalated.
pub fn run_job(job_dir: &Path) -> i32 {
    match work(job_dir) {
        Ok(report) => exit_code(&report.end),
        Err(error) => {
            // The launcher sees only the exit code; the user can read this file.
            let _ = write_projected(&job_dir.join(ERROR), format!("{error}\n").as_bytes());
            1
        }
    }
}

pub fn read_result(job_dir: &Path) -> Result<Option<JobReport>> {
    let path = job_dir.join(RESULT);
    match bounded::read(&path, LARGE_FILE_BYTES) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| Error::new(Kind::Invalid, format!("{} is not a result: {error}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", &path)(error)),
    }
}

pub fn exit_code(end: &JobEnd) -> i32 {
    match end {
        JobEnd::Done { .. } => 0,
        JobEnd::Checkpoint { .. } => 2,
        JobEnd::Blocked { .. } => 3,
        JobEnd::Escalated { .. } => 4,
        JobEnd::Failed { .. }
        | JobEnd::Unserved { .. }
        | JobEnd::SetupFailed { .. }
        | JobEnd::Died { .. }
        | JobEnd::Cancelled => 1,
    }
}

fn work(job_dir: &Path) -> Result<JobReport> {
    let started = Instant::now();
    let refuse = |why: &str| Err(Error::new(Kind::Held, format!("{}: {why}", job_dir.display())));
    let Some(_lock) = JobLock::try_acquire(job_dir)? else { return refuse("another worker has this job") };
    if job_dir.join(FENCE).exists() {
        return refuse("this attempt was cancelled before its worker started");
    }
    if let Some(report) = read_result(job_dir)? {
        return Ok(report);
    }
    proc::become_subreaper().map_err(io("become the parent of orphans in", job_dir))?;
    crash::enter_job(job_dir.file_name().unwrap_or_default().display());
    crash::point(|| "with its lock");
    let own = serde_json::to_vec(&ProcessId::own()).unwrap_or_default();
    write_projected(&job_dir.join(WORKER), &own)?;
    crash::point(|| "with a name");
    let spec = JobSpec::from_input(std::io::stdin())?;
    heartbeat::beat(job_dir, spec.limits.stall())?;
    let ports = spec.common_dir.join("mahabharatha/ports");
    let _ports = spec.ports.iter().map(|port| ports::share(&ports, *port)).collect::<Result<Vec<_>>>()?;
    let cancel = CancelSignal::listen(spec.limits.grace(), job_dir.join(GRACE))?;
    let verification = Duration::from_secs(spec.task.verification.timeout_seconds.saturating_mul(2));
    let limit =
        spec.limits.attempt().saturating_add(spec.limits.grace().saturating_mul(2)).saturating_add(verification);
    let setup = spec.setup.as_ref().map_or(Duration::ZERO, |_| SETUP_TIMEOUT);
    watch::die_after(limit.saturating_add(SETUP_MARGIN).saturating_add(setup))
        .map_err(io("start a thread for", job_dir))?;

    let log = Log::open(&spec);
    log.info("started", &format!("base {}", spec.job.base));
    let mut attempt = Attempt::new(&spec, job_dir, &cancel, &log);
    let (end, wip) = attempt.run().unwrap_or_else(|error| {
        proc::end_descendants(Duration::ZERO);
        (attempt::setup_failure(&error), None)
    });
    let report = attempt.report(end, wip, started);
    log_end(&log, &report);
    write_result(job_dir, &report)?;
    Ok(report)
}

fn write_result(job_dir: &Path, report: &JobReport) -> Result<()> {
    crash::point(|| "before the result");
    let path = job_dir.join(RESULT);
    let bytes =
        serde_json::to_vec_pretty(report).map_err(Error::caused(format_args!("cannot write {}", path.display())))?;
    // The commit and the wip are on disk already, and the journal will record the result.
    write_projected(&path, &bytes)?;
    crash::point(|| "after the result");
    Ok(())
}

fn log_end(log: &Log, report: &JobReport) {
    for warning in &report.warnings {
        log.write(Severity::Warn, "warning", warning);
    }
    let (level, text) = match &report.end {
        JobEnd::Done { commit } => (Severity::Info, format!("done: {commit}")),
        JobEnd::Failed { feedback, .. } => (Severity::Error, report.with_hint(feedback)),
        JobEnd::Checkpoint { note } => (Severity::Info, format!("checkpoint: {note}")),
        JobEnd::Blocked { reason } => (Severity::Warn, format!("blocked: {reason}")),
        JobEnd::Escalated { reason } => (Severity::Warn, format!("escalated: {reason}")),
        JobEnd::Unserved { why, .. } => (Severity::Warn, format!("not served: {why}")),
        JobEnd::SetupFailed { failure } => (Severity::Error, failure.to_string()),
        JobEnd::Cancelled | JobEnd::Died { .. } => (Severity::Warn, "cancelled".to_owned()),
    };
    log.write(level, "ended", &text);
}
