//! One attempt, step by step: set up the worktree, run the agent, check what it changed, verify, commit.
//! Called by `run_job`, and by `held` for attempts that a session performs.

mod ending;

use std::error::Error as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mahabharatha_core::config::Isolation;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::Oid;
use mahabharatha_core::run::effect::{Performer, Purpose};
use mahabharatha_core::run::event::{FailCause, JobEnd, JobReport, Reason, SetupFailure};
use mahabharatha_core::secrets::{Finding, Suppression, feedback};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::{Git, RefChange, short_branch};
use mahabharatha_sys::proc::{self, Ended, Running};
use mahabharatha_sys::sandbox::Sandbox;
use mahabharatha_sys::store::atomic::write_projected;

use super::guard::Guard;
use super::job_spec::JobSpec;
use super::log::{Log, Severity};
use super::ownership::{self, Changes};
use super::sandbox::{self, GitLink};
use super::start::{self, Pristine, private_git, slot_git};
use super::verify::{self, Verdict};
use super::warmup::Warmup;
use super::watch::{self, CancelSignal};
use super::wip::{self, WipRef};
use super::{FENCE, PROMPT, found, progress, prompt, redact, secrets, setup};
use crate::agent::{Agent, AgentOutcome, Session};
use crate::confinement;

pub struct Attempt<'a> {
    pub spec: &'a JobSpec,
    pub job_dir: &'a Path,
    pub cancel: &'a CancelSignal,
    pub log: &'a Log,
    pub warnings: Vec<String>,
    /// What the sandbox kept the agent or the verification from, for the user only.
    pub hint: Option<String>,
    /// What is known of the reason for the end.
    reason: Option<Reason>,
    pub cost: Cost,
    pub decisions: Vec<String>,
    pub suppressed_secrets: Vec<Suppression>,
    /// What looks like a secret and keeps the attempt from being committed.
    secrets: Vec<Finding>,
    /// Time that the verification which passed took.
    verification: Option<Duration>,
}

/// How the agent's run ended.
pub enum AgentEnd {
    Finished(AgentOutcome),
    /// Carries the agent's last words.
    TimedOut(Option<String>),
    Stalled(Option<String>),
    Cancelled,
}

/// Returns how a run of the agent ended.
fn end_of(agent: &dyn Agent, ended: &Ended, stalled: bool, sandbox: &Sandbox) -> AgentEnd {
    match (stalled, ended.timed_out, ended.cancelled) {
        (true, _, _) => AgentEnd::Stalled(agent.last_words(ended)),
        (_, true, _) => AgentEnd::TimedOut(agent.last_words(ended)),
        (_, _, true) => AgentEnd::Cancelled,
        _ => AgentEnd::Finished(match sandbox.memory_failure() {
            Some(why) => AgentOutcome::Failed(format!("The agent failed: {why}")),
            None => agent.outcome(ended),
        }),
    }
}

impl<'a> Attempt<'a> {
    pub fn new(spec: &'a JobSpec, job_dir: &'a Path, cancel: &'a CancelSignal, log: &'a Log) -> Attempt<'a> {
        let (warnings, decisions, suppressed_secrets) = (Vec::new(), Vec::new(), Vec::new());
        Attempt {
            spec,
            job_dir,
            cancel,
            log,
            warnings,
            hint: None,
            reason: None,
            cost: Cost::default(),
            decisions,
            suppressed_secrets,
            secrets: Vec::new(),
            verification: None,
        }
    }

    pub fn run(&mut self) -> Result<(JobEnd, Option<Oid>)> {
        sandbox::end_earlier(self.spec)?;
        let place = setup::Place { spec: self.spec, job_dir: self.job_dir, cancel: self.cancel, log: self.log };
        let (pristine, warnings) = start::start(&place)?;
        self.warnings.extend(warnings);
        crash::point(|| "with the worktree set");
        let guard = Guard::look(self.spec);
        start::occupy(self.spec, &guard)?;
        crash::point(|| "before the agent");
        let agent_end = match self.spec.job.performer {
            Performer::Reported { .. } => {
                found::take(self.spec, self.job_dir)?;
                AgentEnd::Finished(AgentOutcome::Done)
            }
            _ => self.run_agent()?,
        };
        crash::point(|| "after the agent");
        self.conclude(agent_end, &pristine, &guard)
    }

    /// Checks what the agent or session left, then commits it or saves it as wip.
    pub fn conclude(
        &mut self,
        agent_end: AgentEnd,
        pristine: &Pristine,
        guard: &Guard<'_>,
    ) -> Result<(JobEnd, Option<Oid>)> {
        if !proc::end_descendants(Duration::ZERO) {
            return Err(Error::new(Kind::Failed, "the agent left processes that cannot be ended"));
        }
        if !fs::symlink_metadata(&self.spec.worktree).is_ok_and(|found| found.is_dir()) {
            start::vacate(self.spec)?;
            let text = format!("{} was removed while the agent ran", self.spec.worktree.display());
            return Err(Error::new(Kind::Failed, text));
        }
        if let Some(tip) = start::moved_branch(self.spec) {
            let branch = short_branch(&self.spec.branch);
            self.log.info("branch_moved", &format!("{branch} was moved to {tip}; nothing is merged through it"));
        }
        let index = self.spec.slot_file("scratch");
        let git = private_git(self.spec)?.index(&index);
        pristine.write(&index)?;
        let planted = guard.restore(&git, self.job_dir)?;
        let changes = ownership::look(&git, self.spec)?;
        crash::point(|| "with the changes known");
        self.warnings.extend(planted.warnings.iter().cloned());
        let end = match self.end_before_verification(agent_end, &git, &planted, &changes)? {
            Some(end) => Err(end),
            None => self.verify_and_commit(&git, guard, &changes)?,
        };
        if end == Err(JobEnd::Cancelled) && matches!(self.spec.job.performer, Performer::Session(_)) {
            // The session still holds the task and continues it.
            return Err(Error::new(Kind::Stopped, "cancelled; the task is held as before"));
        }
        let (end, wip) = match end {
            Ok(commit) => (JobEnd::Done { commit }, None),
            Err(end) => {
                let wip = self.save_wip(pristine, &changes)?;
                crash::point(|| "with the work kept");
                (end, wip)
            }
        };
        changes.take_out(self.spec, self.job_dir)?;
        start::vacate(self.spec)?;
        crash::point(|| "with nothing unsaved");
        Ok((end, wip))
    }

    pub fn report(self, end: JobEnd, wip: Option<Oid>, started: Instant) -> JobReport {
        let Attempt { warnings, hint, reason, decisions, cost, mut suppressed_secrets, secrets, verification, .. } =
            self;
        if !matches!(end, JobEnd::Done { .. }) {
            suppressed_secrets.clear();
        }
        let bare = JobReport::new(end, started.elapsed().as_millis() as u64);
        let verification_ms = verification.map(|took| took.as_millis() as u64);
        let known = JobReport { wip, verification_ms, reason, warnings, hint, ..bare };
        let report = JobReport { decisions, suppressed_secrets, secrets, ..known };
        redact::report(self.log.redactor(), report.with_cost(cost))
    }

    fn run_agent(&mut self) -> Result<AgentEnd> {
        let spec = self.spec;
        let git_link = GitLink { spec, job_dir: self.job_dir };
        let mut sandbox = sandbox::for_agent(spec)?;
        let warmup = Warmup::default();
        let agent = spec.agent.agent();
        let Some(running) = self.start_agent(&*agent, &mut sandbox, &warmup)? else { return Ok(AgentEnd::Cancelled) };
        let (stall, grace) = (spec.limits.stall(), spec.limits.grace());
        let waited = watch::wait_for_agent(running, self.cancel, stall, grace, &spec.worktree);
        let (ended, stalled) = waited.map_err(Error::caused("the agent"))?;
        // Before anything is cut or quoted from it.
        let ended = redact::ended(self.log.redactor(), ended);
        warmup.end();
        let failure = confinement::failure(&sandbox);
        agent.clean_up();
        drop(git_link);
        if let Some(error) = failure {
            return Err(error);
        }
        self.cost = agent.reported_cost().unwrap_or(self.cost);
        self.decisions = agent.decisions(&ended);
        self.log.info("agent_ended", &format!("{} after {:.1} s", ended.status, ended.duration.as_secs_f64()));
        if ended.left_others || proc::has_descendants() {
            self.log.write(Severity::Warn, "left_running", "the agent left processes running; they are ended");
        }
        let end = end_of(&*agent, &ended, stalled, &sandbox);
        // In a container this says only what the failure says already.
        if let AgentEnd::Finished(AgentOutcome::Failed(feedback)) = &end
            && sandbox.isolation() != Isolation::Container
        {
            self.hint = sandbox.denial(feedback);
        }
        Ok(end)
    }

    /// Starts the agent in its sandbox; none if the attempt was cancelled before.
    fn start_agent(&mut self, agent: &dyn Agent, sandbox: &mut Sandbox, warmup: &Warmup) -> Result<Option<Running>> {
        let spec = self.spec;
        let workdir = sandbox.workdir().to_owned();
        let spec_dir = sandbox.inside(&spec.spec_dir);
        let prompt = prompt::prompt(spec, &workdir);
        if !prompt.cut.is_empty() {
            self.log.info("prompt", &format!("left out for length: {}", prompt.cut.join(", ")));
        }
        // Only for people who look at the attempt.
        let shown = self.log.redactor().redacted(&prompt.text());
        let _ = write_projected(&self.job_dir.join(PROMPT), shown.as_bytes());
        let session = Session {
            prompt: &prompt,
            task: &spec.task,
            owned: &spec.owned,
            root: &spec.root,
            worktree: &spec.worktree,
            spec_dir: &spec_dir,
            job_dir: self.job_dir,
            env: spec.agent_environment(&workdir),
            sandbox: &mut *sandbox,
            redactor: self.log.redactor().clone(),
            events: warmup.event_sink(progress::event_sink(self.log, spec)),
        };
        if let Some(prefix) = agent.shared_prefix(&session) {
            warmup.wait_for_turn(&spec.prompt_cache_file(&prefix), self.cancel, self.log);
        }
        if self.cancel.cancelled() {
            return Ok(None);
        }
        let command = agent.command(session)?;
        let command = sandbox.confine(command)?;
        // Used until the agent reports its cost.
        self.cost = spec.agent.unreported_cost();
        let running = command
            .timeout(spec.limits.attempt())
            .grace(spec.limits.grace())
            .copy_to(self.log.lines("output"))
            .spawn()
            .map_err(Error::caused("the agent"))?;
        crash::point(|| "with the agent begun");
        self.log.info("agent_started", &format!("pid {}", running.id().pid));
        Ok(Some(running))
    }

    /// Returns the files that the task should have created but that would not be in the commit.
    pub fn missing(&self, git: &Git, changes: &Changes) -> Result<Vec<String>> {
        let root = &self.spec.worktree;
        let on_disk = |path: &str| fs::symlink_metadata(root.join(path)).is_ok_and(|found| !found.is_dir());
        let files = self.spec.owned.iter().filter(|owned| owned.create && !owned.directory);
        let paths = files.map(|owned| owned.path.as_str());
        let mut missing: Vec<&str> =
            paths.filter(|&path| !on_disk(path) || !changes.owned.contains(&path.into())).collect();
        if missing.iter().any(|path| on_disk(path)) {
            // On disk but unchanged: already in the base, or in a place that git does not look at, such as a submodule.
            let base = git.ls_tree(&self.spec.job.base)?;
            missing.retain(|&path| !on_disk(path) || base.iter().all(|entry| entry.path.as_str() != Some(path)));
        }
        Ok(missing.into_iter().map(str::to_owned).collect())
    }

    /// Returns the commit, or how the attempt ends without one.
    fn verify_and_commit(&mut self, git: &Git, guard: &Guard<'_>, changes: &Changes) -> Result<Result<Oid, JobEnd>> {
        let spec = self.spec;
        for path in &changes.left_out {
            self.warnings.push(format!("{path} looks generated and is left out"));
        }
        ownership::stage(git, &spec.worktree, &changes.owned)?;
        let tree = git.write_tree()?;
        if matches!(spec.job.purpose, Purpose::Fix { .. }) && self.is_base(git, &tree)? {
            let feedback = "Nothing was changed, so what failed would fail again.".to_owned();
            return Ok(Err(JobEnd::Failed { cause: FailCause::Unchanged, feedback, strays: Vec::new() }));
        }
        let scan = secrets::scan(git, &spec.job.base, &tree, &spec.allowed_secrets)?;
        self.suppressed_secrets = scan.suppressions;
        self.warnings.extend(scan.skipped.iter().map(|path| format!("{path} is too large to be scanned for secrets")));
        if !scan.findings.is_empty() {
            let feedback = feedback(&scan.findings);
            self.secrets = scan.findings;
            return Ok(Err(JobEnd::Failed { cause: FailCause::Secrets, feedback, strays: Vec::new() }));
        }
        progress::begin_verification(spec);
        let verdict = verify::verify(spec, self.job_dir, self.cancel, self.log, &scan.contents)?;
        // The verification ran code that the agent wrote, so restore again before git runs.
        let git = slot_git(spec)?;
        let planted = guard.restore(&git, self.job_dir)?;
        match verdict {
            Verdict::Cancelled => return Ok(Err(JobEnd::Cancelled)),
            Verdict::Failed { feedback, denial, timed_out } => {
                self.hint = denial;
                self.reason = timed_out.then_some(Reason::VerificationTimeout);
                let (cause, strays) = (FailCause::Verification, planted.strays);
                return Ok(Err(JobEnd::Failed { cause, feedback, strays }));
            }
            Verdict::Passed(_) if !planted.strays.is_empty() => {
                let feedback = self.stray_feedback(&planted, &Changes::default());
                return Ok(Err(JobEnd::Failed { cause: FailCause::Strays, feedback, strays: planted.strays }));
            }
            Verdict::Passed(took) => self.verification = took,
        }
        crash::point(|| "before the commit");
        if self.job_dir.join(FENCE).exists() {
            return Err(Error::new(Kind::Held, "this attempt was cancelled while it ran"));
        }
        let commit = git.commit_tree(&tree, std::slice::from_ref(&spec.job.base), &message(spec), &spec.identity)?;
        crash::point(|| "before the ref");
        let set = RefChange::Set { name: spec.result_ref(), new: commit.clone() };
        Git::repository(&spec.common_dir).update_refs(&[set], "mahabharatha: task")?;
        crash::point(|| "after the ref");
        self.log.info("committed", commit.as_str());
        Ok(Ok(commit))
    }

    fn is_base(&self, git: &Git, tree: &Oid) -> Result<bool> {
        Ok(git.rev_parse(&format!("{}^{{tree}}", self.spec.job.base))?.as_ref() == Some(tree))
    }

    /// Saves everything that was changed as wip, the task's own files first.
    fn save_wip(&mut self, pristine: &Pristine, changes: &Changes) -> Result<Option<Oid>> {
        let index = self.spec.slot_file("scratch");
        pristine.write(&index)?;
        let git = private_git(self.spec)?.index(&index);
        let (owned, others): (Vec<_>, Vec<_>) = (changes.owned.iter().collect(), changes.others().collect());
        let wip_ref = WipRef::of(self.spec);
        let kept = wip::save(&wip_ref, &git, &owned, &others)?;
        self.warnings.extend(kept.warnings);
        if kept.wip.is_some() {
            self.log.info("kept", &wip_ref.name());
        }
        Ok(kept.wip)
    }
}

fn message(spec: &JobSpec) -> String {
    let kind = match spec.job.purpose {
        Purpose::Build => "feat",
        Purpose::Fix { .. } => "fix",
    };
    let words: Vec<String> = spec
        .task
        .title
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    let title: String = words.join(" ").chars().take(200).collect();
    let (task, job) = (&spec.job.task, &spec.job);
    format!(
        "{kind}({task}): {}\n\nMahabharatha-Feature: {}\nMahabharatha-Task: {task}\nMahabharatha-Level: {}\nMahabharatha-Attempt: {}\n",
        if title.is_empty() { task.as_str() } else { &title },
        spec.feature,
        spec.task.level,
        job.attempt,
    )
}

/// Ends an attempt that could not be carried out.
pub fn setup_failure(error: &Error) -> JobEnd {
    match error.kind() {
        Kind::Preflight => {
            let known = error.source().and_then(|source| source.downcast_ref::<SetupFailure>()).cloned();
            let failure = known.unwrap_or_else(|| SetupFailure::Other { why: error.message().to_owned() });
            return JobEnd::SetupFailed { failure };
        }
        Kind::Stopped => return JobEnd::Cancelled,
        _ => {}
    }
    JobEnd::Failed { cause: FailCause::Setup, feedback: error.to_string(), strays: Vec::new() }
}
