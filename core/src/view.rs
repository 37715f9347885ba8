//! View of a run for users and programs. Every display must read this and nothing else.

mod blockers;
mod merged;
mod next;
mod planned;
mod remaining;
mod spec;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use self::blockers::told;
pub use self::blockers::{Blocker, Blockers, about_secrets, answer_to, approval_command};
pub use self::merged::merged_phrase;
pub use self::next::{Next, Step};
pub use self::planned::{Draft, PlannedView};
pub use self::spec::SpecView;
use crate::cost::Cost;
use crate::graph::Task;
use crate::ids::{Attempt, Level, Oid, TaskId, Time, WorkerId};
use crate::isolation::Isolation;
use crate::run::event::{Candidate, FailCause, JobEnd, JobReport, Schedule};
use crate::run::needs::Need;
use crate::run::{
    AttemptRecord, Breaker, Effect, End, LevelState, LevelStatus, Run, TaskState, TaskStatus, WorkerStatus,
};
use crate::seconds::{seconds, seconds_if_known};
use crate::secrets::Suppression;

/// Time that is serialized as text for users and programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String")]
pub struct Stamp(pub Time);

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunView {
    pub feature: String,
    /// Number of the latest event, counted from 1.
    pub seq: u64,
    pub status: &'static str,
    /// A user stopped it, and nothing has driven it since. Its status is `paused`.
    #[serde(rename = "stopped", skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
    /// A user has stopped it, and the process that drives it waits for its agents to end.
    #[serde(skip)]
    pub is_stopping: bool,
    /// Paused by a user while a process drives it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    pub mode: String,
    /// The sandbox in which agents, verifications and gates run.
    pub sandbox: Isolation,
    /// When a task starts.
    pub schedule: Schedule,
    /// The level being worked on, or the last one.
    pub level: Option<Level>,
    pub levels: Vec<LevelView>,
    pub tasks: Vec<TaskView>,
    pub workers: Vec<WorkerView>,
    /// Cost of the feature: its planning and the attempts that have ended.
    #[serde(flatten)]
    pub cost: Cost,
    pub planning: Cost,
    /// Cost at which nothing more is launched.
    pub budget_usd: Option<f64>,
    /// Attempts that a task gets before it is blocked.
    pub max_attempts: u32,
    /// What keeps the run from continuing.
    #[serde(flatten)]
    pub blockers: Blockers,
    pub base_branch: String,
    /// Branch that levels land on, as a full ref name.
    pub landing_branch: String,
    pub started_at: Stamp,
    pub updated_at: Stamp,
    /// `None` while the run has not ended.
    pub ended_at: Option<Stamp>,
    /// Time the run was driven, up to its latest event.
    #[serde(rename = "elapsed_seconds", serialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub elapsed: Duration,
    /// Time that `elapsed` does not have because a process that does not drive the run may have recorded the latest events.
    #[serde(skip)]
    pub unconfirmed: Duration,
    /// Time until the end by what the tasks took so far, compared with their estimates; `None` if that cannot be told.
    #[serde(rename = "remaining_seconds", serialize_with = "seconds_if_known")]
    #[schemars(with = "Option<f64>")]
    pub remaining: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<String>,
    /// Set while launches wait for the API limit to reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseView>,
    /// Decisions of the user, and of the agents in completed tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
    /// What looks like a secret in the commits of completed tasks and was allowed with a reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suppressed_secrets: Vec<SuppressedSecret>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PauseView {
    pub until: Stamp,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Decision {
    pub task: TaskId,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SuppressedSecret {
    pub task: TaskId,
    #[serde(flatten)]
    pub suppression: Suppression,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LevelView {
    pub level: Level,
    /// `pending`, `running`, `merging`, `gating`, `merged`, `skipped` (every task was, so nothing was merged), `failed` or
    /// `undone`.
    pub status: &'static str,
    pub total: usize,
    pub completed: usize,
    pub blocked: usize,
    pub skipped: usize,
    /// None if the level is not merged, or had nothing to merge.
    pub commit: Option<Oid>,
    pub started_at: Option<Stamp>,
    pub merged_at: Option<Stamp>,
    /// What would land, while the level waits for a user's approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaits_approval: Option<Candidate>,
    #[serde(flatten)]
    pub cost: Cost,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TaskView {
    pub id: TaskId,
    pub title: String,
    pub level: Level,
    pub status: &'static str,
    pub worker: Option<u32>,
    /// Session that holds the task, if no worker does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Number of the latest attempt, 0 before the first.
    pub attempt: u32,
    pub started_at: Option<Stamp>,
    pub completed_at: Option<Stamp>,
    pub commit: Option<Oid>,
    #[serde(flatten)]
    pub cost: Cost,
    pub reason: Option<String>,
    /// What the agent asked that blocked the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Files that the agent of the blocked task asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// Paths that the task was granted beside those of its spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<String>,
    /// Set while the task waits after a failure.
    pub next_attempt_at: Option<Stamp>,
    /// Paths that the latest attempt changed without owning them.
    pub strays: Vec<String>,
    pub dependencies: Vec<TaskId>,
    #[serde(flatten)]
    pub spec: SpecView,
    pub attempts: Vec<AttemptView>,
}

impl TaskView {
    /// Returns the view of one task, with its own commit even if that has landed as another; none if the graph has no such task.
    pub fn of(run: &Run, task: &TaskId) -> Option<TaskView> {
        let index = run.graph().index(task)?;
        Some(task_view(run, &run.graph().tasks()[index], &run.tasks()[index]))
    }

    /// Returns the attempt that is under way: also that of a completed task which fixes a gate.
    pub fn running(&self) -> Option<&AttemptView> {
        self.attempts.last().filter(|latest| latest.outcome == "running")
    }

    /// Returns the note for the next attempt, if the latest one stopped at a checkpoint.
    pub fn checkpoint_note(&self) -> Option<&str> {
        let latest = self.attempts.iter().rev().find(|attempt| attempt.ended_at.is_some())?;
        let continues = matches!(self.status, "pending" | "in_progress") && latest.outcome == "checkpoint";
        latest.detail.as_deref().filter(|_| continues)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AttemptView {
    pub attempt: u32,
    pub worker: u32,
    pub started_at: Stamp,
    pub ended_at: Option<Stamp>,
    /// Duration up to its end or the run's latest event, without time in which nothing drove the run.
    #[serde(rename = "elapsed_seconds", serialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub elapsed: Duration,
    /// `running`, `done`, `failed`, `checkpoint`, `blocked`, `escalated`, `unserved`, `setup_failed`, `died`,
    /// `cancelled`.
    pub outcome: &'static str,
    /// Cause of a failure.
    pub cause: Option<FailCause>,
    pub fix: bool,
    pub detail: Option<String>,
    pub strays: Vec<String>,
    pub warnings: Vec<String>,
    pub wip: Option<Oid>,
    /// The agent that made it, by its name in the configuration, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Time that the verification which passed took.
    #[serde(
        rename = "verification_seconds",
        serialize_with = "seconds_if_known",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<f64>")]
    pub verification: Option<Duration>,
    #[serde(flatten)]
    pub cost: Cost,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorkerView {
    pub id: u32,
    pub status: &'static str,
    pub task: Option<TaskId>,
    pub pid: Option<u32>,
    pub branch: String,
    /// Finishes its task and gets no other: the number of workers was lowered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retiring: bool,
}

impl RunView {
    /// Returns the status in a word for people. Programs know a stopped run as paused, and one that stops as running.
    pub fn status_word(&self) -> &'static str {
        match self.status {
            _ if self.is_stopped => "stopped",
            _ if self.is_stopping => "stopping",
            status => status,
        }
    }

    /// Returns the time the run was driven until now; constant while nothing drives it.
    pub fn elapsed_by(&self, now: Time) -> Duration {
        self.elapsed + self.since_elapsed(now)
    }

    /// Returns the time that is not in `elapsed` yet, of the run and of its running attempts; zero if nothing drives the run.
    pub fn since_elapsed(&self, now: Time) -> Duration {
        let is_driven = self.status == "running" || self.paused;
        if is_driven { self.unconfirmed + now.since(self.updated_at.0) } else { Duration::ZERO }
    }

    /// Adjusts the view of a run that no process drives although its journal has no end. A worker may outlive that
    /// process: `is_alive` tells whether one is still running an attempt.
    pub fn undriven(mut self, is_alive: impl Fn(&TaskId, Attempt) -> bool) -> RunView {
        if self.ended_at.is_some() {
            return self;
        }
        (self.status, self.is_stopping) = ("paused", false);
        if std::mem::take(&mut self.paused) {
            // The next process clears the pause.
            self.blockers.retain(|blocker| !blocker.is_of_run());
        }
        let mut alive = Vec::new();
        for worker in self.workers.iter_mut().filter(|worker| worker.status == "running") {
            let task = self.tasks.iter().find(|task| worker.task.as_ref() == Some(&task.id));
            match task.filter(|task| is_alive(&task.id, Attempt(task.attempt))) {
                Some(task) => alive.push(task.id.as_str()),
                None => worker.status = "crashed",
            }
        }
        let mut cause = "the process that drove it is gone".to_string();
        if !alive.is_empty() {
            cause.push_str(&format!("; its workers go on with {}", alive.join(", ")));
        }
        let resolution = format!("`mahabharatha run {}` goes on from here", self.feature);
        let commands = ["run", "stop"].map(|verb| format!("mahabharatha {verb} {}", self.feature));
        let blocker = Blocker::new(blockers::RUN, "undriven", cause, resolution).commands(commands);
        self.blockers.push(blocker);
        self.remaining = None;
        self
    }

    /// Sets the current cost of planning, which may have grown since the run was last resumed.
    pub fn with_planning(self, run: &Run, planning: Cost) -> RunView {
        RunView { cost: planning + run.attempts_cost(), planning, ..self }
    }

    pub fn of(run: &Run) -> RunView {
        let mut tasks: Vec<TaskView> =
            run.graph().tasks().iter().zip(run.tasks()).map(|(task, state)| task_view(run, task, state)).collect();
        name_landed_commits(run, &mut tasks);
        RunView {
            feature: run.feature().to_string(),
            seq: run.seq(),
            status: status_of(run),
            is_stopped: run.ended() == Some(&End::Stopped),
            is_stopping: run.is_stopping(),
            paused: run.is_paused() && run.ended().is_none(),
            mode: run.mode().to_string(),
            sandbox: run.policy().isolation,
            schedule: run.policy().schedule,
            level: run.current_level().or(run.levels().last()).map(|level| level.level),
            levels: run.levels().iter().map(|level| level_view(run, level, &tasks)).collect(),
            workers: workers_of(run),
            cost: run.cost(),
            planning: run.planning(),
            budget_usd: run.policy().max_usd,
            max_attempts: run.policy().max_attempts,
            blockers: blockers::blockers_of(run),
            base_branch: run.setup().base_branch.clone(),
            landing_branch: run.landing_branch(),
            started_at: Stamp(run.started_at()),
            updated_at: Stamp(run.updated_at()),
            ended_at: run.ended_at().map(Stamp),
            elapsed: run.elapsed(),
            unconfirmed: run.unconfirmed(),
            remaining: remaining::remaining(run),
            breaker: breaker_of(run),
            pause: pause_of(run),
            decisions: decisions_of(run),
            suppressed_secrets: suppressed_secrets_of(run),
            tasks,
        }
    }
}

/// Returns the run's status: `running`, `paused`, `blocked`, `failed`, `completed` or `undone`.
fn status_of(run: &Run) -> &'static str {
    match run.ended() {
        None if run.is_paused() => "paused",
        None => "running",
        Some(End::Completed) => "completed",
        Some(End::Undone) => "undone",
        Some(End::Blocked) if run.tasks().iter().any(is_stuck) => "blocked",
        Some(
            End::RedBase { .. }
            | End::SetupFailed { .. }
            | End::GateFailed { .. }
            | End::Conflict { .. }
            | End::Failed { .. },
        ) => "failed",
        Some(End::Blocked | End::LevelMerged { .. } | End::Paused { .. } | End::Stopped) => "paused",
    }
}

fn is_stuck(task: &TaskState) -> bool {
    matches!(task.status, TaskStatus::Blocked { .. } | TaskStatus::Waiting)
}

/// Replaces each landed task's commit by its copy on staging, which is the one in the branch's history.
fn name_landed_commits(run: &Run, tasks: &mut [TaskView]) {
    for level in run.levels().iter().filter(|level| matches!(level.status, LevelStatus::Merged { .. })) {
        // In reverse, so that the task's own commit wins over a later fix.
        for landed in level.commits.iter().rev() {
            if let Some(view) = run.graph().index(&landed.task).and_then(|index| tasks.get_mut(index)) {
                view.commit = Some(landed.commit.clone());
            }
        }
    }
}

fn level_view(run: &Run, level: &LevelState, views: &[TaskView]) -> LevelView {
    let tasks = run.tasks();
    let views = &views[level.tasks.clone()];
    let count = |is: fn(&TaskStatus) -> bool| tasks[level.tasks.clone()].iter().filter(|task| is(&task.status)).count();
    let skipped = count(|status| matches!(status, TaskStatus::Skipped { .. }));
    let (commit, merged_at) = match &level.status {
        LevelStatus::Merged { commit, at, landed: true } => (Some(commit.clone()), Some(Stamp(*at))),
        LevelStatus::Merged { at, .. } if !run.had_nothing_to_merge(level) => (None, Some(Stamp(*at))),
        _ => (None, None),
    };
    LevelView {
        level: level.level,
        status: match level.status {
            LevelStatus::Pending if views.iter().any(|task| task.attempt > 0) => "running",
            LevelStatus::Pending => "pending",
            LevelStatus::Running => "running",
            LevelStatus::Staging | LevelStatus::AwaitingApproval { .. } | LevelStatus::Landing { .. } => "merging",
            LevelStatus::Gating | LevelStatus::Blaming { .. } | LevelStatus::Fixing { .. } => "gating",
            LevelStatus::Merged { .. } if run.ended() == Some(&End::Undone) => "undone",
            LevelStatus::Merged { .. } if merged_at.is_none() => "skipped",
            LevelStatus::Merged { .. } => "merged",
            LevelStatus::Failed { .. } => "failed",
        },
        total: level.tasks.len(),
        completed: count(|status| matches!(status, TaskStatus::Completed { .. })),
        blocked: count(|status| matches!(status, TaskStatus::Blocked { .. })),
        skipped,
        commit,
        started_at: level.started_at.map(Stamp),
        merged_at,
        awaits_approval: match &level.status {
            LevelStatus::AwaitingApproval { candidate } => Some(candidate.clone()),
            _ => None,
        },
        cost: views.iter().map(|task| task.cost).sum(),
    }
}

fn task_view(run: &Run, task: &Task, state: &TaskState) -> TaskView {
    let attempts: Vec<AttemptView> = state.attempts.iter().map(|record| attempt_view(run, &task.id, record)).collect();
    let reason_for_people = |text: &str| told(run, &task.id, state.attempts.last(), text);
    let (status, reason) = match &state.status {
        TaskStatus::Pending => ("pending", None),
        TaskStatus::Resting { .. } => ("pending", state.carry.feedback.as_deref().map(reason_for_people)),
        TaskStatus::InProgress { .. } => ("in_progress", None),
        TaskStatus::Waiting => ("waiting", Some("needs a person".to_string())),
        TaskStatus::Completed { .. } => ("completed", None),
        TaskStatus::Blocked { reason, .. } => ("blocked", Some(reason_for_people(reason))),
        TaskStatus::Skipped { reason, .. } => ("skipped", Some(reason.clone())),
    };
    let (commit, completed_at) = match &state.status {
        TaskStatus::Completed { commit, at } => (Some(commit.clone()), Some(Stamp(*at))),
        _ => (None, None),
    };
    TaskView {
        id: task.id.clone(),
        title: task.spec.title.clone(),
        level: task.level,
        status,
        worker: attempts.last().map(|attempt| attempt.worker),
        session: run.held().find(|(job, _)| job.task == task.id).map(|(_, session)| session.to_string()),
        attempt: attempts.last().map_or(0, |attempt| attempt.attempt),
        started_at: attempts.first().map(|attempt| attempt.started_at),
        completed_at,
        commit,
        cost: attempts.iter().map(|attempt| attempt.cost).sum(),
        reason,
        question: state.question().map(str::to_string),
        needs: run.needs_of(&task.id),
        granted: run.granted_to(&task.id).collect(),
        next_attempt_at: match state.status {
            TaskStatus::Resting { until } => Some(Stamp(until)),
            _ => None,
        },
        strays: attempts.last().map(|attempt| attempt.strays.clone()).unwrap_or_default(),
        dependencies: task.dependencies.clone(),
        spec: SpecView::of(task),
        attempts,
    }
}

fn attempt_view(run: &Run, task: &TaskId, record: &AttemptRecord) -> AttemptView {
    let report = record.ended.clone().map(|(_, report)| report);
    // Its end may be recorded much later, when another process continues the run.
    let ended_at = report.as_ref().map(|_| record.started_at + run.attempt_elapsed(record));
    let (outcome, detail, strays) = match report.as_ref().map(|report| &report.end) {
        None if is_running(run, task, record) => ("running", None, Vec::new()),
        // Cancelled together with its effect, so there is no report.
        None => ("cancelled", None, Vec::new()),
        Some(JobEnd::Done { .. }) => ("done", None, Vec::new()),
        Some(JobEnd::Failed { feedback, strays, .. }) => {
            let text = report.as_ref().map(|report| told(run, task, Some(record), &report.with_hint(feedback)));
            ("failed", text, strays.clone())
        }
        Some(JobEnd::Checkpoint { note }) => ("checkpoint", Some(note.clone()), Vec::new()),
        Some(JobEnd::Blocked { reason }) => ("blocked", Some(reason.clone()), Vec::new()),
        Some(JobEnd::Escalated { reason }) => ("escalated", Some(reason.clone()), Vec::new()),
        Some(JobEnd::Unserved { why, .. }) => ("unserved", Some(why.clone()), Vec::new()),
        Some(JobEnd::SetupFailed { failure }) => ("setup_failed", Some(failure.to_string()), Vec::new()),
        Some(JobEnd::Died { .. }) => ("died", Some("the worker ended without a result".to_string()), Vec::new()),
        Some(JobEnd::Cancelled) => ("cancelled", None, Vec::new()),
    };
    AttemptView {
        attempt: record.attempt.0,
        worker: record.worker.0,
        started_at: Stamp(record.started_at),
        ended_at: ended_at.map(Stamp),
        elapsed: run.attempt_elapsed(record),
        outcome,
        cause: match report.as_ref().map(|report| &report.end) {
            Some(JobEnd::Failed { cause, .. }) => Some(*cause),
            _ => None,
        },
        fix: record.fix,
        detail,
        strays,
        warnings: report.as_ref().map(|report| report.warnings.clone()).unwrap_or_default(),
        wip: report.as_ref().and_then(|report| report.wip.clone()),
        agent: report.as_ref().and_then(|report| report.agent.clone()),
        model: report.as_ref().and_then(|report| report.model.clone()),
        verification: report.as_ref().and_then(|report| report.verification_ms).map(Duration::from_millis),
        cost: report.as_ref().map(JobReport::cost).unwrap_or_default(),
    }
}

fn is_running(run: &Run, task: &TaskId, record: &AttemptRecord) -> bool {
    let is_it =
        |effect: &Effect| matches!(effect, Effect::RunJob(job) if job.task == *task && job.attempt == record.attempt);
    run.outstanding().any(|(_, effect)| is_it(effect))
}

fn workers_of(run: &Run) -> Vec<WorkerView> {
    let retiring: Vec<WorkerId> = run.retiring().collect();
    let above = |index: usize| run.scaled().is_some_and(|limit| index >= limit as usize);
    let view = |(index, worker): (usize, &WorkerStatus)| {
        let (status, task) = match worker {
            WorkerStatus::Running { task, .. } => ("running", Some(task.clone())),
            WorkerStatus::Stopped => ("stopped", None),
            _ if above(index) || run.ended().is_some() => ("stopped", None),
            _ => ("idle", None),
        };
        let pid = task.as_ref().and_then(|task| run.task(task)?.attempts.last()?.pid);
        let branch = format!("mahabharatha/{}/worker-{index}", run.feature());
        let retiring = retiring.contains(&WorkerId(index as u32));
        WorkerView { id: index as u32, status, task, pid, branch, retiring }
    };
    run.workers().iter().enumerate().map(view).collect()
}

fn breaker_of(run: &Run) -> Option<String> {
    match run.breaker() {
        Breaker::Closed { .. } => None,
        Breaker::Open { .. } => {
            Some("open: workers die as soon as they start; launching again after a pause".to_string())
        }
        Breaker::HalfOpen { .. } => Some("half open: one worker is tried".to_string()),
    }
}

fn pause_of(run: &Run) -> Option<PauseView> {
    let pause = run.service_pause().filter(|_| run.ended().is_none())?;
    Some(PauseView { until: Stamp(pause.until), why: pause.why.clone() })
}

/// Returns the user's notes, then the decisions of the attempts that led to completed tasks. Redoing a task replaces the
/// decisions of its agents.
pub fn decisions_of(run: &Run) -> Vec<Decision> {
    let noted = run
        .notes()
        .iter()
        .filter(|note| note.from.is_none())
        .map(|note| (&note.task, format!("the user says: {}", note.text)));
    let effective = effective_of(run, |report| &report.decisions);
    let all = noted.chain(effective.into_iter().map(|(task, text)| (task, text.clone())));
    all.map(|(task, text)| Decision { task: task.clone(), text }).collect()
}

fn suppressed_secrets_of(run: &Run) -> Vec<SuppressedSecret> {
    let effective = effective_of(run, |report| &report.suppressed_secrets);
    let own = |(task, suppression): (&TaskId, &Suppression)| SuppressedSecret {
        task: task.clone(),
        suppression: suppression.clone(),
    };
    effective.into_iter().map(own).collect()
}

/// Returns a part of the reports of the attempts that led to completed tasks, each with its task.
fn effective_of<T>(run: &Run, part: impl Fn(&JobReport) -> &Vec<T>) -> Vec<(&TaskId, &T)> {
    let mut all = Vec::new();
    for (task, state) in run.graph().tasks().iter().zip(run.tasks()) {
        if !matches!(state.status, TaskStatus::Completed { .. }) {
            continue;
        }
        let (mut since, mut effective) = (Vec::new(), Vec::new());
        for record in &state.attempts {
            let Some((_, report)) = &record.ended else { continue };
            since.extend(part(report));
            match report.end {
                JobEnd::Done { .. } if record.fix => effective.append(&mut since),
                JobEnd::Done { .. } => effective = std::mem::take(&mut since),
                _ => {}
            }
        }
        all.extend(effective.into_iter().map(|item| (&task.id, item)));
    }
    all
}
