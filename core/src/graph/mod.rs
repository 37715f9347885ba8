//! The validated task graph: ownership, dependencies, levels.
//!
//! Called by `engine/specs`, and by `run` when a graph is changed during a run. Must never let an unchecked graph
//! become a `TaskGraph`.

mod check;
mod claims;
mod dependencies;
mod disabled_checks;
mod fields;
mod grant;
mod index;
mod lists;
mod nested;
mod owned;
mod owners;
mod reads;
mod report;
mod trace;
mod tree;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use self::index::Index;
use self::lists::Lists;
use self::owned::OwnedIndex;
use crate::ids::{Feature, Level, TaskId};
use crate::spec::path::{ListedPath, folded};
use crate::spec::{GraphFile, Shared, TaskSpec};

pub use crate::severity::Severity;
pub use check::MAX_TIMEOUT_SECONDS;
pub use owners::Rules;
pub use report::Problem;
pub use trace::{TracedCriterion, spell_out, trace};
pub use tree::{EntryKind, StartTree};

/// A validated graph: ids are unique, dependencies are on lower levels, and of two owners of a path one depends on the
/// other.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskGraph {
    pub feature: Feature,
    tasks: Vec<Task>,
    by_id: Index,
    owned: OwnedIndex,
    /// For each task, the tasks that it depends on directly.
    needs: Lists,
    /// For each task, the tasks that depend on it directly.
    needed_by: Lists,
    /// For each task, the last one below it that owns one of its paths, too.
    owner_below: Vec<Option<usize>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub id: TaskId,
    pub level: Level,
    pub dependencies: Vec<TaskId>,
    pub owned: Vec<OwnedPath>,
    pub spec: Shared<TaskSpec>,
}

/// A path that a task may change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OwnedPath {
    /// Relative and normalized, separated by `/`, without a trailing one.
    pub path: String,
    /// Owns everything below it as well.
    pub directory: bool,
    /// Listed under `create`: must not exist before the task and must exist afterwards.
    pub create: bool,
}

impl OwnedPath {
    /// Reads a path as it is written in a graph; the error says what is wrong with it.
    pub fn read(text: &str) -> Result<OwnedPath, String> {
        match ListedPath::read(text) {
            Ok(ListedPath { path, directory }) => Ok(OwnedPath { path, directory, create: false }),
            Err(bad) => Err(format!("{} {}", report::shown(text), bad.why)),
        }
    }

    /// Returns true if one is the other or lies below it, where a file system ignores case and accents.
    pub fn touches(&self, other: &OwnedPath) -> bool {
        self.touches_folded(&folded(&other.path))
    }

    /// Does the same for a folded path. A graph has many paths, so those in ASCII are compared as they are.
    fn touches_folded(&self, other: &str) -> bool {
        let own = if self.path.is_ascii() { Cow::from(&self.path) } else { Cow::from(folded(&self.path)) };
        let (own, other) = (own.as_bytes(), other.as_bytes());
        let (shorter, longer) = if own.len() <= other.len() { (own, other) } else { (other, own) };
        let (start, rest) = longer.split_at(shorter.len());
        start.eq_ignore_ascii_case(shorter) && (rest.is_empty() || rest[0] == b'/')
    }

    /// Returns true if both own some path.
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
    /// Checks the whole file and returns every problem. With warnings only, there is a graph; with errors, there is
    /// none. Without `start`, nothing is checked against the repository (for a resumed run, whose own work is already
    /// there).
    pub fn check(file: &GraphFile, start: Option<&StartTree>, rules: Rules) -> (Option<TaskGraph>, Vec<Problem>) {
        check::check(file, start, rules)
    }

    /// Builds the graph from parts that passed every check, all of them in the order of the file.
    fn assemble(feature: Feature, mut tasks: Vec<Task>, needs: &Lists, ids: Index) -> TaskGraph {
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|&index| tasks[index].level);
        tasks.sort_by_key(|task| task.level);
        let mut position = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, &index)| position[index] = to);
        let mut moved = Lists::with_capacity(tasks.len());
        order.iter().for_each(|&index| moved.push(needs.get(index).iter().map(|&need| position[need])));
        TaskGraph {
            feature,
            by_id: ids.moved(&position),
            owned: OwnedIndex::new(&tasks),
            needed_by: moved.inverted(),
            needs: moved,
            owner_below: owners::owner_below(&tasks),
            tasks,
        }
    }

    /// Sorted by level; within a level, in the order of the file.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.index(id).map(|index| &self.tasks[index])
    }

    /// Returns the position in `tasks()`.
    pub fn index(&self, id: &TaskId) -> Option<usize> {
        self.by_id.find(id.as_str(), |task| self.tasks[task].id.as_str())
    }

    /// Returns the levels that have tasks, ascending.
    pub fn levels(&self) -> Vec<Level> {
        let mut levels: Vec<Level> = self.tasks.iter().map(|task| task.level).collect();
        levels.dedup();
        levels
    }

    /// Returns whether some task may change this path.
    pub fn is_owned(&self, path: &str) -> bool {
        self.owned.has(&self.tasks, path)
    }

    /// Returns the positions of the tasks that own this path, something above it or below it.
    pub fn owners_touching(&self, path: &OwnedPath) -> impl Iterator<Item = usize> + '_ {
        let path = folded(&path.path);
        let touches = move |task: &Task| task.owned.iter().any(|owned| owned.touches_folded(&path));
        self.tasks.iter().enumerate().filter(move |(_, task)| touches(task)).map(|(index, _)| index)
    }

    /// Returns the graph with more paths, each owned by the task at the position beside it.
    pub fn with_grants(mut self, grants: impl IntoIterator<Item = (usize, OwnedPath)>) -> TaskGraph {
        for (task, path) in grants {
            self.tasks[task].owned.push(path);
        }
        self.owned = OwnedIndex::new(&self.tasks);
        self.owner_below = owners::owner_below(&self.tasks);
        self
    }

    /// Returns the positions of the tasks that the one at this position depends on directly.
    pub fn needs(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        self.needs.get(task).iter().copied()
    }

    /// Returns the position of the last task below the one at this position that owns one of its paths, too.
    pub fn owner_below(&self, task: usize) -> Option<usize> {
        self.owner_below[task]
    }

    /// Returns the positions of the tasks that depend directly on the one at this position.
    pub fn needed_by(&self, task: usize) -> &[usize] {
        self.needed_by.get(task)
    }

    /// Returns all tasks that depend on this one, directly or not, in graph order.
    pub fn dependents(&self, id: &TaskId) -> Vec<TaskId> {
        let Some(start) = self.index(id) else { return Vec::new() };
        let mut found = vec![false; self.tasks.len()];
        let mut open = vec![start];
        while let Some(index) = open.pop() {
            for &next in self.needed_by.get(index) {
                if !std::mem::replace(&mut found[next], true) {
                    open.push(next);
                }
            }
        }
        self.tasks.iter().zip(found).filter(|(_, found)| *found).map(|(task, _)| task.id.clone()).collect()
    }
}
