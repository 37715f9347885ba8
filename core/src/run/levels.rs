//! Levels: run the tasks, stage, gate, blame and fix, land.

use super::effect::{Carry, Effect, Job, Purpose};
use super::event::{Candidate, CleanGates, GateFailure, GatePass, Intent, Obstacle, TaskCommit};
use super::state::{End, LevelFailure, LevelState, LevelStatus, PauseCause, Phase, Run, TaskStatus};
use super::step::Effects;
use crate::ids::{Level, Oid, TaskId, Time};

/// Times that a moved base is merged in and gated again before the run pauses.
const MAX_BASE_MOVES: u32 = 3;
/// Times that a level whose staged objects were lost is built again before the run pauses.
const MAX_STAGING_LOSSES: u32 = 3;

impl Run {
    pub(super) fn pursue_level(&mut self, now: Time, effects: &mut Effects) {
        let Some(current) = self.current() else {
            self.phase = Phase::Closing;
            if self.is_settled() {
                self.emit(Effect::Close, effects);
            }
            return;
        };
        let number = self.levels[current].level;
        if let Some(before) = self.goal_reached_before(number) {
            self.drain(End::LevelMerged { level: before });
            return;
        }
        if self.paused {
            return;
        }
        match self.levels[current].status.clone() {
            LevelStatus::Pending => {
                let base = self.base_of(current);
                let level = &mut self.levels[current];
                level.status = LevelStatus::Running;
                level.base = Some(base);
                level.started_at = Some(now);
                self.queue_all();
                self.pursue_level(now, effects);
            }
            // The session decides when to merge.
            _ if self.intent == Intent::Session(None) => {}
            LevelStatus::Running if self.levels[current].open == 0 => {
                // An obsolete fix, from before the graph changed, may still run.
                if !self.is_worked_on(current) {
                    self.begin_staging(now, current, effects);
                }
            }
            LevelStatus::Running => self.pursue_tasks(now, effects),
            LevelStatus::Staging | LevelStatus::Gating | LevelStatus::Blaming { .. } | LevelStatus::Landing { .. }
                if self.staging_is_in_use() => {}
            LevelStatus::Staging => self.begin_staging(now, current, effects),
            LevelStatus::Gating => self.begin_gating(now, current, effects),
            LevelStatus::Blaming { failure } => {
                let commits = self.levels[current].commits.clone();
                let base = self.base_of(current);
                self.emit(Effect::Blame { level: number, base, failure, commits }, effects);
            }
            LevelStatus::Landing { candidate } => self.pursue_landing(now, current, &candidate, effects),
            LevelStatus::AwaitingApproval { .. } => self.await_approval(now, number, effects),
            LevelStatus::Fixing { failure, task, job: None, .. } => {
                self.pursue_fix(now, current, &failure, &task, effects);
            }
            LevelStatus::Fixing { .. } | LevelStatus::Merged { .. } | LevelStatus::Failed { .. } => {}
        }
        if matches!(self.phase, Phase::Working) {
            // Tasks of higher levels that need nothing more.
            self.launch_ready(now, effects);
        }
    }

    fn pursue_landing(&mut self, now: Time, current: usize, candidate: &Candidate, effects: &mut Effects) {
        match self.landing(current, candidate) {
            LevelStatus::Landing { candidate } => {
                let level = self.levels[current].level;
                self.emit(Effect::Land { level, candidate }, effects);
            }
            // Since the gates passed, the configuration was changed to ask for approval.
            awaiting => {
                self.levels[current].status = awaiting;
                self.pursue_level(now, effects);
            }
        }
    }

    fn await_approval(&mut self, now: Time, level: Level, effects: &mut Effects) {
        self.launch_ready(now, effects);
        // While something is in progress, a skipped or retried task may still reopen the level.
        if self.is_settled() {
            let why = format!("level {level} waits for your approval");
            self.drain(End::Paused { cause: PauseCause::Approval, why });
        }
    }

    /// Whether a job may still change what the level consists of: any but those of higher levels.
    fn is_worked_on(&self, level: usize) -> bool {
        let is_above = |job: &Job| self.graph.index(&job.task).is_some_and(|task| self.level_of(task) > level);
        self.outstanding.values().any(|effect| match effect {
            Effect::RunJob(job) => job.purpose != Purpose::Build || !is_above(job),
            _ => false,
        })
    }

    fn staging_is_in_use(&self) -> bool {
        self.outstanding.values().any(Effect::is_integration)
    }

    /// Whether the integration lock is needed: for an effect under way, or to keep other features from landing between this
    /// level's gates and its landing.
    pub fn is_integrating(&self) -> bool {
        let lands = self.current_level().is_some_and(|level| matches!(level.status, LevelStatus::Landing { .. }));
        self.staging_is_in_use() || lands && !self.paused && matches!(self.phase, Phase::CheckingBase | Phase::Working)
    }

    /// Returns the level after which this process stops, if the current one is beyond it.
    fn goal_reached_before(&self, current: Level) -> Option<Level> {
        self.intent.goal().filter(|goal| current > *goal)
    }

    /// Returns the commit of the level below, or the start of the run.
    pub(super) fn base_of(&self, level: usize) -> Oid {
        match level.checked_sub(1).map(|below| &self.levels[below].status) {
            Some(LevelStatus::Merged { commit, .. }) => commit.clone(),
            _ => self.setup.start.clone(),
        }
    }

    pub(super) fn is_last(&self, level: usize) -> bool {
        level + 1 == self.levels.len()
    }

    fn begin_staging(&mut self, now: Time, current: usize, effects: &mut Effects) {
        let base = self.base_of(current);
        let tasks = self.commits_to_stage(current);
        let number = self.levels[current].level;
        if tasks.is_empty() && !self.is_last(current) {
            // Every task was skipped, so there is nothing to merge.
            self.levels[current].status = LevelStatus::Merged { commit: base, at: now, landed: false };
            self.pursue_level(now, effects);
            return;
        }
        self.levels[current].status = LevelStatus::Staging;
        self.emit(Effect::Stage { level: number, base, tasks }, effects);
    }

    /// Returns each task's commit followed by its fixes, then the fixes by tasks of other levels.
    fn commits_to_stage(&self, level: usize) -> Vec<TaskCommit> {
        let LevelState { tasks, fixes, .. } = &self.levels[level];
        let mut commits = Vec::new();
        for index in tasks.clone() {
            if let TaskStatus::Completed { commit, .. } = &self.tasks[index].status {
                let task = &self.graph.tasks()[index].id;
                commits.push(TaskCommit { task: task.clone(), commit: commit.clone() });
                commits.extend(fixes.iter().filter(|fix| fix.task == *task).cloned());
            }
        }
        let is_here = |fix: &TaskCommit| self.graph.index(&fix.task).is_some_and(|index| tasks.contains(&index));
        commits.extend(fixes.iter().filter(|fix| !is_here(fix)).cloned());
        commits
    }

    fn begin_gating(&mut self, now: Time, current: usize, effects: &mut Effects) {
        let Some(staging) = self.levels[current].staging.clone() else {
            return self.begin_staging(now, current, effects);
        };
        let clean = self.is_gated_clean(current);
        let gate = Effect::Gate {
            level: self.levels[current].level,
            base: self.base_of(current),
            staging,
            passed: self.passed.iter().filter(|pass| pass.clean || !clean).cloned().collect(),
            verify: self.to_verify(current),
            clean,
            ignore: self.red_gates.iter().map(|gate| gate.gate.clone()).collect(),
        };
        self.emit(gate, effects);
    }

    /// Tells whether the gates of the current level begin with a clean checkout.
    pub fn is_next_gated_clean(&self) -> bool {
        self.current().is_some_and(|current| self.is_gated_clean(current))
    }

    fn is_gated_clean(&self, level: usize) -> bool {
        match self.policy.clean_gates {
            CleanGates::Last => self.is_last(level),
            CleanGates::Every => true,
            CleanGates::Never => false,
        }
    }

    /// Returns the index of the current level, if it is the one that an answer is about.
    fn integrating(&self, level: Level) -> Option<usize> {
        self.current().filter(|current| self.levels[*current].level == level)
    }

    pub(super) fn staged(&mut self, level: Level, staging: &Oid, commits: &[TaskCommit]) {
        let Some(current) = self.integrating(level) else { return };
        let state = &mut self.levels[current];
        state.staging = Some(staging.clone());
        state.commits = commits.to_vec();
        state.status = LevelStatus::Gating;
    }

    pub(super) fn gates_passed(&mut self, now: Time, level: Level, candidate: &Candidate, passed: &[GatePass]) {
        let Some(current) = self.integrating(level) else { return };
        self.passed.extend(passed.iter().cloned());
        let verified = self.is_last(current);
        let status = if candidate.staging == candidate.base {
            LevelStatus::Merged { commit: candidate.base.clone(), at: now, landed: false }
        } else {
            self.landing(current, candidate)
        };
        let state = &mut self.levels[current];
        state.staging = Some(candidate.staging.clone());
        state.verified = verified;
        state.status = status;
    }

    /// Returns the status of a level that passed its gates: it lands, or waits for the approval of exactly this tree.
    fn landing(&self, level: usize, candidate: &Candidate) -> LevelStatus {
        let candidate = candidate.clone();
        if !self.policy.approval || self.levels[level].approved.as_ref() == Some(&candidate.tree) {
            LevelStatus::Landing { candidate }
        } else {
            LevelStatus::AwaitingApproval { candidate }
        }
    }

    pub(super) fn gate_failed(&mut self, now: Time, level: Level, failure: &GateFailure, passed: &[GatePass]) {
        let Some(current) = self.integrating(level) else { return };
        self.passed.extend(passed.iter().cloned());
        self.levels[current].staging = Some(failure.staging.clone());
        // A task of a lower level did not change, so a task of this level broke its verification: find out which.
        let of_this_level = |task: &&TaskId| self.graph.index(task).map(|index| self.level_of(index)) == Some(current);
        let failing = failure.task.as_ref().filter(of_this_level);
        if let Some(early) = failing.and_then(|task| self.graph.index(task)).filter(|task| self.is_early(*task)) {
            let GateFailure { command, output, .. } = failure;
            let feedback = format!("The verification fails on the merged work of level {level}: {command}\n\n{output}");
            return self.redo(now, early, &feedback);
        }
        match failing {
            Some(task) => self.fix(current, failure, task, "its own verification fails on the merged tree"),
            None if self.levels[current].commits.is_empty() => {
                self.fail_gate(current, failure, None, "no task of this level can have caused it");
            }
            None => self.levels[current].status = LevelStatus::Blaming { failure: failure.clone() },
        }
    }

    pub(super) fn blamed(&mut self, level: Level, task: Option<&TaskId>, why: &str) {
        let Some(current) = self.integrating(level) else { return };
        let LevelStatus::Blaming { failure } = self.levels[current].status.clone() else { return };
        match task {
            Some(task) => self.fix(current, &failure, task, why),
            None => self.fail_gate(current, &failure, None, why),
        }
    }

    /// Asks the blamed task for a fix, or fails the gate if none is allowed.
    fn fix(&mut self, current: usize, failure: &GateFailure, task: &TaskId, why: &str) {
        if self.can_fix(current, task).is_none() {
            self.fail_gate(current, failure, Some(task), &format!("{task} is to blame: {why}"));
            return;
        }
        self.levels[current].status =
            LevelStatus::Fixing { failure: failure.clone(), task: task.clone(), carry: Carry::default(), job: None };
    }

    pub(super) fn fail_gate(&mut self, current: usize, failure: &GateFailure, task: Option<&TaskId>, why: &str) {
        let level = &mut self.levels[current];
        let failure_of_gate =
            LevelFailure::Gate { failure: failure.clone(), task: task.cloned(), why: why.to_string() };
        level.status = LevelStatus::Failed { failure: failure_of_gate };
        let end = End::GateFailed { level: level.level, gate: failure.gate.clone() };
        self.drain(end);
    }

    pub(super) fn landed(&mut self, now: Time, level: Level, commit: &Oid) {
        let Some(current) = self.integrating(level) else { return };
        self.levels[current].status = LevelStatus::Merged { commit: commit.clone(), at: now, landed: true };
    }

    pub(super) fn not_landed(&mut self, now: Time, level: Level, obstacle: &Obstacle) {
        let Some(current) = self.integrating(level) else { return };
        if let Obstacle::Outdated { tasks } = obstacle
            && self.redo_outdated(now, current, tasks)
        {
            return;
        }
        let state = &mut self.levels[current];
        if *obstacle == Obstacle::BaseMoved && state.base_moves < MAX_BASE_MOVES {
            state.base_moves += 1;
            state.status = LevelStatus::Gating;
            return;
        }
        if matches!(obstacle, Obstacle::WorkLost { .. } | Obstacle::Outdated { .. } | Obstacle::StagingLost) {
            // Staging is built again from the tasks' commits.
            state.run_again();
        }
        if *obstacle == Obstacle::StagingLost && state.staging_losses < MAX_STAGING_LOSSES {
            state.staging_losses += 1;
            return;
        }
        state.status = LevelStatus::Failed { failure: LevelFailure::Obstacle(obstacle.clone()) };
        let end = match obstacle {
            Obstacle::Conflict { files, worktree } => {
                End::Conflict { level, files: files.clone(), worktree: worktree.clone() }
            }
            Obstacle::BaseMoved => End::Paused {
                cause: PauseCause::Other,
                why: format!("the base branch moved {MAX_BASE_MOVES} times while level {level} was gated"),
            },
            Obstacle::WorkLost { .. }
            | Obstacle::Outdated { .. }
            | Obstacle::StagingLost
            | Obstacle::BaseRewritten { .. }
            | Obstacle::CheckoutLeftBehind { .. }
            | Obstacle::CheckoutInTheWay { .. }
            | Obstacle::Forged { .. } => End::Paused { cause: PauseCause::Other, why: obstacle.to_string() },
        };
        self.drain(end);
    }

    /// Has the early tasks among these done again; returns whether there are any.
    fn redo_outdated(&mut self, now: Time, level: usize, tasks: &[TaskId]) -> bool {
        let of_level = self.levels[level].tasks.clone();
        let indices = tasks.iter().filter_map(|task| self.graph.index(task)).filter(|task| of_level.contains(task));
        let early: Vec<usize> = indices.filter(|task| self.is_early(*task)).collect();
        for &task in &early {
            self.redo(now, task, "Files of this task have changed on the base branch since the attempt began.");
        }
        !early.is_empty()
    }
}
