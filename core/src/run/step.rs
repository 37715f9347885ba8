//! The decision: one event in, the effects that follow from it out. Total: an event that makes no sense here changes nothing.

use super::breaker::Breaker;
use super::effect::{Effect, EffectId};
use super::event::{Event, GateFailure, Intent, Policy, Setup};
use super::state::{End, LevelStatus, Phase, Run, TaskState, TaskStatus, WorkerStatus, levels_of};
use crate::graph::TaskGraph;
use crate::ids::{Time, WorkerId};
use crate::spec::GraphFile;

/// The effects decided in one step.
pub(super) type Effects = Vec<(EffectId, Effect)>;

impl Run {
    /// A new run; what it begins with is outstanding.
    pub fn start(now: Time, setup: &Setup) -> Result<Run, String> {
        let mut run = Run::new(now, setup)?;
        run.pursue(now, &mut Effects::new());
        Ok(run)
    }

    /// Pure, total, deterministic.
    pub fn step(&mut self, now: Time, event: &Event) -> Effects {
        // A clock that goes back must not make anything older than what it follows from.
        let now = now.max(self.updated_at);
        self.updated_at = now;
        let mut effects = Effects::new();
        match event {
            Event::Started(setup) => self.started_again(setup),
            Event::Resumed { policy, intent } => self.resumed(policy, *intent),
            Event::Replanned { graph } => self.replanned(graph),
            Event::BaseChecked { red } => self.base_checked(red),
            Event::SlotReady { worker } => self.slot_ready(*worker),
            Event::JobStarted { task, attempt, pid } => self.job_started(task, *attempt, *pid),
            Event::JobEnded { task, attempt, report } => self.job_ended(now, task, *attempt, report),
            Event::Staged { level, staging, commits } => self.staged(*level, staging, commits),
            Event::GatesPassed { level, candidate, passed } => self.gates_passed(now, *level, candidate, passed),
            Event::GateFailed { level, failure, passed } => self.gate_failed(*level, failure, passed),
            Event::Blamed { level, task, why } => self.blamed(*level, task.as_ref(), why),
            Event::Landed { level, commit } => self.landed(now, *level, commit),
            Event::NotLanded { level, obstacle } => self.not_landed(*level, obstacle),
            Event::Closed => {
                if self.answered(|effect| matches!(effect, Effect::Close)) {
                    self.phase = Phase::Ended { end: End::Completed, at: now };
                }
            }
            Event::Asked { request, command } => self.asked(now, request, command, &mut effects),
            Event::Interrupted { effect } => {
                if let Some(effect) = self.outstanding.remove(effect) {
                    self.called_off(&effect);
                }
            }
            Event::EffectFailed { effect, error } => {
                if let Some(effect) = self.outstanding.remove(effect) {
                    self.called_off(&effect);
                    self.wind_down(End::Failed { why: error.clone() }, &mut effects);
                }
            }
            Event::Woke => {}
        }
        self.pursue(now, &mut effects);
        effects
    }

    /// Starts whatever can be started now, or ends.
    fn pursue(&mut self, now: Time, effects: &mut Effects) {
        if matches!(self.phase, Phase::CheckingBase) && self.needs_no_base_check() {
            self.phase = Phase::Working;
        }
        match &self.phase {
            Phase::CheckingBase => {
                if self.outstanding.is_empty() {
                    let base = self.setup.start.clone();
                    self.emit(Effect::CheckBase { base }, effects);
                }
            }
            Phase::Working => self.pursue_level(now, effects),
            Phase::Closing => {
                if self.outstanding.is_empty() {
                    self.emit(Effect::Close, effects);
                }
            }
            Phase::Draining { end } => {
                if self.outstanding.is_empty() {
                    self.phase = Phase::Ended { end: end.clone(), at: now };
                }
            }
            Phase::Ended { .. } => {}
        }
        if matches!(self.phase, Phase::Draining { .. }) && self.outstanding.is_empty() {
            self.pursue(now, effects);
        }
    }

    fn needs_no_base_check(&self) -> bool {
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

    /// Takes the outstanding effect that an event answers; false where there is none, as for a late or repeated event.
    pub(super) fn answered(&mut self, matches: impl Fn(&Effect) -> bool) -> bool {
        let id = self.outstanding.iter().find(|(_, effect)| matches(effect)).map(|(id, _)| *id);
        id.is_some_and(|id| self.outstanding.remove(&id).is_some())
    }

    /// No new launches; what is under way may end by itself.
    pub(super) fn drain(&mut self, end: End) {
        if !matches!(self.phase, Phase::Draining { .. } | Phase::Ended { .. }) {
            self.phase = Phase::Draining { end };
        }
    }

    /// No new launches, and what is under way is called off.
    pub(super) fn wind_down(&mut self, end: End, effects: &mut Effects) {
        self.drain(end);
        if !self.outstanding.is_empty() {
            self.emit(Effect::Interrupt { force: false, grace_ms: 10_000, only: None }, effects);
        }
    }

    /// As long as nothing has begun, the run may begin from another commit, such as one on which the gates are green.
    fn started_again(&mut self, setup: &Setup) {
        if !self.has_begun() {
            self.setup.start = setup.start.clone();
            self.setup.git_config = setup.git_config.clone();
            self.outstanding.retain(|_, effect| !matches!(effect, Effect::CheckBase { .. }));
        }
    }

    fn resumed(&mut self, policy: &Policy, intent: Intent) {
        self.policy = policy.clone();
        self.intent = intent;
        self.phase = Phase::CheckingBase;
        self.breaker = Breaker::Closed { deaths: 0 };
        self.workers = self.workers_under_way(policy.workers as usize);
        if let Some(current) = self.current() {
            let level = &mut self.levels[current];
            level.remedies = 0;
            level.base_moves = 0;
            if matches!(level.status, LevelStatus::Failed { .. }) {
                level.status = LevelStatus::Gating;
            }
        }
    }

    /// Workers as the outstanding effects show them; the others make their worktrees anew.
    fn workers_under_way(&self, count: usize) -> Vec<WorkerStatus> {
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

    /// Takes over a graph in which only tasks that had not been completed differ.
    fn replanned(&mut self, file: &GraphFile) {
        let (Some(graph), _) = TaskGraph::check(file, None) else { return };
        let known = |id| self.graph.index(id).map(|index| self.tasks[index].clone());
        let tasks: Vec<TaskState> = graph.tasks().iter().map(|task| known(&task.id).unwrap_or_default()).collect();
        let mut levels = levels_of(&graph, &tasks);
        for level in &mut levels {
            if let Some(old) = self.levels.iter().find(|old| old.level == level.level) {
                let (range, open) = (level.tasks.clone(), level.open);
                *level = old.clone();
                level.tasks = range;
                level.open = open;
            }
        }
        self.setup.graph = file.clone();
        self.graph = graph.into();
        self.tasks = tasks;
        self.levels = levels;
        self.ready.clear();
        self.resting.clear();
        let Some(current) = self.current() else { return };
        if self.levels[current].open > 0 && !matches!(self.levels[current].status, LevelStatus::Pending) {
            // New work came into a level that was being merged: what was begun for that no longer counts.
            self.levels[current].status = LevelStatus::Running;
            self.outstanding.retain(|_, effect| matches!(effect, Effect::RunJob(_) | Effect::PrepareSlot { .. }));
            self.queue_level(current);
        }
    }

    fn base_checked(&mut self, red: &[GateFailure]) {
        if !self.answered(|effect| matches!(effect, Effect::CheckBase { .. })) {
            return;
        }
        self.red_gates = red.to_vec();
        if red.is_empty() || self.policy.allow_red_base {
            self.base_checked = true;
        } else {
            self.drain(End::RedBase { gates: red.iter().map(|gate| gate.gate.clone()).collect() });
        }
    }

    fn slot_ready(&mut self, worker: WorkerId) {
        let ready = self.answered(|effect| matches!(effect, Effect::PrepareSlot { worker: of } if *of == worker));
        if ready && let Some(status @ WorkerStatus::Preparing) = self.workers.get_mut(worker.0 as usize) {
            *status = WorkerStatus::Idle;
        }
    }

    /// An effect that ended without its answer leaves things so that it is decided again.
    fn called_off(&mut self, effect: &Effect) {
        match effect {
            Effect::PrepareSlot { worker } => {
                if let Some(status @ WorkerStatus::Preparing) = self.workers.get_mut(worker.0 as usize) {
                    *status = WorkerStatus::Unprepared;
                }
            }
            Effect::RunJob(job) => self.job_called_off(job),
            // The level's status says what is due; `pursue` decides it again.
            _ => {}
        }
    }

    /// Puts every task of a level that can be launched into the queue.
    pub(super) fn queue_level(&mut self, level: usize) {
        for task in self.levels[level].tasks.clone() {
            match self.tasks[task].status {
                TaskStatus::Pending if self.graph.tasks()[task].spec.foreground => {
                    self.tasks[task].status = TaskStatus::Waiting;
                }
                TaskStatus::Pending => self.enqueue(task),
                TaskStatus::Resting { until } => {
                    self.resting.insert((until, task));
                }
                _ => {}
            }
        }
    }
}
