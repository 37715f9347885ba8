//! Attempts that a session performs after claiming the task; called by the `task` commands and the hooks. The worktree
//! is set up, and the session's work is checked and verified like an agent's.

use std::path::Path;
use std::time::{Instant, SystemTime};

use mahabharatha_core::cost::Cost;
use mahabharatha_core::run::event::{JobEnd, JobReport};
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::proc::{self, shell_word};
use mahabharatha_sys::store::locks::JobLock;

use super::attempt::{AgentEnd, Attempt};
use super::guard::Guard;
use super::job_spec::JobSpec;
use super::log::Log;
use super::secrets::Contents;
use super::start::{self, Pristine, private_git};
use super::verify::{self, Verdict};
use super::watch::CancelSignal;
use super::{
    FENCE, GRACE, log_end, ownership, prompt, read_result, sandbox, secrets, setup, subagents, trial, write_result,
};
use crate::agent::AgentOutcome;

/// Sets up the worktree if needed; returns warnings for the user.
pub fn make_ready(job_dir: &Path) -> Result<Vec<String>> {
    let (_lock, spec) = enter(job_dir)?;
    if start::occupied(&spec)?.is_some() {
        if spec.worktree.is_dir() {
            return Ok(Vec::new());
        }
        // The worktree was removed along with its work: vacate the slot, or every file would be saved as deleted.
        start::vacate(&spec)?;
    }
    sandbox::end_earlier(&spec)?;
    with_attempt(&spec, job_dir, |attempt| {
        let place = setup::Place { spec: &spec, job_dir, cancel: attempt.cancel, log: attempt.log };
        let (_, warnings) = start::start(&place)?;
        start::occupy(&spec, &Guard::look(&spec))?;
        attempt.log.info("claimed", &format!("base {}", spec.job.base));
        Ok(warnings)
    })
}

/// Returns the prompt for the session or subagent that does the work.
pub fn prompt_text(job_dir: &Path) -> Result<String> {
    let spec = JobSpec::read(job_dir)?;
    let protocol = format!(
        "# Where you work\n\nWork in `{worktree}` and nowhere else: use absolute paths below it, and begin shell commands with \
         `cd {quoted} &&`. Change only the files that the task creates or modifies. Do not commit, push or switch branches.\n\n\
         When you think you are done, check your work with exactly `mahabharatha task verify {task} --feature {feature}`, without a \
         `cd` or anything else on the line, and fix what it reports. Do not complete the task yourself: the session that started you \
         does. End with a short account of what you did; begin a line with `DECISION:` for what later tasks must know.\n",
        worktree = spec.worktree.display(),
        quoted = shell_word(&spec.worktree.display().to_string()),
        task = spec.job.task,
        feature = spec.feature,
    );
    Ok(format!("{}\n{protocol}", prompt::prompt(&spec, &spec.worktree).text()))
}

/// Reasons why the attempt cannot be completed now.
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    pub strays: Vec<String>,
    pub missing: Vec<String>,
    /// What looks like a secret in the change, masked.
    pub secrets: Vec<String>,
    /// Report of the verification, if it failed.
    pub verification: Option<String>,
}

impl Check {
    pub fn passed(&self) -> bool {
        *self == Check::default()
    }

    /// Lists what is wrong with the attempt, one entry per problem.
    pub fn objections(&self) -> Vec<String> {
        let strays = self.strays.iter().map(|stray| format!("not owned by the task: {stray}"));
        let missing = self.missing.iter().map(|missing| format!("missing: {missing}, which the task must create"));
        let secrets = self.secrets.iter().map(|secret| format!("looks like a secret: {secret}"));
        strays.chain(missing).chain(secrets).chain(self.verification.clone()).collect()
    }
}

/// Checks and verifies the work without ending the attempt.
pub fn check(job_dir: &Path, ports: Vec<u16>) -> Result<Check> {
    let (_lock, spec) = enter(job_dir)?;
    let spec = JobSpec { ports, ..spec };
    let (pristine, _) = occupied(&spec, job_dir)?;
    with_attempt(&spec, job_dir, |attempt| {
        let index = spec.slot_file("scratch");
        let git = private_git(&spec)?.index(&index);
        pristine.write(&index)?;
        let changes = ownership::look(&git, &spec)?;
        let mut check = Check {
            strays: changes.strays.iter().map(|stray| stray.path.to_string()).collect(),
            missing: attempt.missing(&git, &changes)?,
            secrets: Vec::new(),
            verification: None,
        };
        let mut committed = Contents::default();
        if check.passed() {
            ownership::stage(&git, &spec.worktree, &changes.owned)?;
            let scan = secrets::scan(&git, &spec.job.base, &git.write_tree()?, &spec.allowed_secrets)?;
            check.secrets = scan.findings.iter().map(ToString::to_string).collect();
            committed = scan.contents;
        }
        if check.passed() {
            check.verification = match verify::verify(&spec, job_dir, attempt.cancel, attempt.log, &committed)? {
                Verdict::Passed(_) => None,
                Verdict::Failed { feedback, denial, .. } => {
                    Some(denial.into_iter().fold(feedback, |text, denial| format!("{text}\n{denial}")))
                }
                Verdict::Cancelled => return Err(Error::new(Kind::Stopped, "cancelled")),
            };
        }
        Ok(check)
    })
}

/// How the attempt ended according to its session.
pub enum Claimed {
    Done,
    Failed(String),
    Blocked(String),
}

/// Ends the attempt: checks, verifies and commits finished work, saves other work as wip. Returns the stored report if
/// the attempt has ended already.
pub fn end(job_dir: &Path, claimed: Claimed, ports: Vec<u16>, decisions: Vec<String>) -> Result<JobReport> {
    let _lock = JobLock::wait(job_dir)?;
    if let Some(report) = read_result(job_dir)? {
        return Ok(report);
    }
    let spec = JobSpec { ports, ..JobSpec::read(job_dir)? };
    refuse_fenced(job_dir)?;
    end_trials(job_dir)?;
    let (pristine, guard) = occupied(&spec, job_dir)?;
    let started = Instant::now();
    let outcome = match claimed {
        Claimed::Done => AgentOutcome::Done,
        Claimed::Failed(reason) => AgentOutcome::Failed(reason),
        Claimed::Blocked(reason) => AgentOutcome::Blocked(reason),
    };
    with_attempt(&spec, job_dir, |mut attempt| {
        attempt.decisions = decisions;
        // The client does not say what its subagents cost.
        attempt.cost = Cost::of(None, subagents::tokens(job_dir));
        let (end, wip) = attempt.conclude(AgentEnd::Finished(outcome), &pristine, &guard)?;
        let log = attempt.log;
        let mut report = attempt.report(end, wip, started);
        report.ran_ms = ms_since_claim(job_dir).unwrap_or(report.ran_ms);
        log_end(log, &report);
        write_result(job_dir, &report)?;
        Ok(report)
    })
}

/// Milliseconds since the task was claimed.
fn ms_since_claim(job_dir: &Path) -> Option<u64> {
    let claimed = std::fs::metadata(job_dir.join(super::JOB_SPEC)).ok()?.modified().ok()?;
    Some(SystemTime::now().duration_since(claimed).ok()?.as_millis() as u64)
}

fn enter(job_dir: &Path) -> Result<(JobLock, JobSpec)> {
    let lock = JobLock::wait(job_dir)?;
    let spec = JobSpec::read(job_dir)?;
    refuse_fenced(job_dir)?;
    end_trials(job_dir)?;
    if let Some(JobReport { end: JobEnd::Done { .. }, .. }) = read_result(job_dir)? {
        return Err(Error::new(Kind::Invalid, format!("{} is completed", spec.job.task)));
    }
    Ok((lock, spec))
}

/// Ends what killed trials left in the worktree; fails if a trial is open there.
fn end_trials(job_dir: &Path) -> Result<()> {
    trial::refuse_open(job_dir)?;
    trial::end_killed(job_dir);
    Ok(())
}

fn refuse_fenced(job_dir: &Path) -> Result<()> {
    if !job_dir.join(FENCE).exists() {
        return Ok(());
    }
    Err(Error::new(Kind::Held, "this attempt was cancelled: its lease expired, or it was stopped").hint(
        "The work is kept, and `mahabharatha debug` shows where; claim the task again with `mahabharatha task claim`.",
    ))
}

fn occupied<'a>(spec: &'a JobSpec, job_dir: &Path) -> Result<(Pristine, Guard<'a>)> {
    if !spec.worktree.is_dir() {
        let message = format!("the worktree of {} is gone: {}", spec.job.task, spec.worktree.display());
        return Err(Error::new(Kind::Invalid, message)
            .hint(format!("Create it again: mahabharatha task claim {}", spec.job.task)));
    }
    sandbox::end_earlier(spec)?;
    sandbox::restore_git_link(spec, job_dir)?;
    start::occupied(spec)?.ok_or_else(|| {
        Error::new(Kind::Invalid, format!("the worktree of {} is not ready", spec.job.task))
            .hint(format!("mahabharatha task claim {}", spec.job.task))
    })
}

fn with_attempt<T>(spec: &JobSpec, job_dir: &Path, act: impl FnOnce(Attempt<'_>) -> Result<T>) -> Result<T> {
    proc::become_subreaper().map_err(io("become the parent of orphans in", job_dir))?;
    let cancel = CancelSignal::listen(spec.limits.grace(), job_dir.join(GRACE))?;
    let log = Log::open(spec);
    act(Attempt::new(spec, job_dir, &cancel, &log))
}
