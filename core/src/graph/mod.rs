//! The checked graph: exclusive ownership, dependencies, levels.

mod check;
mod claims;
mod dependencies;
mod fields;
mod reads;
mod report;
mod trace;
mod tree;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{Feature, Level, TaskId};
use crate::spec::path::ancestors;
use crate::spec::{GraphFile, TaskSpec};

pub use report::{Problem, Severity};
pub use trace::{Served, spell_out, trace};
pub use tree::{EntryKind, StartTree};

/// A graph that holds what it promises: ids are unique, dependencies lie on lower levels, no file has two owners.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskGraph {
    pub feature: Feature,
    tasks: Vec<Task>,
    by_id: BTreeMap<TaskId, usize>,
    by_path: BTreeMap<String, Owner>,
    /// For each task those that name it as a dependency.
    needed_by: Vec<Vec<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Owner {
    task: usize,
    directory: bool,
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
    /// Whether both own some path.
    pub fn overlaps(&self, other: &OwnedPath) -> bool {
        self.path == other.path || self.covers(&other.path) || other.covers(&self.path)
    }

    pub fn covers(&self, path: &str) -> bool {
        match path.strip_prefix(&self.path) {
            Some("") => !self.directory,
            Some(rest) => self.directory && rest.starts_with('/'),
            None => false,
        }
    }
}

impl TaskGraph {
    /// Every problem in one pass. Warnings come with a graph, errors without.
    /// With no `start`, what depends on the repository is not checked (a resumed run, whose own work stands there).
    pub fn check(file: &GraphFile, start: Option<&StartTree>) -> (Option<TaskGraph>, Vec<Problem>) {
        check::check(file, start)
    }

    /// From parts that were found to fit together.
    fn assemble(feature: Feature, mut tasks: Vec<Task>) -> TaskGraph {
        tasks.sort_by_key(|task| task.level);
        let by_id: BTreeMap<TaskId, usize> =
            tasks.iter().enumerate().map(|(index, task)| (task.id.clone(), index)).collect();
        let mut by_path = BTreeMap::new();
        let mut needed_by = vec![Vec::new(); tasks.len()];
        for (index, task) in tasks.iter().enumerate() {
            for owned in &task.owned {
                by_path.insert(owned.path.clone(), Owner { task: index, directory: owned.directory });
            }
            for dependency in task.dependencies.iter().filter_map(|id| by_id.get(id)) {
                needed_by[*dependency].push(index);
            }
        }
        TaskGraph { feature, tasks, by_id, by_path, needed_by }
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
        let as_file = self.by_path.get(path).filter(|owner| !owner.directory);
        let owner = as_file.or_else(|| {
            ancestors(path).filter_map(|directory| self.by_path.get(directory)).find(|owner| owner.directory)
        })?;
        Some(&self.tasks[owner.task])
    }

    /// Everything that needs this task, directly or not, in graph order.
    pub fn dependents(&self, id: &TaskId) -> Vec<TaskId> {
        let Some(start) = self.index(id) else { return Vec::new() };
        let mut found = vec![false; self.tasks.len()];
        let mut open = vec![start];
        while let Some(index) = open.pop() {
            for &next in &self.needed_by[index] {
                if !std::mem::replace(&mut found[next], true) {
                    open.push(next);
                }
            }
        }
        self.tasks.iter().zip(found).filter(|(_, found)| *found).map(|(task, _)| task.id.clone()).collect()
    }
}
