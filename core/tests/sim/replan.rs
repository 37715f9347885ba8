//! Changes that users make to the graph between two processes.

use mahabharatha_core::ids::TaskId;
use mahabharatha_core::run::{LevelStatus, Run, TaskStatus};
use mahabharatha_core::spec::{GraphFile, TaskSpec};

use crate::graphs;
use crate::rng::Rng;

/// Draws a changed graph; returns whether the run must accept it.
pub fn random_replan(rng: &mut Rng, run: &Run) -> (GraphFile, bool) {
    let mut graph = run.setup().graph.clone();
    if rng.chance(25) && spoil(rng, run, &mut graph) {
        return (graph, false);
    }
    let open: Vec<usize> = (0..graph.tasks.len()).filter(|&index| is_open(run, &graph.tasks[index].id)).collect();
    match (rng.between(0, 4), rng.pick(&open).copied()) {
        (0, Some(index)) => graph.tasks[index].title.push('!'),
        (1, Some(index)) => graph.tasks[index].foreground ^= true,
        (2, Some(index)) if graph.tasks.len() > 1 && !is_needed(&graph, index) => {
            graph.tasks.remove(index);
        }
        (3, Some(index)) if !is_needed(&graph, index) => {
            graph.tasks[index].level = graph.tasks.iter().map(|task| task.level).max().unwrap_or(0) + 1;
        }
        _ => add(rng, run, &mut graph),
    }
    let allowed = leaves_a_last_level(run, &graph);
    (graph, allowed)
}

/// The last level verifies every task, so a level that is landing without that cannot become the last one.
fn leaves_a_last_level(run: &Run, graph: &GraphFile) -> bool {
    let last = graph.tasks.iter().map(|task| task.level).max();
    let state = run.levels().iter().find(|state| Some(state.level.0) == last);
    state.is_none_or(|state| {
        state.verified || !matches!(state.status, LevelStatus::Merged { .. } | LevelStatus::Landing { .. })
    })
}

fn is_open(run: &Run, id: &str) -> bool {
    let id = TaskId::new(id).expect("a good id");
    let status = run.task(&id).map(|state| &state.status);
    !matches!(status, Some(TaskStatus::Completed { .. } | TaskStatus::Skipped { .. }))
}

fn is_needed(graph: &GraphFile, index: usize) -> bool {
    graph.tasks.iter().any(|task| task.dependencies.contains(&graph.tasks[index].id))
}

fn new_task(rng: &mut Rng, graph: &mut GraphFile, level: u32) {
    // Few names, so that removed tasks sometimes come back.
    let prefix = rng.one_of(["T", "N"]);
    let name = |number: u64| format!("{prefix}-{number:02}");
    let mut number = rng.between(0, 9);
    while graph.tasks.iter().any(|task| task.id == name(number)) {
        number += 1;
    }
    let mut task = graphs::task(rng, &name(number), level);
    if rng.chance(30) {
        share(rng, graph, &mut task);
    }
    let place = rng.index(graph.tasks.len() + 1);
    graph.tasks.insert(place, task.into());
}

/// Gives a task a file that others own, after the last of them if that is on a lower level.
fn share(rng: &mut Rng, graph: &GraphFile, task: &mut TaskSpec) {
    let files: Vec<&String> = graph.tasks.iter().map(|task| &task.files.create[0]).collect();
    let Some(file) = rng.pick(&files).copied() else { return };
    let owners =
        graph.tasks.iter().filter(|owner| owner.files.create.iter().chain(&owner.files.modify).any(|own| own == file));
    if let Some(last) = owners.max_by_key(|owner| owner.level).filter(|last| last.level < task.level) {
        task.dependencies.push(last.id.clone());
        task.files.modify.push(file.clone());
    }
}

/// Adds a task that owns the file of another, on whatever level, without depending on it.
fn add_unordered(rng: &mut Rng, run: &Run, graph: &mut GraphFile) {
    let file = graph.tasks[rng.index(graph.tasks.len())].files.create[0].clone();
    let known: Vec<String> = graph.tasks.iter().map(|task| task.id.clone()).collect();
    add(rng, run, graph);
    if let Some(added) = graph.tasks.iter_mut().find(|task| !known.contains(&task.id)) {
        added.dependencies.clear();
        added.files.modify = vec![file];
    }
}

/// Adds a task where it is still possible: on the current level, a later one or a new last one.
fn add(rng: &mut Rng, run: &Run, graph: &mut GraphFile) {
    let last = run.levels().last().map_or(0, |level| level.level.0);
    let mut levels = vec![last + 1, last + 5];
    for level in run.levels() {
        if !matches!(level.status, LevelStatus::Merged { .. } | LevelStatus::Landing { .. }) {
            levels.push(level.level.0);
        }
    }
    let level = levels[rng.index(levels.len())];
    new_task(rng, graph, level);
}

/// Makes a change that comes too late or gives a file two owners; returns false if there is none.
fn spoil(rng: &mut Rng, run: &Run, graph: &mut GraphFile) -> bool {
    let done = |id: &str| {
        let status = run.task(&TaskId::new(id).expect("a good id")).map(|state| &state.status);
        matches!(status, Some(TaskStatus::Completed { .. }))
    };
    let completed: Vec<usize> = (0..graph.tasks.len()).filter(|&index| done(&graph.tasks[index].id)).collect();
    let begun = run.levels().iter().rev().find(|level| !matches!(level.status, LevelStatus::Pending));
    match (rng.between(0, 3), rng.pick(&completed).copied(), begun) {
        (0, Some(index), _) => graph.tasks[index].title.push('?'),
        (1, Some(index), _) if !is_needed(graph, index) => {
            graph.tasks.remove(index);
        }
        (2, _, Some(level)) if level.level.0 > 0 => {
            // All levels below are merged, or there are none.
            let below = rng.between(0, u64::from(level.level.0) - 1) as u32;
            new_task(rng, graph, below);
        }
        (3, ..) => add_unordered(rng, run, graph),
        _ => return false,
    }
    true
}
