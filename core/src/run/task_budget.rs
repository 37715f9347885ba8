//! What one task may cost: once its attempts have spent that, it is blocked instead of launched.

use super::state::{Run, TaskState, TaskStatus};
use crate::cost::Cost;
use crate::ids::Time;

impl TaskState {
    /// Returns what all attempts at the task have cost, as far as it is known.
    pub fn spent_usd(&self) -> f64 {
        let ended = self.attempts.iter().filter_map(|record| record.ended.as_ref());
        ended.map(|(_, report)| report.cost()).sum::<Cost>().known_usd()
    }
}

impl Run {
    /// Returns what the next attempt at a task may cost; none where there is no limit.
    pub(super) fn left_for(&self, task: usize) -> Option<f64> {
        self.policy.max_usd_per_task.map(|limit| (limit - self.tasks[task].spent_usd()).max(0.0))
    }

    /// Returns why no agent may be launched for the task: its budget is spent. Foreground tasks have no limit.
    pub(super) fn over_task_budget(&self, task: usize) -> Option<String> {
        if self.graph.tasks()[task].spec.foreground {
            return None;
        }
        let (limit, spent) = (self.policy.max_usd_per_task?, self.tasks[task].spent_usd());
        let why =
            || format!("its budget of {limit:.2} USD is used up: {spent:.2} USD spent; raise budget.max_usd_per_task");
        (spent >= limit).then(why)
    }

    /// Blocks a task that would be launched next although its budget is spent.
    pub(super) fn block_if_over_budget(&mut self, now: Time, task: usize) {
        let queued = matches!(self.tasks[task].status, TaskStatus::Pending | TaskStatus::Resting { .. });
        if let Some(why) = self.over_task_budget(task).filter(|_| queued) {
            self.dequeue(task);
            self.block(now, task, &why);
        }
    }

    /// The same for all tasks, where the limit may have changed.
    pub(super) fn block_all_over_budget(&mut self, now: Time) {
        for task in 0..self.tasks.len() {
            self.block_if_over_budget(now, task);
        }
    }
}
