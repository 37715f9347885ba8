//! Budget of one task: once it is spent, the task is blocked instead of launched.

use super::state::{Run, TaskState, TaskStatus};
use crate::cost::Cost;
use crate::ids::Time;

impl TaskState {
    /// Returns the known cost of all attempts at the task.
    pub fn spent_usd(&self) -> f64 {
        let ended = self.attempts.iter().filter_map(|record| record.ended.as_ref());
        ended.map(|(_, report)| report.cost()).sum::<Cost>().known_usd()
    }
}

impl Run {
    /// Returns the rest of the task's budget; none without a limit.
    pub(super) fn left_for(&self, task: usize) -> Option<f64> {
        self.policy.max_usd_per_task.map(|limit| (limit - self.tasks[task].spent_usd()).max(0.0))
    }

    /// Returns why no agent may be launched for the task, if its budget is spent. Foreground tasks have no limit.
    pub(super) fn over_task_budget(&self, task: usize) -> Option<String> {
        if self.graph.tasks()[task].spec.foreground {
            return None;
        }
        let (limit, spent) = (self.policy.max_usd_per_task?, self.tasks[task].spent_usd());
        let why =
            || format!("its budget of {limit:.2} USD is used up: {spent:.2} USD spent; raise budget.max_usd_per_task");
        (spent >= limit).then(why)
    }

    /// Blocks a queued task whose budget is spent.
    pub(super) fn block_if_over_budget(&mut self, now: Time, task: usize) {
        let queued = matches!(self.tasks[task].status, TaskStatus::Pending | TaskStatus::Resting { .. });
        if let Some(why) = self.over_task_budget(task).filter(|_| queued) {
            self.dequeue(task);
            self.block(now, task, &why);
            self.mark_over_budget(task);
        }
    }

    /// Records that the budget of a blocked task is the reason.
    pub(super) fn mark_over_budget(&mut self, task: usize) {
        if let TaskStatus::Blocked { over_budget, .. } = &mut self.tasks[task].status {
            *over_budget = true;
        }
    }

    /// Blocks all queued tasks whose budget is spent.
    pub(super) fn block_all_over_budget(&mut self, now: Time) {
        for task in 0..self.tasks.len() {
            self.block_if_over_budget(now, task);
        }
    }
}
