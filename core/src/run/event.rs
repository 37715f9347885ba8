//! Events. The journal is a list of them, and a run is rebuilt from it.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use super::accepted::Accepted;
use super::effect::EffectId;
use crate::cost::Cost;
use crate::excerpt::few;
use crate::ids::{Attempt, Feature, Level, Oid, TaskId, Time, WorkerId};
use crate::isolation::Isolation;
use crate::secrets::Suppression;
use crate::spec::GraphFile;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Started(Box<Setup>),
    /// A process took over the run, with a new policy.
    Resumed {
        policy: Policy,
        intent: Intent,
        /// Cost of planning the feature so far.
        planning: Cost,
    },
    /// The graph was changed in tasks that had not been completed (see `Run::cannot_replan`); a `Resumed` follows.
    Replanned {
        graph: Box<GraphFile>,
    },
    /// The gates ran on the base; `red` are those that failed.
    BaseChecked {
        effect: EffectId,
        red: Vec<GateFailure>,
    },
    SlotReady {
        effect: EffectId,
        worker: WorkerId,
    },
    JobStarted {
        effect: EffectId,
        task: TaskId,
        attempt: Attempt,
        pid: u32,
    },
    JobEnded {
        effect: EffectId,
        task: TaskId,
        attempt: Attempt,
        report: JobReport,
    },
    /// The level's task commits are on staging, one after the other.
    Staged {
        effect: EffectId,
        level: Level,
        staging: Oid,
        commits: Vec<TaskCommit>,
    },
    GatesPassed {
        effect: EffectId,
        level: Level,
        candidate: Candidate,
        passed: Vec<GatePass>,
    },
    GateFailed {
        effect: EffectId,
        level: Level,
        failure: GateFailure,
        passed: Vec<GatePass>,
    },
    /// The task that made a gate fail, if it could be found.
    Blamed {
        effect: EffectId,
        level: Level,
        task: Option<TaskId>,
        why: String,
    },
    Landed {
        effect: EffectId,
        level: Level,
        commit: Oid,
    },
    NotLanded {
        effect: EffectId,
        level: Level,
        obstacle: Obstacle,
    },
    /// A note for the user; nothing depends on it.
    Noted {
        /// None if it is about no level.
        level: Option<Level>,
        note: Note,
    },
    /// The result was checked, the report written, worktrees and refs removed.
    Closed {
        effect: EffectId,
    },
    /// Every merged level was reverted on the base branch, whose tip was this commit then. The run has ended for good.
    Undone {
        commit: Oid,
    },
    /// A command came from another terminal or by a signal.
    Asked {
        request: RequestId,
        command: Command,
    },
    /// An effect was cancelled.
    Cancelled {
        effect: EffectId,
    },
    /// An effect could not be carried out at all.
    EffectFailed {
        effect: EffectId,
        error: String,
    },
    /// The disk is full, so the run pauses. The effects that failed by it are answered with `Cancelled`.
    OutOfSpace {
        why: String,
    },
    /// The time of `next_wakeup` has come.
    Woke,
}

impl Event {
    /// Returns the effect that it answers. Each effect gets one answer.
    pub fn answers(&self) -> Option<EffectId> {
        match self {
            Event::BaseChecked { effect, .. }
            | Event::SlotReady { effect, .. }
            | Event::JobEnded { effect, .. }
            | Event::Staged { effect, .. }
            | Event::GatesPassed { effect, .. }
            | Event::GateFailed { effect, .. }
            | Event::Blamed { effect, .. }
            | Event::Landed { effect, .. }
            | Event::NotLanded { effect, .. }
            | Event::Closed { effect }
            | Event::Cancelled { effect }
            | Event::EffectFailed { effect, .. } => Some(*effect),
            Event::Started(_)
            | Event::Resumed { .. }
            | Event::Replanned { .. }
            | Event::JobStarted { .. }
            | Event::Noted { .. }
            | Event::Undone { .. }
            | Event::Asked { .. }
            | Event::OutOfSpace { .. }
            | Event::Woke => None,
        }
    }
}

/// Everything that defines a run, so that a replay needs only the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    pub feature: Feature,
    pub graph: GraphFile,
    /// The full ref name of the branch that levels land on.
    pub base_branch: String,
    pub start: Oid,
    pub mode: String,
    /// Git settings that were in effect before the first launch and stay in effect (filters, line ends).
    pub git_config: Vec<(String, String)>,
    pub policy: Policy,
    /// Cost of planning the feature before the run.
    pub planning: Cost,
}

/// Limit on the number of workers.
const MAX_WORKERS: u32 = 10_000;

/// Settings of a run from the configuration and the command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    pub workers: u32,
    pub max_attempts: u32,
    pub backoff: Backoff,
    pub remediation_attempts: u32,
    /// Whether anything must be checked on the base before the first launch.
    pub has_gates: bool,
    pub allow_red_base: bool,
    pub max_usd: Option<f64>,
    /// Limit on the cost of all attempts at one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_usd_per_task: Option<f64>,
    /// Whether levels land on the staging branch instead of the base branch.
    pub onto_staging: bool,
    pub clean_gates: CleanGates,
    /// Whether to wait until an API limit resets that an earlier process met.
    pub heeds_limits: bool,
    /// Settings that decide what is executed and believed; a change needs the user's consent (`Run::unaccepted`).
    pub accepted: Accepted,
    /// Who grants files that an agent asks for.
    #[serde(default)]
    pub amend: Amend,
    /// The sandbox in which agents, verifications and gates run.
    #[serde(default)]
    pub isolation: Isolation,
    /// Whether a user must approve each level before it lands.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval: bool,
    /// When a task may start.
    #[serde(default)]
    pub schedule: Schedule,
}

/// When a task may start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// When the level below its own is merged.
    #[default]
    Levels,
    /// When the tasks that it depends on are completed.
    Dependencies,
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Schedule::Levels => "levels",
            Schedule::Dependencies => "dependencies",
        })
    }
}

/// Limit on the cost of all attempts at one task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TaskBudget {
    pub max_usd: Option<f64>,
}

impl Policy {
    /// Returns the number of workers, limited in case the journal was tampered with.
    pub(super) fn worker_count(&self) -> usize {
        self.workers.min(MAX_WORKERS) as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Backoff {
    pub strategy: BackoffStrategy,
    pub base_ms: u64,
    pub max_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackoffStrategy {
    Exponential,
    Linear,
    Fixed,
}

/// Levels whose gates and verifications run in a clean checkout, without ignored files that earlier commands left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleanGates {
    Last,
    Every,
    Never,
}

/// Who grants files that a task does not own and its agent asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amend {
    /// The user.
    #[default]
    Ask,
    /// The run, if no task owns them.
    Auto,
}

/// How far a process drives the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// To the end.
    Complete,
    /// Until this level is merged.
    Level(Level),
    /// No launches: merge this level, which is complete.
    Merge(Level),
    /// No launches: a session claims the tasks, and says which level is to be merged now.
    Session(Option<Level>),
}

impl Intent {
    pub(super) fn launches(self) -> bool {
        matches!(self, Intent::Complete | Intent::Level(_))
    }

    pub fn is_session(self) -> bool {
        matches!(self, Intent::Session(_))
    }

    /// Returns the level after which to stop.
    pub(super) fn goal(self) -> Option<Level> {
        match self {
            Intent::Complete | Intent::Session(None) => None,
            Intent::Level(goal) | Intent::Merge(goal) | Intent::Session(Some(goal)) => Some(goal),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    pub end: JobEnd,
    /// Unverified work, saved under the wip ref.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wip: Option<Oid>,
    /// Lifetime of the worker.
    pub ran_ms: u64,
    /// Time that the verification which passed took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_ms: Option<u64>,
    /// None if it was not measured.
    pub cost_usd: Option<f64>,
    pub tokens: u64,
    /// The agent that made the attempt, by its name in the configuration; none if it was a session or a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model that the agent was asked to use; none for its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the worker knows of the reason, beyond what `end` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Warnings for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why the attempt may have failed, for the user. Never in a prompt: it may tell of files that agents cannot see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The agent's decisions that later tasks should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,
    /// What looks like a secret in the commit and was allowed with a reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suppressed_secrets: Vec<Suppression>,
}

impl JobReport {
    /// Makes a report of nothing but how the attempt ended.
    pub fn new(end: JobEnd, ran_ms: u64) -> JobReport {
        JobReport {
            end,
            wip: None,
            ran_ms,
            verification_ms: None,
            cost_usd: None,
            tokens: 0,
            agent: None,
            model: None,
            reason: None,
            warnings: Vec::new(),
            hint: None,
            decisions: Vec::new(),
            suppressed_secrets: Vec::new(),
        }
    }

    /// Adds the hint, if there is one, to what the user is told about the attempt.
    pub fn with_hint(&self, text: &str) -> String {
        self.hint.iter().fold(text.to_owned(), |text, hint| format!("{text}\n{hint}"))
    }

    pub fn cost(&self) -> Cost {
        Cost::of(self.cost_usd, self.tokens)
    }

    pub fn with_cost(self, cost: Cost) -> JobReport {
        JobReport { cost_usd: cost.usd(), tokens: cost.tokens(), ..self }
    }

    /// Makes the report of an attempt that was cancelled before anything is known of it.
    pub fn cancelled() -> JobReport {
        JobReport::new(JobEnd::Cancelled, 0)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum JobEnd {
    /// Inside its ownership, verified, committed.
    Done {
        commit: Oid,
    },
    /// `feedback` goes into the next attempt's prompt.
    Failed {
        cause: FailCause,
        feedback: String,
        strays: Vec<String>,
    },
    /// The agent stopped at a checkpoint; a new one continues from the note.
    Checkpoint {
        note: String,
    },
    /// The agent says that the task cannot be done.
    Blocked {
        reason: String,
    },
    Escalated {
        reason: String,
    },
    /// The agent's API was at its limit, overloaded or unreachable. The attempt is repeated and uses up no retry.
    Unserved {
        why: String,
        /// When the limit resets, if the API says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
    },
    /// The worktree could not be set up (`worktrees.setup`), so no agent was started. Uses up no retry and ends the run.
    SetupFailed {
        why: String,
    },
    /// The worker ended without a result.
    Died {
        started: bool,
    },
    /// Cancelled; its work is saved.
    Cancelled,
}

/// A reason that programs can tell from others without reading its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The agent stopped because the budget of its task is used up.
    TaskBudget,
    /// A limit of the API is reached.
    ApiLimit,
    /// The API refuses the agent's login or key.
    ApiAccess,
    /// The verification did not end in time.
    VerificationTimeout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailCause {
    /// The agent itself failed.
    Agent,
    /// It changed files that the task does not own.
    Strays,
    /// A file that the task must create is missing.
    Missing,
    /// A fix that changed nothing.
    Unchanged,
    Verification,
    /// It would commit what looks like a secret.
    Secrets,
    Timeout,
    /// No output and no change for too long.
    Stalled,
    /// The worktree could not be prepared.
    Setup,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCommit {
    pub task: TaskId,
    pub commit: Oid,
}

/// A tree that passed every gate, and its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Candidate {
    /// The tip of the base branch that the tree contains.
    pub base: Oid,
    pub staging: Oid,
    pub tree: Oid,
}

/// A gate or verification that passed on a tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GatePass {
    pub command: String,
    pub tree: Oid,
    /// The task that was verified, which the command sees; none for a gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Whether the checkout was clean when the gates began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clean: bool,
}

/// Name under which `worktrees.setup` is run and reported in staging, like a gate.
pub const SETUP: &str = "worktrees.setup";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateFailure {
    pub gate: String,
    pub command: String,
    /// Bounded, as it goes into a prompt.
    pub output: String,
    /// The likely cause, for the user. Never in a prompt: it may tell of files that agents cannot see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Whether that cause is what the sandbox denied the gate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
    /// The staging tip that the gate failed on.
    pub staging: Oid,
    /// The task whose own verification failed, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Whether the checkout was clean when the gates began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clean: bool,
}

impl GateFailure {
    /// Returns what the gate printed, and how it ended, which stands below that in brackets.
    pub fn output_and_end(&self) -> (&str, Option<&str>) {
        let output = self.output.trim_end();
        let (above, last) = output.rsplit_once('\n').unwrap_or(("", output));
        match last.starts_with('[') && last.ends_with(']') {
            true => (above.trim_end(), Some(last)),
            false => (output, None),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// A gate failed that is not required, or that already failed on the base.
    OnlyReported { failure: GateFailure },
    /// A user's work on staging was in the way; it is kept under this ref.
    StagingKept { name: String },
    /// Commits on the branch that the run did not make and that land with the level.
    Gained { branch: String, commits: Vec<String> },
    /// Lock files that `merge.prepare` made and that are not committed: symbolic links, and new ones that no task owns.
    LockFilesLeftOut { files: Vec<String> },
    /// Lock files that `merge.prepare` removed.
    LockFilesDeleted { files: Vec<String> },
    /// A ref of the run was changed from outside and is restored.
    RefPutBack { name: String },
    /// The journal was changed from outside and is restored; the changed one is kept in this file.
    JournalPutBack { aside: String },
}

/// Why a level could not land on the base branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "obstacle", rename_all = "snake_case")]
pub enum Obstacle {
    /// The base moved forward; it must be merged in and gated again.
    BaseMoved,
    /// The base no longer contains what was last seen on it.
    BaseRewritten { was: Oid, now: Option<Oid> },
    /// The base has conflicting commits; the conflict is in the staging worktree.
    Conflict { files: Vec<String>, worktree: String },
    /// The base moved forward, but the files and index of its checkout did not.
    CheckoutLeftBehind { branch: String, worktree: String, was: Oid, now: Oid },
    /// The checkout of the base branch has changes in the way.
    CheckoutInTheWay { files: Vec<String>, worktree: String, why: String },
    /// Files of these tasks changed on the base branch after the tasks had started, before the level below was merged.
    Outdated { tasks: Vec<TaskId> },
    /// The repository no longer has all objects of these tasks' commits.
    WorkLost { tasks: Vec<TaskId> },
    /// The repository no longer has all objects of the staged commit; it must be staged again.
    StagingLost,
    /// The contents of git objects of the level do not match their names.
    Forged { objects: Vec<String> },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::BaseMoved => f.write_str("the base branch kept moving while the gates ran"),
            Obstacle::BaseRewritten { was, now: None } => {
                write!(f, "the base branch is gone or has become a symbolic ref; it was at {}", was.short())
            }
            Obstacle::BaseRewritten { was, now: Some(_) } => {
                write!(f, "the base branch was rewritten: it no longer contains {}", was.short())
            }
            Obstacle::CheckoutLeftBehind { branch, worktree, was, now } => write!(
                f,
                "{branch} was moved to {}, but its checkout at {worktree} is still at {}",
                now.short(),
                was.short()
            ),
            Obstacle::Conflict { files, .. } => write!(f, "conflict in {}", files.join(", ")),
            Obstacle::CheckoutInTheWay { files, worktree, why } => {
                write!(f, "the checkout at {worktree} is in the way: {why}")?;
                if files.is_empty() { Ok(()) } else { write!(f, " ({})", files.join(", ")) }
            }
            Obstacle::Outdated { tasks } => {
                write!(f, "files of {} have changed on the base branch since it started", names(tasks))
            }
            Obstacle::WorkLost { tasks } => {
                write!(f, "the repository has lost the work of {}: objects of its commits are missing", names(tasks))
            }
            Obstacle::StagingLost => f.write_str("the repository has lost what was staged: objects are missing"),
            Obstacle::Forged { objects } => write!(
                f,
                "the contents of git objects do not match their names, so the level does not land: {}",
                few(objects)
            ),
        }
    }
}

fn names(tasks: &[TaskId]) -> String {
    tasks.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ")
}

/// Identifies a request, even after a crash.
pub type RequestId = String;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    Stop {
        force: bool,
        grace_ms: u64,
        worker: Option<WorkerId>,
    },
    /// Retries these tasks, or every blocked one if there are none.
    Retry {
        tasks: Vec<TaskId>,
        /// New budget of each task; none keeps the old one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<TaskBudget>,
        /// What the user tells every later attempt at each of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Grants a task paths that it does not own.
    Grant {
        task: TaskId,
        paths: Vec<String>,
    },
    Skip {
        tasks: Vec<TaskId>,
        reason: String,
        keep_dependents: bool,
    },
    /// A session claims these tasks.
    Claim {
        tasks: Vec<TaskId>,
        session: String,
    },
    /// A session's attempt ended.
    Finish {
        effect: EffectId,
        task: TaskId,
        attempt: Attempt,
        report: Box<JobReport>,
    },
    /// A user reports a task as done that no worker runs.
    Adopt {
        task: TaskId,
    },
    /// Sets the number of workers until the run is completed.
    Scale {
        workers: u32,
    },
    /// Launches and integrates nothing until `Resume`; what is under way goes on.
    Pause,
    Resume,
    /// A user approves a level with this tree.
    Approve {
        level: Level,
        tree: Oid,
    },
}
