//! How long a run may still take.

use std::time::Duration;

use super::is_stuck;
use crate::plan;
use crate::run::{Run, TaskState, TaskStatus};

/// Fewest completed tasks from which anything can be told.
const MIN_COMPLETED: usize = 3;

/// Estimates the time until the last task is done: what is left by the specs' estimates, stretched or shrunk as the
/// completed tasks were. `None` before enough tasks are completed, and if the run does not go on by itself. Gates and merges
/// are not included.
pub(super) fn remaining(run: &Run) -> Option<Duration> {
    if run.ended().is_some() || run.is_paused() || run.tasks().iter().any(is_stuck) {
        return None;
    }
    let pace = pace(run)?;
    let workers = run.policy().workers.max(1);
    let mut total = Duration::ZERO;
    for level in run.levels() {
        let tasks = run.graph().tasks()[level.tasks.clone()].iter().zip(&run.tasks()[level.tasks.clone()]);
        let mut left: Vec<Duration> = tasks
            .filter(|(_, state)| state.is_open())
            .map(|(task, state)| plan::estimate(task).mul_f64(pace).saturating_sub(spent_now(run, state)))
            .collect();
        left.sort_unstable_by(|one, other| other.cmp(one));
        total = total.saturating_add(plan::makespan(&left, workers));
    }
    Some(total)
}

/// Returns how much longer the completed tasks took than was estimated, as a factor.
fn pace(run: &Run) -> Option<f64> {
    let (mut took, mut estimated, mut completed) = (Duration::ZERO, Duration::ZERO, 0);
    for (task, state) in run.graph().tasks().iter().zip(run.tasks()) {
        if matches!(state.status, TaskStatus::Completed { .. }) && !state.attempts.is_empty() {
            completed += 1;
            estimated = estimated.saturating_add(plan::estimate(task));
            took = state.attempts.iter().fold(took, |sum, record| sum.saturating_add(run.attempt_elapsed(record)));
        }
    }
    // Beyond this an estimate says nothing, and a product could overflow.
    let pace = took.as_secs_f64() / estimated.as_secs_f64();
    (completed >= MIN_COMPLETED && pace.is_finite() && pace < 1_000.0).then_some(pace)
}

fn spent_now(run: &Run, state: &TaskState) -> Duration {
    match state.status {
        TaskStatus::InProgress { .. } => {
            state.attempts.last().map_or(Duration::ZERO, |record| run.attempt_elapsed(record))
        }
        _ => Duration::ZERO,
    }
}
