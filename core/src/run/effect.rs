//! Effects: the work that a run asks for. Each is repeatable under its id and answered by one event.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::event::{Candidate, Event, GateFailure, GatePass, Obstacle, RequestId, TaskCommit};
use super::notes::TaskNote;
use crate::ids::{Attempt, Level, Oid, TaskId, WorkerId};

/// Default time between asking agents to end and killing them.
pub const GRACE_PERIOD: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EffectId(pub u64);

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Run the gates on the base. → `BaseChecked`
    CheckBase { base: Oid },
    /// Make the worker's worktree. → `SlotReady`
    PrepareSlot { worker: WorkerId },
    /// One attempt at one task. → `JobStarted`, `JobEnded`
    RunJob(Job),
    /// Put the tasks' commits onto staging. → `Staged`, `NotLanded` (work that is lost or outdated)
    Stage { level: Level, base: Oid, tasks: Vec<TaskCommit> },
    /// Merge a moved base in, prepare, run what has not passed on that tree.
    /// → `GatesPassed`, `GateFailed`, `NotLanded` (a conflict, a base that was rewritten or left its checkout behind, staging
    /// lost)
    Gate {
        level: Level,
        base: Oid,
        staging: Oid,
        /// Earlier passes that count.
        passed: Vec<GatePass>,
        /// Tasks whose verification must pass on the tree that lands.
        verify: Vec<TaskId>,
        /// Whether to begin with a clean checkout.
        clean: bool,
        ignore: Vec<String>,
    },
    /// Find out which task made the gate fail. → `Blamed`
    Blame { level: Level, base: Oid, failure: GateFailure, commits: Vec<TaskCommit> },
    /// Move the base branch. → `Landed`, `NotLanded` (a base that moved or was rewritten, a checkout in the way, forged
    /// objects)
    Land { level: Level, candidate: Candidate },
    /// Check the result, write the report, clean up. → `Closed`
    Close,
    /// Cancel the effects under way; each of them is answered. This one is not.
    Cancel { force: bool, grace_ms: u64, only: Option<WorkerId> },
    /// Answer a request. Not answered itself.
    Answer { request: RequestId, answer: Answer },
}

impl Effect {
    /// Whether it is a job that a session holds, without a process of ours.
    pub fn is_held(&self) -> bool {
        matches!(self, Effect::RunJob(Job { performer: Performer::Session(_), .. }))
    }

    /// Whether an event will answer it.
    pub fn is_answered(&self) -> bool {
        !matches!(self, Effect::Cancel { .. } | Effect::Answer { .. })
    }

    /// Whether it uses staging or the base branch, so that no other feature may integrate meanwhile.
    pub fn is_integration(&self) -> bool {
        matches!(self, Effect::Stage { .. } | Effect::Gate { .. } | Effect::Blame { .. } | Effect::Land { .. })
    }

    /// Whether an event with this effect's id can be its answer.
    pub(super) fn accepts(&self, event: &Event) -> bool {
        match (event, self) {
            (Event::Cancelled { .. } | Event::EffectFailed { .. }, _) => true,
            (Event::BaseChecked { .. }, Effect::CheckBase { .. }) | (Event::Closed { .. }, Effect::Close) => true,
            (Event::SlotReady { worker, .. }, Effect::PrepareSlot { worker: of }) => worker == of,
            (Event::JobEnded { task, attempt, .. }, Effect::RunJob(job)) => {
                (task, attempt) == (&job.task, &job.attempt)
            }
            (Event::Staged { level, .. }, Effect::Stage { level: of, .. })
            | (Event::GatesPassed { level, .. } | Event::GateFailed { level, .. }, Effect::Gate { level: of, .. })
            | (Event::Blamed { level, .. }, Effect::Blame { level: of, .. })
            | (Event::Landed { level, .. }, Effect::Land { level: of, .. }) => level == of,
            (
                Event::NotLanded { level, obstacle, .. },
                Effect::Stage { level: of, .. } | Effect::Gate { level: of, .. } | Effect::Land { level: of, .. },
            ) => level == of && self.can_meet(obstacle),
            _ => false,
        }
    }

    fn can_meet(&self, obstacle: &Obstacle) -> bool {
        match obstacle {
            Obstacle::WorkLost { .. } | Obstacle::Outdated { .. } => matches!(self, Effect::Stage { .. }),
            Obstacle::StagingLost | Obstacle::Conflict { .. } | Obstacle::CheckoutLeftBehind { .. } => {
                matches!(self, Effect::Gate { .. })
            }
            Obstacle::BaseRewritten { .. } => matches!(self, Effect::Gate { .. } | Effect::Land { .. }),
            Obstacle::BaseMoved | Obstacle::CheckoutInTheWay { .. } | Obstacle::Forged { .. } => {
                matches!(self, Effect::Land { .. })
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The id of the effect that runs it, for the events that answer it.
    pub effect: EffectId,
    pub task: TaskId,
    pub attempt: Attempt,
    pub worker: WorkerId,
    /// The commit that the attempt starts from, below the work of `on`.
    pub base: Oid,
    /// Commits of the task's dependencies that are not merged yet, in the order in which they are put onto the base.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<TaskCommit>,
    pub purpose: Purpose,
    pub performer: Performer,
    /// Feedback, note and work in progress of earlier attempts.
    pub carry: Carry,
    /// Notes to the task, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<TaskNote>,
    /// Rest of the task's budget; none without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
}

/// Performer of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Performer {
    /// The agent of this name, in a worker of its own; empty for the one that the configuration names.
    Agent(String),
    /// The session that claimed the task; no process of ours runs.
    Session(String),
    /// A user reported the task as done: its changes are checked. If the check fails, the task is blocked again for
    /// this reason, or waits again where there is none.
    Reported { blocked: Option<String> },
}

impl Performer {
    pub fn is_agent(&self) -> bool {
        self.agent().is_some()
    }

    /// Returns the name of the agent.
    pub fn agent(&self) -> Option<&str> {
        match self {
            Performer::Agent(name) => Some(name),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "purpose", rename_all = "snake_case")]
pub enum Purpose {
    Build,
    /// Fix the cause of a failed gate, on top of staging.
    Fix {
        failure: GateFailure,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Carry {
    /// The output of the attempt that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// Note of the attempt that stopped at a checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Unverified work. After a checkpoint it is applied on top of the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wip: Option<Oid>,
}

/// Answer to a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub accepted: Vec<TaskId>,
    pub refused: Vec<Refusal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether the whole request was declined; the message says why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
}

impl Answer {
    pub(super) fn saying(message: impl Into<String>) -> Answer {
        Answer { message: Some(message.into()), ..Answer::default() }
    }

    pub(super) fn declining(message: impl Into<String>) -> Answer {
        Answer { declined: true, ..Answer::saying(message) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub task: TaskId,
    pub why: String,
}
