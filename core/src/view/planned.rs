//! View of a feature that has not been run yet, for users and programs.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::spec::SpecView;
use super::{Blockers, LevelView, RunView, Stamp, TaskView};
use crate::cost::Cost;
use crate::graph::{Task, TaskGraph};
use crate::ids::Time;
use crate::isolation::Isolation;
use crate::run::event::Schedule;

/// What was written for a feature that has not been run.
#[derive(Debug, Clone, Copy)]
pub enum Draft<'a> {
    Nothing,
    /// Requirements, or a design that is not valid.
    Unfinished,
    Design(&'a TaskGraph),
}

/// Has the fields of a run's view that apply before a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlannedView {
    pub feature: String,
    /// `designed` if there is a valid task graph, `empty` if nothing was written yet, otherwise `planned`.
    pub status: &'static str,
    pub levels: Vec<LevelView>,
    pub tasks: Vec<TaskView>,
    #[serde(flatten)]
    pub cost: Cost,
    pub planning: Cost,
    #[serde(flatten)]
    pub blockers: Blockers,
}

impl PlannedView {
    pub fn of(feature: &str, draft: Draft<'_>, planning: Cost) -> PlannedView {
        let (status, tasks) = match draft {
            Draft::Nothing => ("empty", &[][..]),
            Draft::Unfinished => ("planned", &[][..]),
            Draft::Design(graph) => ("designed", graph.tasks()),
        };
        PlannedView {
            feature: feature.to_string(),
            status,
            levels: tasks.chunk_by(|one, next| one.level == next.level).map(pending_level).collect(),
            tasks: tasks.iter().map(pending_task).collect(),
            cost: planning,
            planning,
            blockers: Blockers::default(),
        }
    }

    /// Returns the feature as a run without events, for displays that show runs.
    pub fn into_run(self) -> RunView {
        let never = Stamp(Time(0));
        RunView {
            feature: self.feature,
            seq: 0,
            status: self.status,
            is_stopped: false,
            is_stopping: false,
            paused: false,
            mode: String::new(),
            sandbox: Isolation::default(),
            schedule: Schedule::default(),
            level: None,
            levels: self.levels,
            tasks: self.tasks,
            workers: Vec::new(),
            cost: self.cost,
            planning: self.planning,
            budget_usd: None,
            max_attempts: 0,
            blockers: self.blockers,
            base_branch: String::new(),
            landing_branch: String::new(),
            started_at: never,
            updated_at: never,
            ended_at: None,
            elapsed: Duration::ZERO,
            unconfirmed: Duration::ZERO,
            remaining: None,
            breaker: None,
            pause: None,
            decisions: Vec::new(),
            suppressed_secrets: Vec::new(),
        }
    }
}

fn pending_level(tasks: &[Task]) -> LevelView {
    LevelView {
        level: tasks[0].level,
        status: "pending",
        total: tasks.len(),
        completed: 0,
        blocked: 0,
        skipped: 0,
        commit: None,
        started_at: None,
        merged_at: None,
        awaits_approval: None,
        cost: Cost::default(),
    }
}

fn pending_task(task: &Task) -> TaskView {
    TaskView {
        id: task.id.clone(),
        title: task.spec.title.clone(),
        level: task.level,
        status: "pending",
        worker: None,
        session: None,
        attempt: 0,
        started_at: None,
        completed_at: None,
        commit: None,
        cost: Cost::default(),
        reason: None,
        question: None,
        needs: Vec::new(),
        granted: Vec::new(),
        next_attempt_at: None,
        strays: Vec::new(),
        dependencies: task.dependencies.clone(),
        spec: SpecView::of(task),
        attempts: Vec::new(),
    }
}
