//! Events. The journal is a list of them, and a run is rebuilt from it.

mod command;
mod level;
mod policy;
mod report;
mod setup;

use serde::{Deserialize, Serialize};

pub use super::accepted::Accepted;
use super::effect::EffectId;
use crate::cost::Cost;
use crate::ids::{Attempt, Feature, Level, Oid, TaskId, WorkerId};
use crate::spec::GraphFile;
pub use command::{Command, RequestId};
pub use level::{
    Candidate, GateFailure, GatePass, Note, Obstacle, PREPARE, SETUP, TaskCommit, VERIFICATION, verification_name,
};
pub use policy::{Amend, Backoff, BackoffStrategy, CleanGates, Intent, Policy, Schedule, TaskBudget};
pub use report::{FailCause, JobEnd, JobReport, Reason};
pub use setup::SetupFailure;

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
    /// Git settings that were in effect before the first launch and stay in effect (filters, line ends).
    pub git_config: Vec<(String, String)>,
    pub policy: Policy,
    /// Cost of planning the feature before the run.
    pub planning: Cost,
}
