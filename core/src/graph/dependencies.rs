//! Checks the dependencies: every task is known and on a lower level, and there are no cycles.

use super::Severity::Error;
use super::index::Index;
use super::lists::Lists;
use super::report::{Report, shown};
use crate::spec::GraphFile;

/// Maximum tasks of a cycle that are shown; a longer cycle is shown without its middle.
const MAX_SHOWN_TASKS: usize = 20;

/// Returns for each task the tasks that it depends on, each once, in the order of the file.
pub(super) fn check(report: &mut Report, file: &GraphFile, ids: &Index) -> Lists {
    let edges = edges(report, file, ids);
    let level = |task: usize| file.tasks[task].level;
    let is_ordered = |(task, needs): (usize, &[usize])| needs.iter().all(|&need| level(need) < level(task));
    if !edges.iter().enumerate().all(is_ordered) {
        report_order(report, file, &edges.sorted());
    }
    edges
}

/// Reports dependencies that are not on a lower level, and cycles: in each there is such a dependency.
fn report_order(report: &mut Report, file: &GraphFile, edges: &Lists) {
    for (index, needs) in edges.iter().enumerate() {
        let level = file.tasks[index].level;
        for need in needs.iter().map(|&need| &file.tasks[need]).filter(|need| need.level >= level) {
            let need_id = shown(&need.id);
            let message = format!(
                "depends on {need_id} of level {}, but dependencies must be on a lower level than its own level {level}",
                need.level
            );
            report.task(Error, "dependency_level", index, message);
        }
    }
    for cycle in cycles(edges) {
        report.task(Error, "dependency_cycle", cycle.shown[0], format!("dependency cycle: {}", cycle.to_text(file)));
    }
}

fn edges(report: &mut Report, file: &GraphFile, ids: &Index) -> Lists {
    let mut edges = Lists::with_capacity(file.tasks.len());
    // For each task, the last one that was found to depend on it.
    let mut needed_by = vec![usize::MAX; file.tasks.len()];
    let mut needs = Vec::new();
    for (index, task) in file.tasks.iter().enumerate() {
        for dependency in &task.dependencies {
            match ids.find(dependency, |task| &file.tasks[task].id) {
                _ if *dependency == task.id => {
                    report.task(Error, "self_dependency", index, "depends on itself".to_owned());
                }
                Some(need) if std::mem::replace(&mut needed_by[need], index) == index => {}
                Some(need) => needs.push(need),
                None => {
                    let message = format!("depends on {}, which is not in the graph", shown(dependency));
                    report.task(Error, "unknown_dependency", index, message);
                }
            }
        }
        edges.push(needs.drain(..));
    }
    edges
}

struct Cycle {
    shown: Vec<usize>,
    /// How many tasks are left out before the last one.
    left_out: usize,
}

impl Cycle {
    fn of(path: &[(usize, usize)]) -> Cycle {
        let left_out = path.len().saturating_sub(MAX_SHOWN_TASKS);
        let head = path.len() - left_out - 1;
        let shown = path[..head].iter().chain(path.last()).map(|(index, _)| *index).collect();
        Cycle { shown, left_out }
    }

    fn to_text(&self, file: &GraphFile) -> String {
        let mut names: Vec<String> =
            self.shown.iter().chain(self.shown.first()).map(|&index| shown(&file.tasks[index].id)).collect();
        if self.left_out > 0 {
            names.insert(names.len() - 2, format!("({} more)", self.left_out));
        }
        names.join(" → ")
    }
}

/// Returns one cycle for each edge that closes one. No cycle is returned twice, and without those edges no cycle is
/// left.
fn cycles(edges: &Lists) -> Vec<Cycle> {
    const UNSEEN: usize = usize::MAX;
    const DONE: usize = usize::MAX - 1;
    let mut depth = vec![UNSEEN; edges.iter().count()];
    let mut found = Vec::new();
    for start in 0..depth.len() {
        if depth[start] != UNSEEN {
            continue;
        }
        // The path from the start to the current task, each with the number of its edges already followed.
        let mut path = vec![(start, 0)];
        depth[start] = 0;
        while let Some((at, taken)) = path.last_mut() {
            let Some(&next) = edges.get(*at).get(*taken) else {
                depth[*at] = DONE;
                path.pop();
                continue;
            };
            *taken += 1;
            match depth[next] {
                DONE => {}
                UNSEEN => {
                    depth[next] = path.len();
                    path.push((next, 0));
                }
                open => found.push(Cycle::of(&path[open..])),
            }
        }
    }
    found
}
