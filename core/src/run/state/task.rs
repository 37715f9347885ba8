//! State of a task and its attempts.

use std::time::Duration;

use crate::ids::{Attempt, Oid, Time, WorkerId};
use crate::run::effect::{Carry, EffectId};
use crate::run::event::JobReport;

#[derive(Debug, Clone, PartialEq)]
pub struct TaskState {
    pub status: TaskStatus,
    pub attempts: Vec<AttemptRecord>,
    /// Failed attempts since the start or the last `retry`.
    pub failures: u32,
    pub checkpoints: u32,
    /// Jobs whose worker did not start.
    pub false_starts: u32,
    pub carry: Carry,
    /// The commit that its completed work was built on; none if work of other tasks that was not merged was part of that.
    pub(in crate::run) built_on: Option<Oid>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TaskStatus {
    /// Waits for its level, for what it depends on, or for a worker.
    Pending,
    /// Waits before the next attempt.
    Resting {
        until: Time,
    },
    InProgress {
        effect: EffectId,
        attempt: Attempt,
        worker: WorkerId,
    },
    /// Needs a user: a foreground task.
    Waiting,
    Completed {
        commit: Oid,
        at: Time,
    },
    Blocked {
        reason: String,
        at: Time,
        /// Whether the reason is that the task's budget is used up.
        over_budget: bool,
    },
    Skipped {
        reason: String,
        at: Time,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRecord {
    pub attempt: Attempt,
    pub worker: WorkerId,
    pub started_at: Time,
    pub pid: Option<u32>,
    pub fix: bool,
    /// The run's work time when it started.
    pub(in crate::run) started_work: Duration,
    /// The time that it took, once it has ended.
    pub(in crate::run) took: Duration,
    pub ended: Option<(Time, JobReport)>,
}

impl Default for TaskState {
    fn default() -> Self {
        TaskState {
            status: TaskStatus::Pending,
            attempts: Vec::new(),
            failures: 0,
            checkpoints: 0,
            false_starts: 0,
            carry: Carry::default(),
            built_on: None,
        }
    }
}

impl TaskState {
    /// Whether its level has to wait for it.
    pub fn is_open(&self) -> bool {
        !matches!(self.status, TaskStatus::Completed { .. } | TaskStatus::Skipped { .. })
    }

    pub(in crate::run) fn next_attempt(&self) -> Attempt {
        Attempt(self.attempts.last().map_or(1, |last| last.attempt.0 + 1))
    }
}
