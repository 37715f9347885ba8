//! Schedules the tasks of a graph on workers by estimates, and computes lower bounds and better worker counts.
//!
//! Called by `run/schedule` for priorities, by `estimate` and by the displays of a plan. Must never decide what
//! starts: `run` does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::graph::{Task, TaskGraph};
use crate::ids::{Feature, Level, TaskId, WorkerId};

/// Assumed speed of an agent, to convert an estimate in tokens into time.
pub const TOKENS_PER_MINUTE: u64 = 1_000;
/// Assumed duration of a task without an estimate.
pub const DEFAULT_ESTIMATE: Duration = Duration::from_secs(10 * 60);
/// Longest estimate, so that sums of absurd estimates do not overflow.
pub(crate) const MAX_ESTIMATE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    pub workers: u32,
    pub levels: Vec<LevelPlan>,
    #[serde(rename = "total_seconds", serialize_with = "seconds")]
    pub total: Duration,
    pub critical_path: CriticalPath,
    /// Sum of all estimates.
    #[serde(rename = "work_seconds", serialize_with = "seconds")]
    pub work: Duration,
    /// Shortest possible time: the critical path, or the work shared evenly, whichever is longer.
    #[serde(rename = "lower_bound_seconds", serialize_with = "seconds")]
    pub lower_bound: Duration,
    pub schedules: ScheduleTimes,
    /// Fewest workers that reach the shortest total time.
    pub best_workers: u32,
    /// Times with one worker, the planned number and the best number, in ascending order.
    pub alternatives: Vec<Alternative>,
}

/// Time for the whole graph under each schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleTimes {
    #[serde(rename = "levels_seconds", serialize_with = "seconds")]
    pub levels: Duration,
    #[serde(rename = "dependencies_seconds", serialize_with = "seconds")]
    pub dependencies: Duration,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelPlan {
    pub level: Level,
    /// Sorted by start, then by worker.
    pub assignments: Vec<PlannedTask>,
    /// Tasks that wait for the user; no worker takes them and their duration is unknown.
    pub foreground: Vec<TaskId>,
    #[serde(rename = "makespan_seconds", serialize_with = "seconds")]
    pub makespan: Duration,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedTask {
    pub task: TaskId,
    pub worker: WorkerId,
    /// Time from the start of the level.
    #[serde(rename = "start_seconds", serialize_with = "seconds")]
    pub start: Duration,
    #[serde(rename = "end_seconds", serialize_with = "seconds")]
    pub end: Duration,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CriticalPath {
    pub tasks: Vec<TaskId>,
    #[serde(rename = "length_seconds", serialize_with = "seconds")]
    pub length: Duration,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alternative {
    pub workers: u32,
    #[serde(rename = "total_seconds", serialize_with = "seconds")]
    pub total: Duration,
}

impl Plan {
    pub fn new(graph: &TaskGraph, workers: u32) -> Plan {
        let workers = workers.max(1);
        let levels: Vec<LevelPlan> = by_level(graph).map(|tasks| plan_level(tasks, workers)).collect();
        let work = graph.tasks().iter().map(scheduled).sum();
        let critical_path = critical_path(graph);
        let best_workers = by_level(graph).map(best_workers).max().unwrap_or(1);
        let mut counts = vec![1, workers, best_workers];
        counts.sort_unstable();
        counts.dedup();
        let total = levels.iter().map(|level| level.makespan).sum();
        let alternative = |workers| Alternative { workers, total: total_with(graph, workers) };
        Plan {
            workers,
            total,
            schedules: ScheduleTimes { levels: total, dependencies: total_by_dependencies(graph, workers) },
            lower_bound: critical_path.length.max(work / workers),
            levels,
            critical_path,
            work,
            best_workers,
            alternatives: counts.into_iter().map(alternative).collect(),
        }
    }
}

/// Returns the time for the whole graph with this many workers.
pub fn total_with(graph: &TaskGraph, workers: u32) -> Duration {
    by_level(graph).map(|tasks| makespan(&lengths(&longest_first(tasks)), workers)).sum()
}

/// Returns the time for the whole graph if each task starts when its dependencies are done, longest remaining path first.
fn total_by_dependencies(graph: &TaskGraph, workers: u32) -> Duration {
    let (tasks, paths) = (graph.tasks(), remaining_paths(graph));
    let mut open: Vec<usize> = (0..tasks.len()).map(|task| graph.needs(task).count()).collect();
    let mut ready: BinaryHeap<(Duration, Reverse<usize>)> =
        (0..tasks.len()).filter(|&task| open[task] == 0).map(|task| (paths[task], Reverse(task))).collect();
    let mut running: BinaryHeap<Reverse<(Duration, usize)>> = BinaryHeap::new();
    let mut busy = 0;
    let mut now = Duration::ZERO;
    loop {
        while (busy < workers || ready.peek().is_some_and(|(_, Reverse(task))| tasks[*task].spec.foreground))
            && let Some((_, Reverse(task))) = ready.pop()
        {
            busy += u32::from(!tasks[task].spec.foreground);
            running.push(Reverse((now + scheduled(&tasks[task]), task)));
        }
        let Some(Reverse((end, task))) = running.pop() else { return now };
        now = end;
        busy -= u32::from(!tasks[task].spec.foreground);
        for &dependent in graph.needed_by(task) {
            open[dependent] -= 1;
            if open[dependent] == 0 {
                ready.push((paths[dependent], Reverse(dependent)));
            }
        }
    }
}

/// Returns for each task the time of the longest chain that begins with it.
pub(crate) fn remaining_paths(graph: &TaskGraph) -> Vec<Duration> {
    let mut paths = vec![Duration::ZERO; graph.tasks().len()];
    // Tasks that depend on another are on a higher level, so they come after it.
    for (task, spec) in graph.tasks().iter().enumerate().rev() {
        let after = graph.needed_by(task).iter().map(|&dependent| paths[dependent]).max();
        paths[task] = scheduled(spec) + after.unwrap_or_default();
    }
    paths
}

/// Returns the estimated duration of a task.
pub fn estimate(task: &Task) -> Duration {
    let minutes = task.spec.estimate_minutes.filter(|minutes| minutes.is_finite() && *minutes > 0.0);
    let estimate = match (minutes, task.spec.estimate_tokens) {
        (Some(minutes), _) => Duration::try_from_secs_f64(minutes * 60.0).unwrap_or(MAX_ESTIMATE),
        (None, Some(tokens)) if tokens > 0 => Duration::from_millis(tokens.saturating_mul(60_000 / TOKENS_PER_MINUTE)),
        _ => DEFAULT_ESTIMATE,
    };
    // Whole milliseconds and never zero, so that rounding leaves no bar of a chart empty.
    let milliseconds = estimate.min(MAX_ESTIMATE).as_millis().max(1);
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(u64::MAX))
}

/// Returns the time that the task adds to the workers' schedule.
fn scheduled(task: &Task) -> Duration {
    if task.spec.foreground { Duration::ZERO } else { estimate(task) }
}

pub(crate) fn by_level(graph: &TaskGraph) -> impl Iterator<Item = &[Task]> {
    graph.tasks().chunk_by(|a, b| a.level == b.level)
}

fn plan_level(tasks: &[Task], workers: u32) -> LevelPlan {
    let order = longest_first(tasks);
    let lengths = lengths(&order);
    let assign = |(&(length, task), (worker, start)): (&(Duration, &Task), (WorkerId, Duration))| PlannedTask {
        task: task.id.clone(),
        worker,
        start,
        end: start + length,
    };
    LevelPlan {
        level: tasks.first().map_or(Level(0), |task| task.level),
        assignments: order.iter().zip(schedule(&lengths, workers)).map(assign).collect(),
        foreground: tasks.iter().filter(|task| task.spec.foreground).map(|task| task.id.clone()).collect(),
        makespan: makespan(&lengths, workers),
    }
}

/// Sorts the workers' tasks, longest first; equal ones keep the order of the graph.
pub(crate) fn longest_first(tasks: &[Task]) -> Vec<(Duration, &Task)> {
    let background = tasks.iter().filter(|task| !task.spec.foreground);
    let mut order: Vec<(Duration, &Task)> = background.map(|task| (estimate(task), task)).collect();
    order.sort_by_key(|&(length, _)| Reverse(length));
    order
}

fn lengths(order: &[(Duration, &Task)]) -> Vec<Duration> {
    order.iter().map(|&(length, _)| length).collect()
}

/// Assigns each task in order to the worker that is free first; the lowest id wins ties.
fn schedule(lengths: &[Duration], workers: u32) -> Vec<(WorkerId, Duration)> {
    let useful = u32::try_from(lengths.len()).unwrap_or(u32::MAX).min(workers.max(1));
    let mut free: BinaryHeap<Reverse<(Duration, WorkerId)>> =
        (0..useful).map(|worker| Reverse((Duration::ZERO, WorkerId(worker)))).collect();
    let mut places = Vec::with_capacity(lengths.len());
    for &length in lengths {
        let Some(Reverse((start, worker))) = free.pop() else { break };
        places.push((worker, start));
        free.push(Reverse((start + length, worker)));
    }
    places
}

/// Returns the time in which the workers finish tasks of these lengths, taken in this order.
pub(crate) fn makespan(lengths: &[Duration], workers: u32) -> Duration {
    let places = schedule(lengths, workers);
    lengths.iter().zip(places).map(|(&length, (_, start))| start + length).max().unwrap_or(Duration::ZERO)
}

/// Returns the fewest workers with the shortest time. More workers never take longer, so binary search finds them.
fn best_workers(tasks: &[Task]) -> u32 {
    let lengths = lengths(&longest_first(tasks));
    let least = lengths.first().copied().unwrap_or(Duration::ZERO);
    let (mut low, mut high) = (1, u32::try_from(lengths.len()).unwrap_or(u32::MAX).max(1));
    while low < high {
        let middle = low + (high - low) / 2;
        if makespan(&lengths, middle) == least {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Returns the chain of dependencies that takes longest.
pub(crate) fn critical_path(graph: &TaskGraph) -> CriticalPath {
    let tasks = graph.tasks();
    // Dependencies are on lower levels, so they come before the task.
    let mut chains: Vec<(Duration, Option<usize>)> = Vec::with_capacity(tasks.len());
    for task in tasks {
        let before = task.dependencies.iter().filter_map(|id| graph.index(id)).filter(|&index| index < chains.len());
        let before = before.max_by_key(|&index| (chains[index].0, Reverse(index)));
        let length = before.map_or(Duration::ZERO, |index| chains[index].0) + scheduled(task);
        chains.push((length, before));
    }
    let mut last = (0..chains.len()).max_by_key(|&index| (chains[index].0, Reverse(index)));
    let length = last.map_or(Duration::ZERO, |index| chains[index].0);
    let mut path = Vec::new();
    while let Some(index) = last {
        path.push(tasks[index].id.clone());
        last = chains[index].1;
    }
    path.reverse();
    CriticalPath { tasks: path, length }
}

/// The contents of `worker-assignments.json`.
#[derive(Debug, Serialize)]
pub struct WorkerAssignments<'a> {
    feature: &'a Feature,
    note: &'static str,
    workers: Vec<AssignedWorker<'a>>,
    foreground: Vec<&'a TaskId>,
}

#[derive(Debug, Serialize)]
struct AssignedWorker<'a> {
    id: usize,
    branch: String,
    worktree: String,
    ports: &'a [u16],
    tasks: Vec<AssignedTask<'a>>,
}

#[derive(Debug, Serialize)]
struct AssignedTask<'a> {
    id: &'a TaskId,
    level: Level,
    estimate_minutes: f64,
}

/// Returns which worker is to do which task, with each worker's ports. `worktrees` is the feature's directory of worktrees.
pub fn worker_assignments<'a>(
    plan: &'a Plan,
    graph: &'a TaskGraph,
    ports: &'a [Vec<u16>],
    worktrees: &str,
) -> WorkerAssignments<'a> {
    let feature = &graph.feature;
    let worker = |id: usize| AssignedWorker {
        id,
        branch: format!("mahabharatha/{feature}/worker-{id}"),
        worktree: format!("{worktrees}/worker-{id}"),
        ports: ports.get(id).map_or(&[], Vec::as_slice),
        tasks: Vec::new(),
    };
    let mut workers: Vec<AssignedWorker<'_>> = (0..plan.workers as usize).map(worker).collect();
    for level in &plan.levels {
        for planned in &level.assignments {
            let Some(worker) = workers.get_mut(planned.worker.0 as usize) else { continue };
            let estimate_minutes = (planned.end - planned.start).as_secs_f64() / 60.0;
            worker.tasks.push(AssignedTask { id: &planned.task, level: level.level, estimate_minutes });
        }
    }
    WorkerAssignments {
        feature,
        note: "The plan, by estimates. In the run a worker that is free takes the longest task that is left in the level, so \
               another worker may do it.",
        workers,
        foreground: plan.levels.iter().flat_map(|level| &level.foreground).collect(),
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

#[cfg(test)]
mod tests;
