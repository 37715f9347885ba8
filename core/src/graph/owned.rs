//! Finds out whether some task may change a path.

use super::{OwnedPath, Task};
use crate::spec::path::ancestors;

/// The paths of all tasks, sorted: each as the positions of a task and of the path in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OwnedIndex(Vec<(usize, usize)>);

impl OwnedIndex {
    pub fn new(tasks: &[Task]) -> OwnedIndex {
        let of_task = |(task, owned): (usize, &Task)| (0..owned.owned.len()).map(move |nth| (task, nth));
        let mut sorted: Vec<(usize, usize)> = tasks.iter().enumerate().flat_map(of_task).collect();
        sorted.sort_by_key(|&(task, nth)| tasks[task].owned[nth].path.as_str());
        OwnedIndex(sorted)
    }

    /// Returns whether one of the tasks, which must be those of `new`, may change the path.
    pub fn has(&self, tasks: &[Task], path: &str) -> bool {
        let owns = |path: &str, directory: bool| self.on(tasks, path).any(|owned| owned.directory == directory);
        owns(path, false) || ancestors(path).any(|above| owns(above, true))
    }

    fn on<'t>(&self, tasks: &'t [Task], path: &str) -> impl Iterator<Item = &'t OwnedPath> {
        let owned = |&(task, nth): &(usize, usize)| &tasks[task].owned[nth];
        let start = self.0.partition_point(|entry| owned(entry).path.as_str() < path);
        self.0[start..].iter().map(owned).take_while(move |owned| owned.path == path)
    }
}
