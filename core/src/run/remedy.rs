//! Fixes: attempts to repair what made a gate fail.

use super::effect::{Carry, Doer, EffectId, Job, Purpose};
use super::event::{GateFailure, Intent, JobEnd, JobReport, TaskCommit};
use super::jobs::{Launch, MAX_CHECKPOINTS};
use super::state::{End, LevelStatus, Run};
use super::step::Effects;
use crate::ids::{TaskId, Time, WorkerId};

impl Run {
    /// Returns the index of the task if it may attempt a fix.
    pub(super) fn can_remedy(&self, level: usize, task: &TaskId) -> Option<usize> {
        let launches = !matches!(self.intent, Intent::Merge(_));
        let left = self.levels[level].remedies < self.policy.remediation_attempts;
        let affordable = |index: &usize| self.over_task_budget(*index).is_none();
        self.graph.index(task).filter(|_| launches && left).filter(affordable)
    }

    pub(super) fn pursue_remedy(
        &mut self,
        now: Time,
        level: usize,
        failure: &GateFailure,
        task: &TaskId,
        effects: &mut Effects,
    ) {
        // It may be due since an earlier process with another policy.
        if self.can_remedy(level, task).is_none() {
            return self.fail_gate(level, failure, &format!("{task} is to blame"));
        }
        if self.intent.is_session() {
            // The session has to claim it.
            return self.drain(End::GateFailed { level: self.levels[level].level, gate: failure.gate.clone() });
        }
        if !self.within_budget() {
            self.levels[level].status = LevelStatus::Gating;
            self.drain(End::Paused { why: self.over_budget() });
            return;
        }
        if self.no_worker_left() {
            self.levels[level].status = LevelStatus::Gating;
            self.drain(End::Stopped);
            return;
        }
        if !self.may_launch(now) {
            return;
        }
        let Some(worker) = self.idle_worker(effects) else { return };
        self.launch_remedy(now, level, worker, Doer::Agent, effects);
    }

    /// Launches the fix that is due.
    pub(super) fn launch_remedy(
        &mut self,
        now: Time,
        level: usize,
        worker: WorkerId,
        doer: Doer,
        effects: &mut Effects,
    ) {
        let LevelStatus::Remedying { failure, task, carry, .. } = self.levels[level].status.clone() else { return };
        let Some(task) = self.graph.index(&task) else { return };
        self.levels[level].remedies += 1;
        let (base, purpose) = (failure.staging.clone(), Purpose::Remedy { failure });
        let started = self.launch(now, Launch { task, worker, base, purpose, doer, carry }, effects);
        if let LevelStatus::Remedying { job, .. } = &mut self.levels[level].status {
            *job = Some(started);
        }
    }

    /// Returns the level that waits for this fix; none if a changed graph made it obsolete.
    pub(super) fn remedied_by(&self, id: EffectId) -> Option<usize> {
        let current = self.current()?;
        let waits = matches!(&self.levels[current].status, LevelStatus::Remedying { job: Some(job), .. } if *job == id);
        waits.then_some(current)
    }

    pub(super) fn remedied(&mut self, job: &Job, failure: &GateFailure, report: &JobReport) {
        let Some(current) = self.remedied_by(job.effect) else { return };
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
            JobEnd::Interrupted => return self.remedy_called_off(current),
            JobEnd::Unserved { .. } => {
                self.uncount_remedy(current);
                Carry { wip: wip.or_else(|| given.wip.clone()), ..given.clone() }
            }
            JobEnd::Checkpoint { note } => {
                self.checkpointed_remedy(current, task);
                Carry { feedback: None, note: Some(note.clone()), wip }
            }
            JobEnd::Failed { feedback: why, .. }
            | JobEnd::Blocked { reason: why }
            | JobEnd::Escalated { reason: why } => Carry { feedback: Some(why.clone()), note: None, wip },
            JobEnd::Died { .. } => {
                Carry { feedback: Some("The worker ended without a result.".to_string()), note: None, wip }
            }
        };
        if self.can_remedy(current, task).is_none() {
            let why = carry.feedback.or(carry.note).unwrap_or_default();
            self.fail_gate(current, failure, &format!("{task} could not mend it: {why}"));
        } else {
            self.levels[current].status =
                LevelStatus::Remedying { failure: failure.clone(), task: task.clone(), carry, job: None };
        }
    }

    /// Undoes the launch of a fix that was interrupted.
    pub(super) fn remedy_called_off(&mut self, level: usize) {
        self.uncount_remedy(level);
        self.levels[level].status = LevelStatus::Gating;
    }

    /// Counts a checkpoint; up to `MAX_CHECKPOINTS` of them use up no fix.
    fn checkpointed_remedy(&mut self, level: usize, task: &TaskId) {
        let Some(index) = self.graph.index(task) else { return };
        self.tasks[index].checkpoints += 1;
        if self.tasks[index].checkpoints <= MAX_CHECKPOINTS {
            self.uncount_remedy(level);
        }
    }

    fn uncount_remedy(&mut self, level: usize) {
        let level = &mut self.levels[level];
        level.remedies = level.remedies.saturating_sub(1);
    }
}
