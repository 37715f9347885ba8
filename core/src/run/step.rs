//! The decision: takes one event, returns the effects that follow. Total: an event that makes no sense changes nothing.

use super::breaker::Breaker;
use super::effect::{Effect, EffectId, GRACE_PERIOD};
use super::event::{Event, GateFailure, Intent, Policy, SETUP, Setup, SetupFailure};
use super::state::{End, LevelStatus, PauseCause, Phase, Run, WorkerStatus};
use crate::ids::{Time, WorkerId};

/// The effects decided in one step.
pub(super) type Effects = Vec<(EffectId, Effect)>;

impl Run {
    /// Starts a run; its first effects are outstanding.
    pub fn start(now: Time, setup: &Setup) -> Result<Run, String> {
        let mut run = Run::new(now, setup)?;
        run.pursue(now, &mut Effects::new());
        Ok(run)
    }

    /// Applies an event and returns the effects to begin. Pure, total, deterministic.
    pub fn step(&mut self, now: Time, event: &Event) -> Effects {
        // The run's time never goes back, even if the clock does.
        let now = now.max(self.updated_at);
        if self.ended() == Some(&End::Undone) {
            return Effects::new();
        }
        self.seq += 1;
        let was_ended = self.ended().is_some();
        self.count_work_time(now, event);
        self.updated_at = now;
        let mut effects = Effects::new();
        let answered = match event.answers() {
            None => None,
            Some(id) => match self.take_answered(id, event) {
                // Late or repeated: it must not count for an effect that was begun since.
                None => return effects,
                answered => answered,
            },
        };
        match event {
            // Between two processes: the one that resumes decides, with its own policy.
            Event::Started(setup) => {
                self.started_again(setup);
                return effects;
            }
            Event::Replanned { graph } => {
                self.replanned(graph);
                return effects;
            }
            Event::Resumed { policy, intent, planning } => {
                self.planning = *planning;
                self.resumed(policy, *intent);
                self.block_all_over_budget(now);
            }
            Event::BaseChecked { red, .. } => self.base_checked(red),
            Event::SlotReady { worker, .. } => self.slot_ready(*worker),
            Event::JobStarted { effect, pid, .. } => self.job_started(*effect, *pid),
            Event::JobEnded { report, .. } => {
                if let Some(Effect::RunJob(job)) = answered {
                    self.job_ended(now, &job, report);
                }
            }
            Event::Staged { level, staging, commits, .. } => self.staged(*level, staging, commits),
            Event::GatesPassed { level, candidate, passed, .. } => self.gates_passed(now, *level, candidate, passed),
            Event::GateFailed { level, failure, passed, .. } => self.gate_failed(now, *level, failure, passed),
            Event::Blamed { level, task, why, .. } => self.blamed(*level, task.as_ref(), why),
            Event::Landed { level, commit, .. } => self.landed(now, *level, commit),
            Event::NotLanded { level, obstacle, .. } => self.not_landed(now, *level, obstacle),
            Event::Closed { .. } => {
                self.phase = Phase::Ended { end: End::Completed, at: now };
                self.scaled = None;
            }
            Event::Undone { .. } => self.undone(now),
            Event::Asked { request, command } => self.asked(now, request, command, &mut effects),
            Event::Cancelled { .. } => self.cancelled(now, answered.as_ref()),
            Event::EffectFailed { error, .. } => {
                self.cancelled(now, answered.as_ref());
                self.end_with(End::Failed { why: error.clone() }, &mut effects);
            }
            Event::OutOfSpace { why } => {
                self.end_with(End::Paused { cause: PauseCause::OutOfSpace, why: why.clone() }, &mut effects)
            }
            Event::Noted { .. } | Event::Woke => {}
        }
        self.pursue(now, &mut effects);
        if self.ended().is_some() && !was_ended {
            self.confirm_work_time();
        }
        effects
    }

    /// Starts whatever can be started now, or ends the run.
    fn pursue(&mut self, now: Time, effects: &mut Effects) {
        if matches!(self.phase, Phase::CheckingBase) && self.needs_no_base_check() {
            self.phase = Phase::Working;
        }
        match &self.phase {
            Phase::CheckingBase => {
                if self.is_settled() && !self.paused {
                    let base = self.setup.start.clone();
                    self.emit(Effect::CheckBase { base }, effects);
                }
            }
            Phase::Working => self.pursue_level(now, effects),
            Phase::Closing => {
                if self.is_settled() {
                    self.emit(Effect::Close, effects);
                }
            }
            Phase::Draining { end } => {
                if self.is_settled() {
                    self.phase = Phase::Ended { end: end.clone(), at: now };
                }
            }
            Phase::Ended { .. } => {}
        }
        if matches!(self.phase, Phase::Draining { .. }) && self.is_settled() {
            self.pursue(now, effects);
        }
    }

    pub(super) fn needs_no_base_check(&self) -> bool {
        let merged = self.levels.first().is_some_and(|level| matches!(level.status, LevelStatus::Merged { .. }));
        self.base_checked || merged || !self.policy.has_gates
    }

    pub(super) fn emit(&mut self, effect: Effect, effects: &mut Effects) -> EffectId {
        let id = EffectId(self.next_effect);
        self.next_effect += 1;
        if effect.is_answered() {
            self.outstanding.insert(id, effect.clone());
        }
        effects.push((id, effect));
        id
    }

    /// Removes and returns the outstanding effect that an event answers; none for a late, repeated or senseless answer.
    fn take_answered(&mut self, id: EffectId, event: &Event) -> Option<Effect> {
        self.outstanding.get(&id).filter(|effect| effect.accepts(event))?;
        self.outstanding.remove(&id)
    }

    /// Stops launching; effects under way may end by themselves.
    pub(super) fn drain(&mut self, end: End) {
        if !matches!(self.phase, Phase::Draining { .. } | Phase::Ended { .. }) {
            self.phase = Phase::Draining { end };
        }
    }

    /// Stops launching and interrupts the effects under way.
    pub(super) fn end_with(&mut self, end: End, effects: &mut Effects) {
        self.drain(end);
        if !self.is_settled() {
            self.emit(Effect::Cancel { force: false, grace_ms: GRACE_PERIOD.as_millis() as u64, only: None }, effects);
        }
    }

    /// Ends the run for good, unless something is under way or no level is merged.
    fn undone(&mut self, now: Time) {
        let merged = self.levels.iter().any(|level| matches!(level.status, LevelStatus::Merged { .. }));
        if merged && self.outstanding.is_empty() {
            self.phase = Phase::Ended { end: End::Undone, at: now };
        }
    }

    /// Changes the start commit of a run that has not begun, for instance to one on which the gates pass.
    fn started_again(&mut self, setup: &Setup) {
        if !self.has_begun() {
            self.setup.start = setup.start.clone();
            self.setup.git_config = setup.git_config.clone();
            self.base_checked = false;
            self.red_gates.clear();
            self.outstanding.retain(|_, effect| !matches!(effect, Effect::CheckBase { .. }));
        }
    }

    fn resumed(&mut self, policy: &Policy, intent: Intent) {
        self.policy = policy.clone();
        self.paused = false;
        if intent.launches() && self.scaled != Some(policy.workers) {
            self.scaled = None;
        }
        let same_session = self.intent.is_session() && intent.is_session();
        self.intent = intent;
        self.phase = Phase::CheckingBase;
        self.breaker = Breaker::Closed { deaths: 0 };
        self.services.resumed(policy.waits_for_limits);
        self.workers = self.workers_under_way(policy.worker_count());
        if let Some(current) = self.current() {
            let level = &mut self.levels[current];
            if !same_session {
                level.fix_attempts = u32::from(matches!(level.status, LevelStatus::Fixing { job: Some(_), .. }));
            }
            level.base_moves = 0;
            level.staging_losses = 0;
            let given_up = match level.status {
                // The base branch may have moved meanwhile.
                LevelStatus::Failed { .. } | LevelStatus::AwaitingApproval { .. } => intent != Intent::Session(None),
                // The user may have fixed it by hand.
                LevelStatus::Fixing { job: None, .. } => matches!(intent, Intent::Session(Some(_))),
                _ => false,
            };
            if given_up {
                level.status = LevelStatus::Gating;
            }
        }
        self.reschedule();
    }

    /// Returns the workers as the outstanding effects show them; the others prepare their worktrees again.
    pub(super) fn workers_under_way(&self, count: usize) -> Vec<WorkerStatus> {
        let mut workers = vec![WorkerStatus::Unprepared; count];
        for effect in self.outstanding.values() {
            let (worker, status) = match effect {
                Effect::PrepareSlot { worker } => (worker, WorkerStatus::Preparing),
                Effect::RunJob(job) => {
                    let since = self.updated_at;
                    (&job.worker, WorkerStatus::Running { task: job.task.clone(), attempt: job.attempt, since })
                }
                _ => continue,
            };
            let index = worker.0 as usize;
            if index >= workers.len() {
                workers.resize(index + 1, WorkerStatus::Unprepared);
            }
            workers[index] = status;
        }
        workers
    }

    fn base_checked(&mut self, red: &[GateFailure]) {
        self.red_gates = red.to_vec();
        if let Some(failure) = red.iter().find(|failure| failure.gate == SETUP) {
            // No worktree could be set up either.
            let (output, _) = failure.output_and_end();
            let (what, command) = (format!("{SETUP} fails on the base"), failure.command.clone());
            let (output, cause) = (output.to_string(), failure.cause.clone());
            let failure = SetupFailure::Command { what, command, output, cause };
            self.drain(End::SetupFailed { failure });
        } else if red.is_empty() || self.policy.allow_red_base {
            self.base_checked = true;
        } else {
            self.drain(End::RedBase { gates: red.iter().map(|gate| gate.gate.clone()).collect() });
        }
    }

    fn slot_ready(&mut self, worker: WorkerId) {
        if let Some(status @ WorkerStatus::Preparing) = self.workers.get_mut(worker.0 as usize) {
            *status = WorkerStatus::Idle;
        }
    }

    /// Puts things back so that an effect that was not carried out is decided again.
    fn cancelled(&mut self, now: Time, effect: Option<&Effect>) {
        match effect {
            Some(Effect::PrepareSlot { worker }) => {
                if let Some(status @ WorkerStatus::Preparing) = self.workers.get_mut(worker.0 as usize) {
                    *status = WorkerStatus::Unprepared;
                }
            }
            Some(Effect::RunJob(job)) => self.job_cancelled(now, job),
            // The level's status says what is due; `pursue` decides it again.
            _ => {}
        }
    }
}
