//! What happened. The journal is a list of these, and a run is what they add up to.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::EffectId;
use crate::cost::Cost;
use crate::ids::{Attempt, Feature, Level, Oid, TaskId, Time, WorkerId};
use crate::spec::GraphFile;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Started(Box<Setup>),
    /// A process took the run over, with the policy that holds from now on.
    Resumed {
        policy: Policy,
        intent: Intent,
        /// What planning the feature has cost so far.
        #[serde(default)]
        planning: Cost,
    },
    /// The graph was changed in tasks that had not been completed (see `Run::cannot_replan`); a `Resumed` follows.
    Replanned {
        graph: Box<GraphFile>,
    },
    /// The gates ran on the base; these were red.
    BaseChecked {
        /// The effect that it answers; older journals do not tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<EffectId>,
        red: Vec<GateFailure>,
    },
    SlotReady {
        worker: WorkerId,
    },
    JobStarted {
        task: TaskId,
        attempt: Attempt,
        pid: u32,
    },
    JobEnded {
        task: TaskId,
        attempt: Attempt,
        report: JobReport,
    },
    /// The level's task commits stand on staging, one after the other.
    Staged {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<EffectId>,
        level: Level,
        staging: Oid,
        commits: Vec<TaskCommit>,
    },
    GatesPassed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<EffectId>,
        level: Level,
        candidate: Candidate,
        passed: Vec<GatePass>,
    },
    GateFailed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<EffectId>,
        level: Level,
        failure: GateFailure,
        passed: Vec<GatePass>,
    },
    /// Who made a gate fail, where that could be told.
    Blamed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<EffectId>,
        level: Level,
        task: Option<TaskId>,
        why: String,
    },
    Landed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<EffectId>,
        level: Level,
        commit: Oid,
    },
    NotLanded {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<EffectId>,
        level: Level,
        obstacle: Obstacle,
    },
    /// Something that a person should know; nothing depends on it.
    Noted {
        /// None: it is of no level.
        level: Option<Level>,
        note: Note,
    },
    /// The checklist held, the report is written, what was ours is cleared away.
    Closed,
    /// Somebody asked from another terminal, or by a signal.
    Asked {
        request: RequestId,
        command: Command,
    },
    /// An effect was called off by an `Interrupt`.
    Interrupted {
        effect: EffectId,
    },
    /// An effect could not be carried out at all.
    EffectFailed {
        effect: EffectId,
        error: String,
    },
    /// The disk is full: nothing can go on before a person has made room. What failed of it is told as called off.
    OutOfSpace {
        why: String,
    },
    /// The time that `next_wakeup` named has come.
    Woke,
}

impl Event {
    /// Says which effect it answers, where that is not plain from what it tells.
    pub fn answering(mut self, id: EffectId) -> Event {
        if let Event::BaseChecked { effect, .. }
        | Event::Staged { effect, .. }
        | Event::GatesPassed { effect, .. }
        | Event::GateFailed { effect, .. }
        | Event::Blamed { effect, .. }
        | Event::Landed { effect, .. }
        | Event::NotLanded { effect, .. } = &mut self
        {
            *effect = Some(id);
        }
        self
    }

    /// The effect that it says to answer.
    pub fn answers(&self) -> Option<EffectId> {
        match self {
            Event::BaseChecked { effect, .. }
            | Event::Staged { effect, .. }
            | Event::GatesPassed { effect, .. }
            | Event::GateFailed { effect, .. }
            | Event::Blamed { effect, .. }
            | Event::Landed { effect, .. }
            | Event::NotLanded { effect, .. } => *effect,
            _ => None,
        }
    }

    /// Whether the level's next effect follows at once, so that no other feature may land in between.
    pub fn goes_on_integrating(&self) -> bool {
        match self {
            Event::Staged { .. } | Event::GatesPassed { .. } => true,
            Event::NotLanded { obstacle, .. } => *obstacle == Obstacle::BaseMoved,
            Event::GateFailed { failure, .. } => failure.task.is_none(),
            _ => false,
        }
    }
}

/// Everything that a run is about, so that a replay needs nothing but the journal.
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
    /// What planning the feature has cost before the run.
    #[serde(default)]
    pub planning: Cost,
}

/// More than anybody can ask for.
const MAX_WORKERS: u32 = 10_000;

/// What the configuration and the command line decide about a run.
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
    /// What all attempts at one task may cost together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_usd_per_task: Option<f64>,
    /// Levels stay on the staging branch, and the base branch as it is.
    #[serde(default)]
    pub onto_staging: bool,
    /// Whether a time that the agents' service named to an earlier process is waited for. Processes that did not, left
    /// journals that do not tell.
    #[serde(default)]
    pub heeds_limits: bool,
}

/// What all attempts at one task may cost together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TaskBudget {
    pub max_usd: Option<f64>,
}

impl Policy {
    /// A journal that was tampered with must not make us take all memory.
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

/// How far a process means to take the run.
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

    /// The level at which to stop.
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
    /// Work that was not verified, kept under the wip ref.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wip: Option<Oid>,
    /// How long the worker lived.
    pub ran_ms: u64,
    /// `None` where it was not measured.
    pub cost_usd: Option<f64>,
    #[serde(default)]
    pub tokens: u64,
    /// What a person should know though nothing failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What the agent decided and later tasks should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,
}

impl JobReport {
    /// A report of an attempt of which nothing more is known, not even its cost.
    pub fn new(end: JobEnd, ran_ms: u64) -> JobReport {
        JobReport { end, wip: None, ran_ms, cost_usd: None, tokens: 0, warnings: Vec::new(), decisions: Vec::new() }
    }

    pub fn cost(&self) -> Cost {
        Cost::of(self.cost_usd, self.tokens)
    }

    pub fn with_cost(self, cost: Cost) -> JobReport {
        JobReport { cost_usd: cost.usd(), tokens: cost.tokens(), ..self }
    }

    /// Of an attempt that was called off before anything is known of it.
    pub fn interrupted() -> JobReport {
        JobReport::new(JobEnd::Interrupted, 0)
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
        #[serde(default)]
        strays: Vec<String>,
    },
    /// The agent stopped in good order; a fresh one goes on from the note.
    Checkpoint {
        note: String,
    },
    /// The agent says that it cannot be done, or that a person must decide.
    Blocked {
        reason: String,
    },
    Escalated {
        reason: String,
    },
    /// The service behind the agent did not serve: a limit was reached, it was overloaded or out of reach. The attempt is
    /// made again without having used up a retry.
    Unserved {
        why: String,
        /// When it says that it will serve again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
    },
    /// The worker ended without a result.
    Died {
        started: bool,
    },
    /// Called off; its work is kept.
    Interrupted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailCause {
    /// The agent itself failed.
    Agent,
    /// It changed what it does not own.
    Strays,
    /// A file that it should have made is not there.
    Missing,
    /// It was to mend something and changed nothing.
    Unchanged,
    Verification,
    Timeout,
    /// No output and no change for too long.
    Stalled,
    /// The worktree could not be made ready.
    Setup,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCommit {
    pub task: TaskId,
    pub commit: Oid,
}

/// A tree that passed every gate, and what it is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The tip of the base branch that the tree contains.
    pub base: Oid,
    pub staging: Oid,
    pub tree: Oid,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GatePass {
    pub command: String,
    pub tree: Oid,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateFailure {
    pub gate: String,
    pub command: String,
    /// Bounded, as it goes into a prompt.
    pub output: String,
    /// The staging tip that the gate failed on.
    pub staging: Oid,
    /// Known from the start where a task's own verification failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
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
    /// A gate failed that is only reported: it is not required, or was red on the base already.
    OnlyReported { failure: GateFailure },
    /// What a person did on staging was in the way; it is kept under this ref.
    StagingKept { name: String },
    /// Commits that the run did not put onto the branch and that land with the level: a person's, as far as can be told.
    Gained { branch: String, commits: Vec<String> },
    /// A ref of the run's own was changed by somebody else; it is as it was.
    RefPutBack { name: String },
    /// The journal was changed by somebody else; it is as it was, and what was found is kept in this file.
    JournalPutBack { aside: String },
}

/// Why a level that passed its gates is not on the base branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "obstacle", rename_all = "snake_case")]
pub enum Obstacle {
    /// The base went forward; it must be merged in and gated again.
    BaseMoved,
    /// The base no longer contains what was last seen on it.
    BaseRewritten { was: Oid, now: Option<Oid> },
    /// A person's commits touch the same lines; the conflict stands in the staging worktree.
    Conflict { files: Vec<String>, worktree: String },
    /// The base went forward, but not through its checkout, whose files and index are still as they were.
    CheckoutLeftBehind { branch: String, worktree: String, was: Oid, now: Oid },
    /// The checkout of the base branch has changes in the way.
    CheckoutInTheWay { files: Vec<String>, worktree: String, why: String },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::BaseMoved => f.write_str("the base branch kept moving while the gates ran"),
            Obstacle::BaseRewritten { was, now: None } => {
                write!(f, "the base branch is gone; it stood at {}", was.short())
            }
            Obstacle::BaseRewritten { was, now: Some(_) } => {
                write!(f, "the base branch was rewritten: it no longer contains {}", was.short())
            }
            Obstacle::CheckoutLeftBehind { branch, worktree, was, now } => write!(
                f,
                "{branch} was moved to {} by nothing that was done in its checkout at {worktree}, which is still at {}",
                now.short(),
                was.short()
            ),
            Obstacle::Conflict { files, .. } => write!(f, "conflict in {}", files.join(", ")),
            Obstacle::CheckoutInTheWay { files, worktree, why } => {
                write!(f, "the checkout at {worktree} is in the way: {why}")?;
                if files.is_empty() { Ok(()) } else { write!(f, " ({})", files.join(", ")) }
            }
        }
    }
}

/// Tells a request from any other, also after a crash.
pub type RequestId = String;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    Stop {
        force: bool,
        grace_ms: u64,
        #[serde(default)]
        worker: Option<WorkerId>,
    },
    /// Empty: every blocked task.
    Retry {
        tasks: Vec<TaskId>,
        /// The budget of each task as the configuration has it now; none: as before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<TaskBudget>,
    },
    Skip {
        tasks: Vec<TaskId>,
        reason: String,
        keep_dependents: bool,
    },
    /// A session wants to do these tasks itself.
    Claim {
        tasks: Vec<TaskId>,
        session: String,
    },
    /// How a session's attempt ended.
    Finish {
        task: TaskId,
        attempt: Attempt,
        report: Box<JobReport>,
    },
    /// Somebody says that the task is done, though nobody is known to be at it.
    Adopt {
        task: TaskId,
    },
}
