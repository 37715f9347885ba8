//! The checked graph: exclusive ownership, dependencies, levels.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{Feature, Level, TaskId};
use crate::spec::{GraphFile, TaskSpec};

/// A graph that holds what it promises: ids are unique, dependencies lie on lower levels, no file has two owners.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskGraph {
    pub feature: Feature,
    tasks: Vec<Task>,
    by_id: BTreeMap<TaskId, usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub id: TaskId,
    pub level: Level,
    pub dependencies: Vec<TaskId>,
    pub owned: Vec<OwnedPath>,
    pub spec: TaskSpec,
}

/// A path that one task alone may change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OwnedPath {
    /// Relative, normalised, with `/`, without a trailing one.
    pub path: String,
    /// Owns everything below as well.
    pub directory: bool,
    /// Listed under `create`: must not exist at the start, must exist afterwards.
    pub create: bool,
}

impl OwnedPath {
    pub fn covers(&self, path: &str) -> bool {
        match path.strip_prefix(&self.path) {
            Some("") => !self.directory,
            Some(rest) => self.directory && rest.starts_with('/'),
            None => false,
        }
    }
}

/// What stands in the commit that the run starts from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StartTree {
    /// Path → what it is. Directories are not listed; they are told by the paths below them.
    pub entries: BTreeMap<String, EntryKind>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Symlink { target: String },
    Submodule,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Stable, for programs.
    pub code: &'static str,
    pub severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}

impl TaskGraph {
    /// Every problem in one pass. Warnings come with a graph, errors without.
    /// With no `start`, what depends on the repository is not checked (a resumed run, whose own work stands there).
    pub fn check(file: &GraphFile, _start: Option<&StartTree>) -> (Option<TaskGraph>, Vec<Problem>) {
        let mut tasks = Vec::new();
        for spec in &file.tasks {
            let (Ok(id), Ok(dependencies)) = (
                TaskId::new(spec.id.clone()),
                spec.dependencies.iter().map(TaskId::new).collect::<Result<Vec<_>, _>>(),
            ) else {
                return (None, Vec::new());
            };
            tasks.push(Task { id, level: Level(spec.level), dependencies, owned: Vec::new(), spec: spec.clone() });
        }
        let Ok(feature) = Feature::new(file.feature.clone()) else { return (None, Vec::new()) };
        tasks.sort_by_key(|task| task.level);
        let by_id = tasks.iter().enumerate().map(|(index, task)| (task.id.clone(), index)).collect();
        (Some(TaskGraph { feature, tasks, by_id }), Vec::new())
    }

    /// By level, within a level as in the file.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.by_id.get(id).map(|&index| &self.tasks[index])
    }

    /// The place in `tasks()`.
    pub fn index(&self, id: &TaskId) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    /// The levels that have tasks, ascending.
    pub fn levels(&self) -> Vec<Level> {
        let mut levels: Vec<Level> = self.tasks.iter().map(|task| task.level).collect();
        levels.dedup();
        levels
    }

    /// Who may change this path.
    pub fn owner_of(&self, path: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.owned.iter().any(|owned| owned.covers(path)))
    }

    /// Everything that needs this task, directly or not, in graph order.
    pub fn dependents(&self, id: &TaskId) -> Vec<TaskId> {
        let mut found: Vec<TaskId> = Vec::new();
        for task in &self.tasks {
            if task.dependencies.iter().any(|dependency| dependency == id || found.contains(dependency)) {
                found.push(task.id.clone());
            }
        }
        found
    }
}
