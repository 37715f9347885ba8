//! Commands from other terminals, and by signals.

use serde::{Deserialize, Serialize};

use super::{JobReport, TaskBudget};
use crate::ids::{Attempt, Level, Oid, TaskId, WorkerId};
use crate::run::effect::EffectId;

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
