//! Schedules: which tasks can start, from what, and in which order.
//!
//! Under `levels` a task starts when the level below its own is merged. Under `dependencies` it starts when everything that it
//! depends on is completed, from the last merged level plus the commits of its dependencies that are not merged yet. A task
//! that started before the level below was merged is early: its verification must pass again on the tree that lands.

use std::cmp::Reverse;

use super::effect::Carry;
use super::event::{FailCause, Intent, JobEnd, JobReport, Schedule, TaskCommit};
use super::state::{LevelStatus, Run, TaskStatus};
use crate::ids::{Level, Oid, TaskId, Time};
use crate::plan;
use crate::seconds::milliseconds;

/// What an attempt starts from.
pub(super) struct Start {
    pub base: Oid,
    /// Work of dependencies that is not merged yet, to be put onto the base.
    pub on: Vec<TaskCommit>,
}

/// Why a task cannot start now.
enum NotStartable {
    NotBegun(Level),
    /// The level that has to be merged first.
    NotMerged(Level),
    /// The task that has to be completed first.
    Needs(usize),
    BeingMerged,
    Merged,
}

impl Run {
    /// Returns the tasks that can be started now, in the order in which they should be.
    pub fn startable(&self) -> Vec<usize> {
        let is_free = |task: &usize| {
            let status = &self.tasks[*task].status;
            matches!(status, TaskStatus::Pending | TaskStatus::Resting { .. } | TaskStatus::Waiting)
        };
        let mut tasks: Vec<usize> =
            (0..self.tasks.len()).filter(is_free).filter(|&task| self.why_not_startable(task).is_none()).collect();
        if self.policy.schedule == Schedule::Dependencies {
            tasks.sort_by_key(|&task| (Reverse(self.ranks[task]), task));
        }
        tasks
    }

    /// Returns what an attempt at the task starts from, or why it cannot start now.
    pub(super) fn start_of(&self, task: usize) -> Result<Start, String> {
        if let Some(why) = self.why_not_startable(task) {
            return Err(self.explain(task, &why));
        }
        match (self.current(), &self.levels[self.level_of(task)].base) {
            (Some(current), None) => Ok(Start { base: self.base_of(current), on: self.unmerged_work(task) }),
            (_, Some(base)) => Ok(Start { base: base.clone(), on: Vec::new() }),
            (None, None) => Err("every level is merged".to_string()),
        }
    }

    fn why_not_startable(&self, task: usize) -> Option<NotStartable> {
        let level = &self.levels[self.level_of(task)];
        match (&level.status, self.current_level()) {
            (LevelStatus::Running, _) => None,
            (LevelStatus::Pending, Some(current)) if current.level != level.level => match self.policy.schedule {
                Schedule::Levels => Some(NotStartable::NotMerged(current.level)),
                // While a task below can be done again, two attempts could change the same file at once.
                Schedule::Dependencies if self.shares_unmerged(task) => Some(NotStartable::NotMerged(current.level)),
                Schedule::Dependencies if !self.has_begun() => Some(NotStartable::NotBegun(current.level)),
                Schedule::Dependencies => {
                    self.graph.needs(task).find(|&needed| !self.available[needed]).map(NotStartable::Needs)
                }
            },
            (LevelStatus::Pending, _) => Some(NotStartable::NotBegun(level.level)),
            (LevelStatus::Merged { .. }, _) => Some(NotStartable::Merged),
            _ => Some(NotStartable::BeingMerged),
        }
    }

    /// Whether a task of a lower level that is not merged yet owns a file of this one.
    fn shares_unmerged(&self, task: usize) -> bool {
        let is_merged = |task: usize| matches!(self.levels[self.level_of(task)].status, LevelStatus::Merged { .. });
        self.graph.owner_below(task).is_some_and(|below| !is_merged(below))
    }

    fn explain(&self, task: usize, why: &NotStartable) -> String {
        let level = self.graph.tasks()[task].level;
        match why {
            NotStartable::NotBegun(level) => format!("level {level} has not begun"),
            NotStartable::NotMerged(below) => format!("it is of level {level}, and level {below} is not merged yet"),
            NotStartable::Needs(needed) => {
                format!("it depends on {}, which is not completed", self.missing_for(*needed))
            }
            NotStartable::BeingMerged => format!("level {level} is being merged"),
            NotStartable::Merged => self.merged_level_phrase(level),
        }
    }

    /// Returns the task itself if it is open, else one that it depends on and that is.
    fn missing_for(&self, task: usize) -> &TaskId {
        let mut task = task;
        while !self.tasks[task].is_open()
            && let Some(below) = self.graph.needs(task).find(|&needed| !self.available[needed])
        {
            task = below;
        }
        &self.graph.tasks()[task].id
    }

    /// Whether an agent may be launched for the task as soon as there is a worker.
    fn can_launch(&self, task: usize) -> bool {
        let within_goal = match self.intent {
            Intent::Level(goal) => self.graph.tasks()[task].level <= goal,
            _ => true,
        };
        within_goal && self.why_not_startable(task).is_none()
    }

    /// Returns the commits of everything that the task depends on and that is not merged, each task's followed by its fixes.
    fn unmerged_work(&self, task: usize) -> Vec<TaskCommit> {
        let merged = self.current().map_or(self.tasks.len(), |current| self.levels[current].tasks.start);
        let mut needed = vec![false; task];
        let mut open = vec![task];
        while let Some(next) = open.pop() {
            for below in self.graph.needs(next).filter(|below| *below >= merged) {
                if !std::mem::replace(&mut needed[below], true) {
                    open.push(below);
                }
            }
        }
        let mut commits = Vec::new();
        for index in (merged..task).filter(|&index| needed[index]) {
            if let TaskStatus::Completed { commit, .. } = &self.tasks[index].status {
                let id = &self.graph.tasks()[index].id;
                let fixes = &self.levels[self.level_of(index)].fixes;
                commits.push(TaskCommit { task: id.clone(), commit: commit.clone() });
                commits.extend(fixes.iter().filter(|fix| fix.task == *id).cloned());
            }
        }
        commits
    }

    /// Whether the task is completed on something else than what the level below became, so that it has to be verified again.
    pub fn is_early(&self, task: usize) -> bool {
        let is_completed = matches!(self.tasks[task].status, TaskStatus::Completed { .. });
        is_completed && self.tasks[task].built_on.as_ref() != Some(&self.base_of(self.level_of(task)))
    }

    /// Whether workers may be busy with higher levels while a level is integrated.
    pub fn works_ahead(&self) -> bool {
        let is_running = |task: usize| matches!(self.tasks[task].status, TaskStatus::InProgress { .. });
        let is_ahead = |task: &usize| matches!(self.levels[self.level_of(*task)].status, LevelStatus::Pending);
        self.policy.schedule == Schedule::Dependencies || (0..self.tasks.len()).filter(is_ahead).any(is_running)
    }

    /// Puts a task into the queue for a worker or a user, or takes it out, by whether it can start.
    pub(super) fn requeue(&mut self, task: usize) {
        self.dequeue(task);
        self.tasks[task].status = TaskStatus::Pending;
        if !self.can_launch(task) {
            return;
        }
        if self.graph.tasks()[task].spec.foreground {
            self.tasks[task].status = TaskStatus::Waiting;
        } else {
            self.ready.insert((Reverse(self.priority(task)), task));
        }
    }

    pub(super) fn dequeue(&mut self, task: usize) {
        self.ready.remove(&(Reverse(self.priority(task)), task));
        if let TaskStatus::Resting { until } = self.tasks[task].status {
            self.resting.remove(&(until, task));
        }
    }

    /// Returns the longest remaining path in milliseconds. Levels wait for their longest task, so there it is the task alone.
    fn priority(&self, task: usize) -> u64 {
        match self.policy.schedule {
            Schedule::Levels => milliseconds(plan::estimate(&self.graph.tasks()[task])),
            Schedule::Dependencies => self.ranks[task],
        }
    }

    /// Queues every task that can be launched.
    pub(super) fn queue_all(&mut self) {
        self.ready.clear();
        self.resting.clear();
        for task in 0..self.tasks.len() {
            match self.tasks[task].status {
                // Also a foreground task, which may become another again before its pause is over.
                TaskStatus::Resting { until } => {
                    self.resting.insert((until, task));
                }
                TaskStatus::Pending | TaskStatus::Waiting => self.requeue(task),
                _ => {}
            }
        }
    }

    /// Computes what follows from the graph and from the tasks that are done, and queues the tasks again.
    pub(super) fn reschedule(&mut self) {
        self.ranks = plan::remaining_paths(&self.graph).into_iter().map(milliseconds).collect();
        self.available = Vec::with_capacity(self.tasks.len());
        for task in 0..self.tasks.len() {
            let is_available = !self.tasks[task].is_open() && self.graph.needs(task).all(|below| self.available[below]);
            self.available.push(is_available);
        }
        self.queue_all();
    }

    /// Queues what waited for a task that is completed or skipped now.
    pub(super) fn settled(&mut self, task: usize) {
        let mut changed = vec![task];
        while let Some(task) = changed.pop() {
            let is_available = !self.tasks[task].is_open() && self.graph.needs(task).all(|below| self.available[below]);
            if !is_available || std::mem::replace(&mut self.available[task], true) {
                continue;
            }
            changed.extend(self.graph.needed_by(task));
            self.requeue_dependents(task);
        }
    }

    /// Takes what needs a task out of the queue, because the task is open again. What is in progress or completed stays: it is
    /// early, so it is verified again with its level.
    pub(super) fn reopened(&mut self, task: usize) {
        let mut changed = vec![task];
        while let Some(task) = changed.pop() {
            if std::mem::replace(&mut self.available[task], false) {
                changed.extend(self.graph.needed_by(task));
                self.requeue_dependents(task);
            }
        }
    }

    fn requeue_dependents(&mut self, task: usize) {
        let graph = std::sync::Arc::clone(&self.graph);
        for &dependent in graph.needed_by(task) {
            if matches!(self.tasks[dependent].status, TaskStatus::Pending | TaskStatus::Waiting) {
                self.requeue(dependent);
            }
        }
    }

    /// Returns the tasks whose verification must have passed on the tree with which the level lands.
    pub fn verified_with(&self, level: Level) -> Vec<TaskId> {
        let index = self.levels.iter().position(|state| state.level == level);
        index.map(|index| self.to_verify(index)).unwrap_or_default()
    }

    /// Returns the tasks whose verification must pass on the tree that lands: those of the level that are early, and with the
    /// last level all that are completed.
    pub(super) fn to_verify(&self, level: usize) -> Vec<TaskId> {
        let (all, of_level) = (self.is_last(level), self.levels[level].tasks.clone());
        let is_completed = |task: &usize| matches!(self.tasks[*task].status, TaskStatus::Completed { .. });
        let is_due = |task: &usize| all || of_level.contains(task) && self.is_early(*task);
        let due = (0..self.tasks.len()).filter(is_completed).filter(is_due);
        due.map(|task| self.graph.tasks()[task].id.clone()).collect()
    }

    /// Has an early task done again from the base of its level, as after a failed attempt.
    pub(super) fn redo(&mut self, now: Time, task: usize, feedback: &str) {
        let TaskStatus::Completed { commit, .. } = self.tasks[task].status.clone() else { return };
        let done = JobEnd::Done { commit: commit.clone() };
        let is_it = |report: &&mut (Time, JobReport)| report.1.end == done;
        let mut ended = self.tasks[task].attempts.iter_mut().rev().filter_map(|record| record.ended.as_mut());
        if let Some((_, report)) = ended.find(is_it) {
            let (cause, strays) = (FailCause::Verification, Vec::new());
            report.end = JobEnd::Failed { cause, feedback: feedback.to_string(), strays };
            report.wip = Some(commit.clone());
        }
        let level = self.level_of(task);
        let id = &self.graph.tasks()[task].id;
        let state = &mut self.levels[level];
        state.open += 1;
        state.fixes.retain(|fix| fix.task != *id);
        state.run_again();
        self.tasks[task].status = TaskStatus::Pending;
        self.reopened(task);
        let carry = Carry { feedback: Some(feedback.to_string()), note: None, wip: Some(commit) };
        self.failed(now, task, carry, feedback);
        self.block_if_over_budget(now, task);
    }
}
