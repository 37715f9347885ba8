//! Tasks without a worker: claimed by a session, or reported done by a user.

use super::effect::{EffectId, Job, Performer, Purpose};
use super::event::{JobEnd, JobReport};
use super::jobs::Launch;
use super::schedule::Start;
use super::state::{End, LevelStatus, Phase, Run, TaskStatus, WorkerStatus};
use super::step::Effects;
use crate::ids::{Attempt, TaskId, Time, WorkerId};

impl Run {
    /// Gives a task to a session; does nothing if it holds the task already.
    pub(super) fn claim(&mut self, now: Time, task: usize, session: &str, effects: &mut Effects) -> Result<(), String> {
        if self.is_held_by(&self.graph.tasks()[task].id.clone(), session) {
            return Ok(());
        }
        self.takes_work()?;
        let performer = Performer::Session(session.to_string());
        if let Some(level) = self.awaits_fix_by(task) {
            let worker = self.spare_worker();
            self.launch_fix(now, level, worker, performer, effects);
            return Ok(());
        }
        match &self.tasks[task].status {
            TaskStatus::Blocked { .. } => return Err("it is blocked; `mahabharatha retry` it first".to_string()),
            TaskStatus::Pending | TaskStatus::Resting { .. } | TaskStatus::Waiting => {}
            taken => return Err(why_not_free(taken)),
        }
        let start = self.start_of(task)?;
        self.launch_apart(now, task, start, performer, effects);
        Ok(())
    }

    /// Ends the attempt that a session holds by this effect.
    pub(super) fn finish(
        &mut self,
        now: Time,
        effect: EffectId,
        (task, attempt): (&TaskId, Attempt),
        report: &JobReport,
    ) -> Result<(), String> {
        let is_meant = |job: &&Job| job.effect == effect && job.task == *task && job.attempt == attempt;
        let held = self.held().map(|(job, _)| job).find(is_meant).cloned();
        if let Some(job) = held {
            self.outstanding.remove(&effect);
            self.job_ended(now, &job, report);
            return Ok(());
        }
        if self.removed.contains_key(task) {
            // The task is no longer in the graph, so its result does not matter.
            return Ok(());
        }
        let record = self.task(task).and_then(|state| state.attempts.iter().find(|record| record.attempt == attempt));
        match record.and_then(|record| record.ended.as_ref()) {
            // The host found the result before the session reported it.
            Some((_, known)) if known.end == report.end => Ok(()),
            _ => Err(format!("attempt {attempt} was cancelled meanwhile")),
        }
    }

    /// Returns why finished work is not accepted.
    pub(super) fn why_not_taken(&self, task: &TaskId, attempt: Attempt, report: &JobReport) -> Option<String> {
        let JobEnd::Done { commit: done } = &report.end else { return None };
        let Some(state) = self.task(task) else {
            return Some("the task was removed from the graph meanwhile, so its work is not used".to_string());
        };
        let fix = state.attempts.iter().any(|record| record.attempt == attempt && record.fix);
        let taken = matches!(&state.status, TaskStatus::Completed { commit, .. } if commit == done);
        let why = "the task was changed in the graph meanwhile, so earlier work on it is not used";
        (!fix && !taken).then(|| why.to_string())
    }

    /// Starts the check of a task that is reported done.
    pub(super) fn adopt(&mut self, now: Time, task: usize, effects: &mut Effects) -> Result<(), String> {
        self.takes_work()?;
        // A blocked run is resumed by the check.
        let is_stuck = self.ended() == Some(&End::Blocked);
        if self.ended().is_some() && !is_stuck {
            return Err("the run has ended; the task is checked when the run is resumed".to_string());
        }
        let blocked = match &self.tasks[task].status {
            TaskStatus::Blocked { reason, .. } => Some(reason.clone()),
            TaskStatus::Pending | TaskStatus::Resting { .. } | TaskStatus::Waiting => None,
            taken => return Err(why_not_free(taken)),
        };
        let start = self.start_of(task)?;
        if is_stuck {
            self.phase = Phase::Working;
        }
        self.launch_apart(now, task, start, Performer::Reported { blocked }, effects);
        Ok(())
    }

    /// Restores a task whose check failed.
    pub(super) fn not_adopted(&mut self, now: Time, task: usize, blocked: Option<String>) {
        match blocked {
            Some(reason) => self.block(now, task, &reason),
            None => self.requeue(task),
        }
    }

    fn takes_work(&self) -> Result<(), String> {
        match self.phase {
            _ if !self.needs_no_base_check() => Err("the gates have not passed on the base yet".to_string()),
            Phase::CheckingBase => Err("the run is not open yet".to_string()),
            Phase::Draining { .. } => Err("the run is about to end".to_string()),
            Phase::Working | Phase::Closing | Phase::Ended { .. } => Ok(()),
        }
    }

    fn awaits_fix_by(&self, task: usize) -> Option<usize> {
        let current = self.current()?;
        let id = &self.graph.tasks()[task].id;
        let due = matches!(&self.levels[current].status,
            LevelStatus::Fixing { task, job: None, .. } if task == id);
        // It may be due since an earlier process with another policy.
        (due && self.can_fix(current, id).is_some()).then_some(current)
    }

    fn is_held_by(&self, task: &TaskId, session: &str) -> bool {
        self.held().any(|(job, by)| job.task == *task && by == session)
    }

    fn launch_apart(&mut self, now: Time, task: usize, start: Start, performer: Performer, effects: &mut Effects) {
        self.dequeue(task);
        let (worker, carry) = (self.spare_worker(), self.tasks[task].carry.clone());
        self.launch(now, Launch { task, worker, start, purpose: Purpose::Build, performer, carry }, effects);
    }

    /// Returns an idle worker that agents do not use, adding one if needed.
    fn spare_worker(&mut self) -> WorkerId {
        let first = if self.intent.launches() { self.policy.worker_count().min(self.workers.len()) } else { 0 };
        let spare = |worker: &WorkerStatus| matches!(worker, WorkerStatus::Idle | WorkerStatus::Unprepared);
        let index = self.workers[first..].iter().position(spare).map_or(self.workers.len(), |place| first + place);
        if index == self.workers.len() {
            self.workers.push(WorkerStatus::Unprepared);
        }
        WorkerId(index as u32)
    }
}

fn why_not_free(status: &TaskStatus) -> String {
    match status {
        TaskStatus::InProgress { worker, .. } => format!("it is in progress on worker {worker}"),
        TaskStatus::Completed { .. } => "it is completed".to_string(),
        TaskStatus::Skipped { .. } => "it is skipped".to_string(),
        _ => "it is not free".to_string(),
    }
}
