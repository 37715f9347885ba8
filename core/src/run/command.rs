//! Commands to a run: stop, retry, skip. For those of sessions see `session`, for the others `control`.

use super::effect::{Answer, Carry, Effect, Performer, Refusal};
use super::event::Command;
use super::state::{End, LevelStatus, Run, TaskStatus, WorkerStatus};
use super::step::Effects;
use crate::ids::{TaskId, Time, WorkerId};

impl Run {
    pub(super) fn asked(&mut self, now: Time, request: &str, command: &Command, effects: &mut Effects) {
        if let Some(answer) = self.answers.get(request).cloned() {
            // Repeated: a crash may have come between the decision and its answer.
            self.emit(Effect::Answer { request: request.to_string(), answer }, effects);
            return;
        }
        let answer = match command {
            Command::Stop { force, grace_ms, worker: None } => {
                self.drain(End::Stopped);
                if !self.is_settled() {
                    self.emit(Effect::Cancel { force: *force, grace_ms: *grace_ms, only: None }, effects);
                }
                Answer::saying("stopping")
            }
            Command::Stop { force, grace_ms, worker: Some(worker) } => {
                self.stop_worker(*worker, *force, *grace_ms, effects)
            }
            Command::Retry { tasks, budget, note } => {
                if let Some(budget) = budget {
                    self.policy.max_usd_per_task = budget.max_usd;
                    self.block_all_over_budget(now);
                }
                self.for_each_task(&self.or_all_blocked(tasks), |run, task| run.retry(task, note.as_deref()))
            }
            Command::Grant { task, paths } => {
                self.for_each_task(std::slice::from_ref(task), |run, task| run.grant(task, paths))
            }
            Command::Skip { tasks, reason, keep_dependents } => {
                let mut answer = self.for_each_task(tasks, |run, task| {
                    run.check_skip(task, *keep_dependents)?;
                    run.skip(now, task, reason)
                });
                if !keep_dependents {
                    let dependents = self.skipped_with(&answer.accepted);
                    let more = self.for_each_task(&dependents, |run, task| run.skip(now, task, reason));
                    answer.accepted.extend(more.accepted);
                    answer.refused.extend(more.refused);
                }
                answer
            }
            Command::Claim { tasks, session } => {
                self.for_each_task(tasks, |run, task| run.claim(now, task, session, effects))
            }
            Command::Finish { effect, task, attempt, report } => {
                // Also for a task that is no longer in the graph.
                match self.finish(now, *effect, (task, *attempt), report) {
                    Ok(()) => {
                        let message = self.why_not_taken(task, *attempt, report);
                        Answer { accepted: vec![task.clone()], message, ..Answer::default() }
                    }
                    Err(why) => Answer { refused: vec![Refusal { task: task.clone(), why }], ..Answer::default() },
                }
            }
            Command::Adopt { task } => {
                self.for_each_task(std::slice::from_ref(task), |run, task| run.adopt(now, task, effects))
            }
            Command::Scale { workers } => self.scale(*workers),
            Command::Pause => self.pause(),
            Command::Resume => self.resume(),
            Command::Approve { level, tree } => self.approve(*level, tree),
        };
        self.answers.insert(request.to_string(), answer.clone());
        self.emit(Effect::Answer { request: request.to_string(), answer }, effects);
    }

    fn stop_worker(&mut self, worker: WorkerId, force: bool, grace_ms: u64, effects: &mut Effects) -> Answer {
        let Some(status) = self.workers.get_mut(worker.0 as usize) else {
            return Answer::saying(format!("there is no worker {worker}"));
        };
        *status = WorkerStatus::Stopped;
        let runs_there = |effect: &Effect| matches!(effect, Effect::RunJob(job) if job.worker == worker);
        if self.outstanding.values().any(runs_there) {
            self.emit(Effect::Cancel { force, grace_ms, only: Some(worker) }, effects);
        }
        Answer::saying(format!("stopping worker {worker}"))
    }

    fn for_each_task(
        &mut self,
        tasks: &[TaskId],
        mut act: impl FnMut(&mut Run, usize) -> Result<(), String>,
    ) -> Answer {
        let mut answer = Answer::default();
        for (place, task) in tasks.iter().enumerate() {
            if tasks[..place].contains(task) {
                continue;
            }
            let done = match self.graph.index(task) {
                Some(index) => act(self, index),
                None => Err(format!("there is no such task in {}", self.feature())),
            };
            match done {
                Ok(()) => answer.accepted.push(task.clone()),
                Err(why) => answer.refused.push(Refusal { task: task.clone(), why }),
            }
        }
        answer
    }

    fn or_all_blocked(&self, tasks: &[TaskId]) -> Vec<TaskId> {
        if !tasks.is_empty() {
            return tasks.to_vec();
        }
        let blocked = |index: &usize| matches!(self.tasks[*index].status, TaskStatus::Blocked { .. });
        (0..self.tasks.len()).filter(blocked).map(|index| self.graph.tasks()[index].id.clone()).collect()
    }

    /// Returns the tasks that are skipped with these ones: all that depend on them and are not skipped yet.
    pub fn skipped_with(&self, tasks: &[TaskId]) -> Vec<TaskId> {
        let mut all = Vec::new();
        for dependent in tasks.iter().flat_map(|task| self.graph.dependents(task)) {
            let skipped = self.task(&dependent).is_some_and(|state| matches!(state.status, TaskStatus::Skipped { .. }));
            if !skipped && !tasks.contains(&dependent) && !all.contains(&dependent) {
                all.push(dependent);
            }
        }
        all
    }

    /// Tells whether a task can be skipped now; unless dependents are kept, with all that are skipped with it.
    pub fn can_skip(&self, task: &TaskId, keep_dependents: bool) -> bool {
        self.graph.index(task).is_some_and(|task| self.check_skip(task, keep_dependents).is_ok())
    }

    fn check_skip(&self, task: usize, keep_dependents: bool) -> Result<(), String> {
        self.still_open_to_change(task)?;
        if !keep_dependents {
            self.dependents_open_to_change(task)?;
        }
        match self.tasks[task].status {
            TaskStatus::Skipped { .. } => Err("it is skipped already".to_string()),
            _ => Ok(()),
        }
    }

    /// Checks whether a task's result can still be changed.
    pub(super) fn still_open_to_change(&self, task: usize) -> Result<(), String> {
        let level = &self.levels[self.level_of(task)];
        match &level.status {
            LevelStatus::Merged { .. } => return Err(self.merged_level_phrase(level.level)),
            status if status.is_integrating() => return Err(format!("level {} is being merged", level.level)),
            _ => {}
        }
        let id = &self.graph.tasks()[task].id;
        for effect in self.outstanding.values() {
            if let Effect::RunJob(job) = effect
                && job.task == *id
            {
                return Err(match &job.performer {
                    Performer::Session(session) => {
                        format!("session {session} holds it; `mahabharatha task fail {id}` first")
                    }
                    _ => format!("it is in progress on worker {}; `mahabharatha stop` the run first", job.worker),
                });
            }
        }
        Ok(())
    }

    /// Checks whether everything that depends on the task can still be skipped with it.
    fn dependents_open_to_change(&self, task: usize) -> Result<(), String> {
        let id = self.graph.tasks()[task].id.clone();
        for dependent in self.skipped_with(&[id]) {
            if let Some(index) = self.graph.index(&dependent) {
                self.still_open_to_change(index).map_err(|why| format!("{dependent} depends on it: {why}"))?;
            }
        }
        Ok(())
    }

    pub(super) fn retry(&mut self, task: usize, note: Option<&str>) -> Result<(), String> {
        self.still_open_to_change(task)?;
        let note = note.map(|note| self.note_to(task, note)).transpose()?;
        match self.tasks[task].status {
            TaskStatus::Pending if note.is_none() => return Err("it is queued already".to_string()),
            TaskStatus::Waiting => return Err("it waits for a person".to_string()),
            _ => {}
        }
        if let Some(why) = self.over_task_budget(task) {
            return Err(why);
        }
        note.into_iter().for_each(|note| self.keep_note(note));
        self.dequeue(task);
        let reopened = !self.tasks[task].is_open();
        let state = &mut self.tasks[task];
        state.failures = 0;
        state.checkpoints = 0;
        state.false_starts = 0;
        state.carry = match state.status {
            TaskStatus::Completed { .. } => Carry::default(),
            _ => std::mem::take(&mut state.carry),
        };
        self.reopen(task, reopened);
        Ok(())
    }

    /// Requeues a task and sets its level back to running.
    fn reopen(&mut self, task: usize, reopened: bool) {
        let index = self.level_of(task);
        let level = &mut self.levels[index];
        level.open += usize::from(reopened);
        level.without(&self.graph.tasks()[task].id);
        self.reopened(task);
        self.requeue(task);
    }

    fn skip(&mut self, now: Time, task: usize, reason: &str) -> Result<(), String> {
        self.check_skip(task, true)?;
        self.dequeue(task);
        let was_open = self.tasks[task].is_open();
        self.tasks[task].status = TaskStatus::Skipped { reason: reason.to_string(), at: now };
        let index = self.level_of(task);
        let level = &mut self.levels[index];
        level.open -= usize::from(was_open);
        level.without(&self.graph.tasks()[task].id);
        self.settled(task);
        Ok(())
    }
}
