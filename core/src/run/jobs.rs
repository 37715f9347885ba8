//! Tasks on workers: launch, end, retry.

use std::cmp::Reverse;
use std::time::Duration;

use super::breaker::MIN_LIFETIME;
use super::effect::{Carry, Effect, EffectId, Job, Performer, Purpose};
use super::event::{Backoff, BackoffStrategy, JobEnd, JobReport, Reason};
use super::schedule::Start;
use super::state::{AttemptRecord, End, PauseCause, Run, TaskStatus, WorkerStatus};
use super::step::Effects;
use crate::cost::Cost;
use crate::ids::{Time, WorkerId};

/// Limits on ends that use up no retry.
pub const MAX_CHECKPOINTS: u32 = 10;
pub const MAX_FALSE_STARTS: u32 = 10;

/// An attempt that is to be launched now.
pub(super) struct Launch {
    pub task: usize,
    pub worker: WorkerId,
    pub start: Start,
    pub purpose: Purpose,
    pub performer: Performer,
    pub carry: Carry,
}

impl Run {
    /// Launches the tasks that can be launched; ends the run if it is stuck.
    pub(super) fn pursue_tasks(&mut self, now: Time, effects: &mut Effects) {
        if !self.intent.launches() {
            return self.end_unmergeable();
        }
        self.launch_ready(now, effects);
        self.end_if_stuck();
    }

    /// Launches the tasks that can be launched.
    pub(super) fn launch_ready(&mut self, now: Time, effects: &mut Effects) {
        if !self.intent.launches() {
            return;
        }
        while let Some(&(until, task)) = self.resting.first()
            && until <= now
        {
            self.resting.remove(&(until, task));
            self.requeue(task);
        }
        while let Some((entry @ (_, task), agent)) = self.next_served(now)
            && self.may_launch(now)
            && self.within_budget()
        {
            let Some(worker) = self.idle_worker(effects) else { break };
            self.ready.remove(&entry);
            let Ok(start) = self.start_of(task) else { continue };
            let (purpose, performer, carry) = (Purpose::Build, Performer::Agent(agent), self.tasks[task].carry.clone());
            self.launch(now, Launch { task, worker, start, purpose, performer, carry }, effects);
        }
    }

    /// Ends a merge whose level has open tasks, once nothing is under way.
    fn end_unmergeable(&mut self) {
        let Some(level) = self.current_level() else { return };
        if !self.is_settled() {
            return;
        }
        let why = format!("level {} cannot be merged: {} of its tasks are not done", level.level, level.open);
        let nothing_would_run = self.ready.is_empty() && self.resting.is_empty() && self.outstanding.is_empty();
        self.drain(if nothing_would_run { End::Blocked } else { End::Paused { cause: PauseCause::Other, why } });
    }

    fn end_if_stuck(&mut self) {
        if !self.outstanding.is_empty() {
            return;
        }
        if self.ready.is_empty() && self.resting.is_empty() {
            self.drain(End::Blocked);
        } else if !self.within_budget() {
            self.drain(self.paused_over_budget());
        } else if self.no_worker_left() {
            self.drain(End::Stopped);
        }
    }

    /// Returns the first waiting task that an agent can be launched for, and the agent.
    fn next_served(&self, now: Time) -> Option<((Reverse<u64>, usize), String)> {
        self.ready.iter().find_map(|entry| Some((*entry, self.served_agent(entry.1, 0, now)?.to_string())))
    }

    /// Returns the agent of the task's next attempt after so many failed fixes; none while no agent that may make it is
    /// served.
    pub(super) fn served_agent(&self, task: usize, failed_fixes: u32, now: Time) -> Option<&str> {
        let (id, failures) = (&self.graph.tasks()[task].id, self.tasks[task].failures.saturating_add(failed_fixes));
        self.policy.roster.agent(id, failures, |agent| self.services.may_launch(agent, now))
    }

    /// Whether the number of workers and the breaker allow a launch. After the number was lowered, workers above it may
    /// still be running.
    pub(super) fn may_launch(&mut self, now: Time) -> bool {
        self.breaker.cool(now);
        let is_agent = |effect: &&Effect| matches!(effect, Effect::RunJob(job) if job.performer.is_agent());
        let running = self.outstanding.values().filter(is_agent).count();
        running < self.policy.worker_count() && self.breaker.may_launch()
    }

    pub(super) fn no_worker_left(&self) -> bool {
        self.workers.iter().take(self.policy.worker_count()).all(|worker| matches!(worker, WorkerStatus::Stopped))
    }

    pub(super) fn within_budget(&self) -> bool {
        self.policy.max_usd.is_none_or(|limit| self.cost().known_usd() < limit)
    }

    pub(super) fn paused_over_budget(&self) -> End {
        let limit = self.policy.max_usd.unwrap_or_default();
        let why = match self.planning.known_usd() {
            0.0 => format!("the budget of {limit:.2} USD is used up (budget.max_usd)"),
            planning => {
                format!("the budget of {limit:.2} USD is used up (budget.max_usd), {planning:.2} USD of it by planning")
            }
        };
        End::Paused { cause: PauseCause::Budget, why }
    }

    /// Returns a worker that can take a job now; else asks for worktrees.
    pub(super) fn idle_worker(&mut self, effects: &mut Effects) -> Option<WorkerId> {
        let limit = self.policy.worker_count();
        let idle = self.workers.iter().take(limit).position(|worker| matches!(worker, WorkerStatus::Idle));
        if let Some(index) = idle {
            return Some(WorkerId(index as u32));
        }
        let preparing = self.workers.iter().filter(|worker| matches!(worker, WorkerStatus::Preparing)).count();
        let wanted = self.ready.len().max(1).saturating_sub(preparing);
        let unprepared: Vec<usize> = (0..limit.min(self.workers.len()))
            .filter(|&index| matches!(self.workers[index], WorkerStatus::Unprepared))
            .take(wanted)
            .collect();
        for index in unprepared {
            self.workers[index] = WorkerStatus::Preparing;
            self.emit(Effect::PrepareSlot { worker: WorkerId(index as u32) }, effects);
        }
        None
    }

    pub(super) fn launch(&mut self, now: Time, launch: Launch, effects: &mut Effects) -> EffectId {
        let Launch { task, worker, start: Start { base, on }, purpose, performer, carry } = launch;
        let id = self.graph.tasks()[task].id.clone();
        let attempt = self.tasks[task].next_attempt();
        let fix = matches!(purpose, Purpose::Fix { .. });
        self.workers[worker.0 as usize] = WorkerStatus::Running { task: id.clone(), attempt, since: now };
        let started_work = self.work_clock();
        self.tasks[task].attempts.push(AttemptRecord {
            attempt,
            worker,
            started_at: now,
            pid: None,
            fix,
            started_work,
            took: Duration::ZERO,
            ended: None,
        });
        let (by_agent, max_usd) = (performer.is_agent(), self.left_for(task));
        let effect = EffectId(self.next_effect);
        let notes = self.notes_to(&id).cloned().collect();
        let job = Job { effect, task: id, attempt, worker, base, on, purpose, performer, carry, notes, max_usd };
        self.emit(Effect::RunJob(job), effects);
        if by_agent {
            self.breaker.launched(effect);
        }
        if !fix {
            self.tasks[task].status = TaskStatus::InProgress { effect, attempt, worker };
        }
        effect
    }

    pub(super) fn job_started(&mut self, effect: EffectId, pid: u32) {
        if let Some(Effect::RunJob(job)) = self.outstanding.get(&effect)
            && let Some(index) = self.graph.index(&job.task)
            && let Some(record) = self.tasks[index].attempts.last_mut()
            && record.attempt == job.attempt
        {
            record.pid = Some(pid);
        }
    }

    /// Takes the end of a job that is no longer outstanding.
    pub(super) fn job_ended(&mut self, now: Time, job: &Job, report: &JobReport) {
        let id = job.effect;
        self.free(job.worker);
        self.spent += report.cost();
        let outdated = self.outdated.remove(&id);
        let by_agent = job.performer.agent().map(|agent| (agent, &report.end));
        match by_agent.map(|(_, end)| end) {
            None => {}
            Some(JobEnd::Died { .. }) if Duration::from_millis(report.ran_ms) < MIN_LIFETIME => {
                self.breaker.died_early(now, self.cooldown());
            }
            Some(JobEnd::Cancelled | JobEnd::SetupFailed { .. }) => self.breaker.cancelled(id),
            Some(_) => self.breaker.lived(now),
        }
        if let JobEnd::SetupFailed { failure } = &report.end {
            self.drain(End::SetupFailed { failure: failure.clone() });
        }
        let began = self.close_record(now, job, report.clone());
        if let Some((agent, end)) = by_agent {
            self.note_service(now, began, agent, end);
        }
        let Some(index) = self.graph.index(&job.task) else { return };
        match &job.purpose {
            Purpose::Build => {
                if outdated {
                    self.tasks[index].carry = Carry::default();
                    self.requeue(index);
                } else {
                    match &job.performer {
                        Performer::Reported { blocked } if !matches!(report.end, JobEnd::Done { .. }) => {
                            self.not_adopted(now, index, blocked.clone());
                        }
                        _ => self.built(now, index, job, report),
                    }
                }
                self.block_if_over_budget(now, index);
            }
            Purpose::Fix { failure } => self.finish_fix(job, failure, report),
        }
    }

    /// Handles a job that was not launched, as if its attempt had been cancelled.
    pub(super) fn job_cancelled(&mut self, now: Time, job: &Job) {
        self.free(job.worker);
        self.breaker.cancelled(job.effect);
        self.outdated.remove(&job.effect);
        // Nothing was launched, so nothing was spent.
        self.close_record(now, job, JobReport::cancelled().with_cost(Cost::default()));
        let Some(index) = self.graph.index(&job.task) else { return };
        match job.purpose {
            Purpose::Build => {
                match &job.performer {
                    Performer::Reported { blocked } => self.not_adopted(now, index, blocked.clone()),
                    _ => self.requeue(index),
                }
                self.block_if_over_budget(now, index);
            }
            Purpose::Fix { .. } => {
                if let Some(level) = self.level_fixed_by(job.effect) {
                    self.fix_cancelled(level);
                }
            }
        }
    }

    fn note_service(&mut self, now: Time, began: Time, agent: &str, end: &JobEnd) {
        let service = self.services.of(agent);
        match end {
            JobEnd::Unserved { why, until } => {
                service.not_served(now, began, *until, why);
                let times = service.unserved;
                if self.policy.roster.substitute(agent, |other| !self.services.is_exhausted(other)).is_none() {
                    let why = format!("the API refused {times} requests in a row, the last one with: {why}");
                    self.drain(End::Paused { cause: PauseCause::Other, why });
                }
            }
            // Shows nothing about the API limit.
            JobEnd::Died { .. } | JobEnd::Cancelled | JobEnd::SetupFailed { .. } => {}
            _ => service.served(),
        }
    }

    /// Records the end of an attempt and returns when it began. Includes tasks that are no longer in the graph: they may come back.
    fn close_record(&mut self, now: Time, job: &Job, report: JobReport) -> Time {
        let (is_held, elapsed) = (matches!(job.performer, Performer::Session(_)), self.work_clock());
        let attempts = match self.graph.index(&job.task) {
            Some(index) => Some(&mut self.tasks[index].attempts),
            None => self.removed.get_mut(&job.task),
        };
        let record = attempts.and_then(|all| all.iter_mut().rfind(|record| record.attempt == job.attempt));
        record.map_or(now, |record| {
            // A worker may go on while the run is idle, and says how long it lived; a session may hold a task of a run that ended.
            let (held, lived) = (now.since(record.started_at), Duration::from_millis(report.ran_ms));
            let driven = elapsed.saturating_sub(record.started_work);
            record.took = if is_held { held } else { driven.max(lived.min(held)) };
            record.ended = Some((now, report));
            record.started_at
        })
    }

    fn free(&mut self, worker: WorkerId) {
        if let Some(status @ WorkerStatus::Running { .. }) = self.workers.get_mut(worker.0 as usize) {
            *status = WorkerStatus::Idle;
        }
    }

    fn built(&mut self, now: Time, index: usize, job: &Job, report: &JobReport) {
        let wip = report.wip.clone();
        match &report.end {
            JobEnd::Done { commit } => {
                self.tasks[index].status = TaskStatus::Completed { commit: commit.clone(), at: now };
                self.tasks[index].carry = Carry::default();
                self.tasks[index].built_on = job.on.is_empty().then(|| job.base.clone());
                let level = self.level_of(index);
                self.levels[level].open -= 1;
                self.settled(index);
            }
            JobEnd::Failed { feedback, .. } => {
                let carry = Carry { feedback: Some(feedback.clone()), note: None, wip };
                self.failed(now, index, carry, &report.with_hint(feedback));
            }
            JobEnd::Died { started: true } => {
                let feedback = "The worker ended without a result.";
                let carry = Carry { feedback: Some(feedback.to_string()), note: None, wip };
                self.failed(now, index, carry, feedback);
            }
            JobEnd::Died { started: false } => {
                self.tasks[index].false_starts += 1;
                if self.tasks[index].false_starts >= MAX_FALSE_STARTS {
                    self.block(now, index, &format!("its worker failed to start {MAX_FALSE_STARTS} times"));
                } else {
                    self.rest(now, index);
                }
            }
            JobEnd::Checkpoint { note } => {
                self.tasks[index].checkpoints += 1;
                self.tasks[index].carry = Carry { feedback: None, note: Some(note.clone()), wip };
                if self.tasks[index].checkpoints > MAX_CHECKPOINTS {
                    let times = format!("it stopped at a checkpoint more than {MAX_CHECKPOINTS} times");
                    self.block(now, index, &format!("{times}, at last with this note: {note}"));
                } else {
                    self.requeue(index);
                }
            }
            JobEnd::Blocked { reason } | JobEnd::Escalated { reason } => {
                if wip.is_some() {
                    self.tasks[index].carry.wip = wip;
                }
                let escalated = matches!(report.end, JobEnd::Escalated { .. });
                let why = if escalated { format!("the user must decide: {reason}") } else { reason.clone() };
                if self.meet_needs(index, reason, report.ungrantable.is_empty()) {
                    self.requeue(index);
                } else {
                    self.block(now, index, &why);
                    if report.reason == Some(Reason::TaskBudget) {
                        self.mark_over_budget(index);
                    }
                }
            }
            JobEnd::Cancelled | JobEnd::Unserved { .. } | JobEnd::SetupFailed { .. } => {
                if wip.is_some() {
                    self.tasks[index].carry.wip = wip;
                }
                self.requeue(index);
            }
        }
    }

    pub(super) fn failed(&mut self, now: Time, index: usize, carry: Carry, feedback: &str) {
        self.tasks[index].carry = carry;
        self.tasks[index].failures += 1;
        if self.tasks[index].failures >= self.policy.max_attempts {
            self.block(now, index, feedback);
        } else {
            self.rest(now, index);
        }
    }

    pub(super) fn block(&mut self, now: Time, index: usize, reason: &str) {
        self.tasks[index].status = TaskStatus::Blocked { reason: reason.to_string(), at: now, over_budget: false };
    }

    /// Delays the next attempt.
    fn rest(&mut self, now: Time, index: usize) {
        let pause = backoff(self.policy.backoff, self.tasks[index].failures.max(1));
        // A foreground task needs no delay, and must not be launched with an agent after it.
        if pause.is_zero() || self.graph.tasks()[index].spec.foreground {
            self.requeue(index);
        } else {
            let until = now + pause;
            self.tasks[index].status = TaskStatus::Resting { until };
            self.resting.insert((until, index));
        }
    }

    fn cooldown(&self) -> Duration {
        Duration::from_millis(self.policy.backoff.max_ms).max(Duration::from_secs(1))
    }
}

/// Returns the delay after this number of failures.
pub fn backoff(backoff: Backoff, failures: u32) -> Duration {
    let factor = match backoff.strategy {
        BackoffStrategy::Exponential => 1u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX),
        BackoffStrategy::Linear => u64::from(failures),
        BackoffStrategy::Fixed => 1,
    };
    Duration::from_millis(backoff.base_ms.saturating_mul(factor).min(backoff.max_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_to_its_limit() {
        let wait =
            |strategy, failures| backoff(Backoff { strategy, base_ms: 5_000, max_ms: 60_000 }, failures).as_secs();
        assert_eq!([1, 2, 3, 4, 5, 90].map(|n| wait(BackoffStrategy::Exponential, n)), [5, 10, 20, 40, 60, 60]);
        assert_eq!([1, 2, 3].map(|n| wait(BackoffStrategy::Linear, n)), [5, 10, 15]);
        assert_eq!([1, 2, 3].map(|n| wait(BackoffStrategy::Fixed, n)), [5, 5, 5]);
    }
}
