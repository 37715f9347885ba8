//! A run as the screen and the page show it.

use std::collections::BTreeMap;
use std::time::Duration;

use mahabharatha_core::ids::Time;
use mahabharatha_core::view::{Blocker, LevelView, RunView, TaskView};
use mahabharatha_engine::report::gate_runs::GateRunView;
use mahabharatha_engine::report::running_gate::GateProgress;
use mahabharatha_engine::report::status::Doing;
use mahabharatha_engine::report::text::{attempt_took, worked};

#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    pub view: RunView,
    /// What workers do now.
    pub doing: BTreeMap<u32, Doing>,
    /// The gate that runs now.
    pub gate: Option<GateProgress>,
    pub gates: Vec<GateRunView>,
    /// Whether a process or a session drives the run.
    pub driven: bool,
    index_by_id: BTreeMap<String, usize>,
}

impl Data {
    pub fn new(view: RunView, driven: bool) -> Data {
        let index_by_id = view.tasks.iter().enumerate().map(|(index, task)| (task.id.to_string(), index)).collect();
        Data { view, doing: BTreeMap::new(), gate: None, gates: Vec::new(), driven, index_by_id }
    }

    pub fn task(&self, id: &str) -> Option<&TaskView> {
        self.index_by_id.get(id).map(|&index| &self.view.tasks[index])
    }

    /// Returns what the worker of a running task does.
    pub fn doing(&self, task: &TaskView) -> Option<&Doing> {
        self.doing.get(&task.running()?.worker)
    }

    /// Tells whether there has been a run; before the first one, the tasks are those of the design.
    pub fn has_begun(&self) -> bool {
        self.view.seq > 0
    }

    /// Tells whether `run` would start the first run or continue the last one.
    pub fn can_run(&self) -> bool {
        !self.driven && !self.view.tasks.is_empty() && !matches!(self.view.status, "completed" | "undone")
    }

    pub fn elapsed(&self, now: Time) -> Duration {
        if self.driven { self.view.elapsed_by(now) } else { self.view.elapsed }
    }

    /// Returns the time of the current attempt while it runs, else of all attempts.
    pub fn time_of(&self, task: &TaskView, now: Time) -> Option<Duration> {
        let latest = task.attempts.last()?;
        let now = if self.driven { now } else { self.view.updated_at.0 };
        Some(match latest.outcome {
            "running" => attempt_took(&self.view, latest, now),
            _ => worked(&self.view, task, now),
        })
    }

    /// Returns the problem of a task.
    pub fn problem_of(&self, task: &TaskView) -> Option<&Blocker> {
        self.view.blockers.iter().find(|blocker| blocker.task.as_ref() == Some(&task.id))
    }

    pub fn running_workers(&self) -> usize {
        self.view.workers.iter().filter(|worker| worker.status == "running").count()
    }

    /// Returns the tasks that a task waits for.
    pub fn open_dependencies<'a>(&'a self, task: &'a TaskView) -> impl Iterator<Item = &'a str> {
        let is_open = |id: &&str| self.task(id).is_some_and(|task| !matches!(task.status, "completed" | "skipped"));
        task.dependencies.iter().map(|id| id.as_str()).filter(is_open)
    }
}

/// Returns how many tasks of these levels are completed, and of how many: skipped ones do not count.
pub fn progress(levels: &[LevelView]) -> (usize, usize) {
    levels.iter().fold((0, 0), |(done, all), level| (done + level.completed, all + level.total - level.skipped))
}
