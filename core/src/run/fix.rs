//! Fixes: attempts to repair what made a gate fail.

use super::effect::{Carry, EffectId, Job, Performer, Purpose};
use super::event::{GateFailure, Intent, JobEnd, JobReport, TaskCommit};
use super::jobs::{Launch, MAX_CHECKPOINTS};
use super::schedule::Start;
use super::state::{End, LevelStatus, Run};
use super::step::Effects;
use crate::ids::{TaskId, Time, WorkerId};

impl Run {
    /// Returns the index of the task if it may attempt a fix.
    pub(super) fn can_fix(&self, level: usize, task: &TaskId) -> Option<usize> {
        let launches = !matches!(self.intent, Intent::Merge(_));
        let left = self.levels[level].fix_attempts < self.policy.remediation_attempts;
        let affordable = |index: &usize| self.over_task_budget(*index).is_none();
        self.graph.index(task).filter(|_| launches && left).filter(affordable)
    }

    pub(super) fn pursue_fix(
        &mut self,
        now: Time,
        level: usize,
        failure: &GateFailure,
        task: &TaskId,
        effects: &mut Effects,
    ) {
        // It may be due since an earlier process with another policy.
        if self.can_fix(level, task).is_none() {
            return self.fail_gate(level, failure, Some(task), &format!("{task} is to blame"));
        }
        if self.intent.is_session() {
            // The session has to claim it.
            return self.drain(End::GateFailed { level: self.levels[level].level, gate: failure.gate.clone() });
        }
        if !self.within_budget() {
            self.levels[level].status = LevelStatus::Gating;
            self.drain(self.paused_over_budget());
            return;
        }
        if self.no_worker_left() {
            self.levels[level].status = LevelStatus::Gating;
            self.drain(End::Stopped);
            return;
        }
        let failed = self.levels[level].fix_attempts;
        let agent = self.graph.index(task).and_then(|task| self.served_agent(task, failed, now)).map(str::to_owned);
        let Some(agent) = agent.filter(|_| self.may_launch(now)) else { return };
        let Some(worker) = self.idle_worker(effects) else { return };
        self.launch_fix(now, level, worker, Performer::Agent(agent), effects);
    }

    /// Launches the fix that is due.
    pub(super) fn launch_fix(
        &mut self,
        now: Time,
        level: usize,
        worker: WorkerId,
        performer: Performer,
        effects: &mut Effects,
    ) {
        let LevelStatus::Fixing { failure, task, carry, .. } = self.levels[level].status.clone() else { return };
        let Some(task) = self.graph.index(&task) else { return };
        self.levels[level].fix_attempts += 1;
        let start = Start { base: failure.staging.clone(), on: Vec::new() };
        let purpose = Purpose::Fix { failure };
        let started = self.launch(now, Launch { task, worker, start, purpose, performer, carry }, effects);
        if let LevelStatus::Fixing { job, .. } = &mut self.levels[level].status {
            *job = Some(started);
        }
    }

    /// Returns the level that waits for this fix; none if a changed graph made it obsolete.
    pub(super) fn level_fixed_by(&self, id: EffectId) -> Option<usize> {
        let current = self.current()?;
        let waits = matches!(&self.levels[current].status, LevelStatus::Fixing { job: Some(job), .. } if *job == id);
        waits.then_some(current)
    }

    pub(super) fn finish_fix(&mut self, job: &Job, failure: &GateFailure, report: &JobReport) {
        let Some(current) = self.level_fixed_by(job.effect) else { return };
        let (task, given) = (&job.task, &job.carry);
        let wip = report.wip.clone();
        let carry = match &report.end {
            JobEnd::Done { commit } => {
                let level = &mut self.levels[current];
                level.staging = Some(commit.clone());
                level.fixes.push(TaskCommit { task: task.clone(), commit: commit.clone() });
                level.status = LevelStatus::Gating;
                return;
            }
            JobEnd::Cancelled | JobEnd::SetupFailed { .. } => return self.fix_cancelled(current),
            JobEnd::Unserved { .. } => {
                self.uncount_fix(current);
                Carry { wip: wip.or_else(|| given.wip.clone()), ..given.clone() }
            }
            JobEnd::Checkpoint { note } => {
                self.checkpointed_fix(current, task);
                Carry { feedback: None, note: Some(note.clone()), wip }
            }
            JobEnd::Failed { feedback: why, .. }
            | JobEnd::Blocked { reason: why }
            | JobEnd::Escalated { reason: why } => Carry { feedback: Some(why.clone()), note: None, wip },
            JobEnd::Died { .. } => {
                Carry { feedback: Some("The worker ended without a result.".to_string()), note: None, wip }
            }
        };
        if self.can_fix(current, task).is_none() {
            let why = report.with_hint(&carry.feedback.or(carry.note).unwrap_or_default());
            self.fail_gate(current, failure, Some(task), &format!("{task} could not fix it: {why}"));
        } else {
            self.levels[current].status =
                LevelStatus::Fixing { failure: failure.clone(), task: task.clone(), carry, job: None };
        }
    }

    /// Undoes the launch of a fix that was cancelled.
    pub(super) fn fix_cancelled(&mut self, level: usize) {
        self.uncount_fix(level);
        self.levels[level].status = LevelStatus::Gating;
    }

    /// Counts a checkpoint; up to `MAX_CHECKPOINTS` of them use up no fix.
    fn checkpointed_fix(&mut self, level: usize, task: &TaskId) {
        let Some(index) = self.graph.index(task) else { return };
        self.tasks[index].checkpoints += 1;
        if self.tasks[index].checkpoints <= MAX_CHECKPOINTS {
            self.uncount_fix(level);
        }
    }

    fn uncount_fix(&mut self, level: usize) {
        let level = &mut self.levels[level];
        level.fix_attempts = level.fix_attempts.saturating_sub(1);
    }
}
