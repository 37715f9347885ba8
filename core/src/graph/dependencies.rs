//! Who needs whom: every name known, every need on a lower level, no circles.

use std::collections::BTreeMap;

use super::Severity::Error;
use super::report::{Report, shown};
use crate::spec::GraphFile;

/// A longer circle is shown without its middle.
const LONGEST_SHOWN_CYCLE: usize = 20;

/// `first` says where each id first stands in the file.
pub(super) fn check(report: &mut Report, file: &GraphFile, first: &BTreeMap<&str, usize>) {
    let edges = edges(report, file, first);
    for (index, needs) in edges.iter().enumerate() {
        let level = file.tasks[index].level;
        for need in needs.iter().map(|&need| &file.tasks[need]).filter(|need| need.level >= level) {
            let need_id = shown(&need.id);
            let message =
                format!("depends on {need_id} of level {}, which must be lower than its own level {level}", need.level);
            report.task(Error, "dependency_level", index, message);
        }
    }
    for cycle in cycles(&edges) {
        report.task(Error, "dependency_cycle", cycle.shown[0], format!("dependency cycle: {}", cycle.told(file)));
    }
}

fn edges(report: &mut Report, file: &GraphFile, first: &BTreeMap<&str, usize>) -> Vec<Vec<usize>> {
    let mut edges = Vec::with_capacity(file.tasks.len());
    for (index, task) in file.tasks.iter().enumerate() {
        let mut needs = Vec::new();
        for dependency in &task.dependencies {
            match first.get(dependency.as_str()) {
                _ if *dependency == task.id => {
                    report.task(Error, "self_dependency", index, "depends on itself".to_owned());
                }
                Some(&need) => needs.push(need),
                None => {
                    let message = format!("depends on {}, which is not in the graph", shown(dependency));
                    report.task(Error, "unknown_dependency", index, message);
                }
            }
        }
        needs.sort_unstable();
        needs.dedup();
        edges.push(needs);
    }
    edges
}

struct Cycle {
    shown: Vec<usize>,
    /// How many are left out before the last.
    left_out: usize,
}

impl Cycle {
    fn of(way: &[(usize, usize)]) -> Cycle {
        let left_out = way.len().saturating_sub(LONGEST_SHOWN_CYCLE);
        let head = way.len() - left_out - 1;
        let shown = way[..head].iter().chain(way.last()).map(|(index, _)| *index).collect();
        Cycle { shown, left_out }
    }

    fn told(&self, file: &GraphFile) -> String {
        let mut names: Vec<String> =
            self.shown.iter().chain(self.shown.first()).map(|&index| shown(&file.tasks[index].id)).collect();
        if self.left_out > 0 {
            names.insert(names.len() - 2, format!("({} more)", self.left_out));
        }
        names.join(" → ")
    }
}

/// One circle for each edge that closes one: none is told twice, and without those edges none is left.
fn cycles(edges: &[Vec<usize>]) -> Vec<Cycle> {
    const UNSEEN: usize = usize::MAX;
    const DONE: usize = usize::MAX - 1;
    let mut depth = vec![UNSEEN; edges.len()];
    let mut found = Vec::new();
    for start in 0..edges.len() {
        if depth[start] != UNSEEN {
            continue;
        }
        // The way down to where we stand, each with the number of its edges already taken.
        let mut way = vec![(start, 0)];
        depth[start] = 0;
        while let Some((at, taken)) = way.last_mut() {
            let Some(&next) = edges[*at].get(*taken) else {
                depth[*at] = DONE;
                way.pop();
                continue;
            };
            *taken += 1;
            match depth[next] {
                DONE => {}
                UNSEEN => {
                    depth[next] = way.len();
                    way.push((next, 0));
                }
                open => found.push(Cycle::of(&way[open..])),
            }
        }
    }
    found
}
