//! State of a level.

use crate::graph::TaskGraph;
use crate::ids::{Level, Oid, TaskId, Time};
use crate::run::effect::{Carry, EffectId};
use crate::run::event::{Candidate, GateFailure, Obstacle, TaskCommit};

use super::TaskState;

#[derive(Debug, Clone, PartialEq)]
pub struct LevelState {
    pub level: Level,
    /// Its range in the graph's tasks.
    pub tasks: std::ops::Range<usize>,
    /// Number of them that are neither completed nor skipped.
    pub open: usize,
    pub status: LevelStatus,
    /// The commit that its attempts start from.
    pub base: Option<Oid>,
    /// Tip of staging, with fixes on top.
    pub staging: Option<Oid>,
    pub commits: Vec<TaskCommit>,
    /// Commits of fixes, in order; dropped when their task is redone or skipped.
    pub fixes: Vec<TaskCommit>,
    /// Whether every task was verified again on the tree that passed the gates.
    pub verified: bool,
    /// The tree that a user approved.
    pub approved: Option<Oid>,
    pub fix_attempts: u32,
    pub base_moves: u32,
    pub staging_losses: u32,
    pub started_at: Option<Time>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum LevelStatus {
    Pending,
    Running,
    Staging,
    Gating,
    Blaming {
        failure: GateFailure,
    },
    /// A fix is due or under way.
    Fixing {
        failure: GateFailure,
        task: TaskId,
        carry: Carry,
        job: Option<EffectId>,
    },
    /// Passed its gates; lands when a user approves it.
    AwaitingApproval {
        candidate: Candidate,
    },
    Landing {
        candidate: Candidate,
    },
    Merged {
        /// The level's own commit, or the one below if there was nothing to merge.
        commit: Oid,
        at: Time,
        landed: bool,
    },
    Failed {
        failure: LevelFailure,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum LevelFailure {
    Gate {
        failure: GateFailure,
        /// The task that is to blame, if one is.
        task: Option<TaskId>,
        why: String,
    },
    Obstacle(Obstacle),
}

/// Returns the levels of a graph with tasks in the given states.
pub(in crate::run) fn levels_of(graph: &TaskGraph, tasks: &[TaskState]) -> Vec<LevelState> {
    let mut levels: Vec<LevelState> = Vec::new();
    for (index, task) in graph.tasks().iter().enumerate() {
        if levels.last().is_none_or(|last| last.level != task.level) {
            levels.push(LevelState {
                level: task.level,
                tasks: index..index,
                open: 0,
                status: LevelStatus::Pending,
                base: None,
                staging: None,
                commits: Vec::new(),
                fixes: Vec::new(),
                verified: false,
                approved: None,
                fix_attempts: 0,
                base_moves: 0,
                staging_losses: 0,
                started_at: None,
            });
        }
        if let Some(level) = levels.last_mut() {
            level.tasks.end = index + 1;
            level.open += usize::from(tasks[index].is_open());
        }
    }
    levels
}

impl LevelState {
    /// Drops the fixes of a task that is redone or skipped, and has a level staged again that failed or is not approved yet.
    pub(in crate::run) fn without(&mut self, task: &TaskId) {
        self.fixes.retain(|fix| fix.task != *task);
        if matches!(self.status, LevelStatus::Failed { .. } | LevelStatus::AwaitingApproval { .. }) {
            self.run_again();
        }
    }

    /// Sets the level back to running, to be staged again.
    pub(in crate::run) fn run_again(&mut self) {
        self.status = LevelStatus::Running;
        self.staging = None;
        self.commits.clear();
    }
}

impl LevelStatus {
    /// Whether the level is being integrated, so that its tasks must not change.
    pub(in crate::run) fn is_integrating(&self) -> bool {
        matches!(
            self,
            LevelStatus::Staging
                | LevelStatus::Gating
                | LevelStatus::Blaming { .. }
                | LevelStatus::Fixing { .. }
                | LevelStatus::Landing { .. }
        )
    }
}
