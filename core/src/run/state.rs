//! State of a run. Each status carries its data, so that impossible combinations cannot be written.

mod level;
mod task;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::breaker::Breaker;
use super::effect::{Answer, Effect, EffectId, Job, Performer};
use super::event::{GateFailure, GatePass, Intent, Policy, RequestId, Setup, SetupFailure};
use super::grants::Grant;
use super::notes::TaskNote;
use super::service::{Pause, Services};
use super::work_time::WorkTime;
use crate::cost::Cost;
use crate::graph::{Rules, TaskGraph};
use crate::ids::{Attempt, Feature, Level, Oid, TaskId, Time};
use crate::isolation::Isolation;

pub(super) use level::levels_of;
pub use level::{LevelFailure, LevelState, LevelStatus};
pub use task::{AttemptRecord, TaskState, TaskStatus};

#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub(super) setup: Setup,
    pub(super) graph: Arc<TaskGraph>,
    pub(super) policy: Policy,
    pub(super) intent: Intent,
    pub(super) phase: Phase,
    pub(super) base_checked: bool,
    /// In the order of the graph.
    pub(super) tasks: Vec<TaskState>,
    pub(super) levels: Vec<LevelState>,
    pub(super) workers: Vec<WorkerStatus>,
    /// For each task, the time of the longest chain that begins with it, in milliseconds.
    pub(super) ranks: Vec<u64>,
    /// For each task, whether it and everything that it depends on is completed or skipped.
    pub(super) available: Vec<bool>,
    /// Tasks that wait for a worker, the one with the longest remaining path first.
    pub(super) ready: BTreeSet<(Reverse<u64>, usize)>,
    /// Tasks that wait for a later time.
    pub(super) resting: BTreeSet<(Time, usize)>,
    pub(super) outstanding: BTreeMap<EffectId, Effect>,
    /// Jobs begun for a spec that has changed since.
    pub(super) outdated: BTreeSet<EffectId>,
    /// Attempts at tasks that are no longer in the graph, in case they come back.
    pub(super) removed: BTreeMap<TaskId, Vec<AttemptRecord>>,
    pub(super) next_effect: u64,
    /// Number of events so far, the start included: the records of the journal.
    pub(super) seq: u64,
    pub(super) breaker: Breaker,
    pub(super) services: Services,
    /// Paused by a user: launches and integrates nothing until resumed.
    pub(super) paused: bool,
    /// The number of workers that a user set during the run; holds until the run is completed.
    pub(super) scaled: Option<u32>,
    pub(super) passed: BTreeSet<GatePass>,
    pub(super) red_gates: Vec<GateFailure>,
    pub(super) answers: BTreeMap<RequestId, Answer>,
    pub(super) notes: Vec<TaskNote>,
    pub(super) grants: Vec<Grant>,
    /// Cost of planning the feature.
    pub(super) planning: Cost,
    /// Cost of the attempts that have ended.
    pub(super) spent: Cost,
    pub(super) started_at: Time,
    pub(super) updated_at: Time,
    pub(super) work_time: WorkTime,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    CheckingBase,
    Working,
    /// Launches nothing; ends when nothing is under way.
    Draining {
        end: End,
    },
    Closing,
    Ended {
        end: End,
        at: Time,
    },
}

/// How a run, or one process's part in it, ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    Completed,
    /// The requested level is merged.
    LevelMerged {
        level: Level,
    },
    /// Only blocked or waiting tasks remain.
    Blocked,
    RedBase {
        gates: Vec<String>,
    },
    /// A worktree could not be set up for work.
    SetupFailed {
        failure: SetupFailure,
    },
    GateFailed {
        level: Level,
        gate: String,
    },
    Conflict {
        level: Level,
        files: Vec<String>,
        worktree: String,
    },
    Paused {
        cause: PauseCause,
        why: String,
    },
    Stopped,
    Failed {
        why: String,
    },
    /// Its levels were reverted; nothing follows.
    Undone,
}

/// Why a run paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseCause {
    /// The budget of the run is used up.
    Budget,
    OutOfSpace,
    /// A level waited for the user's approval.
    Approval,
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub enum WorkerStatus {
    /// Has no worktree yet.
    Unprepared,
    Preparing,
    Idle,
    Running {
        task: TaskId,
        attempt: Attempt,
        since: Time,
    },
    /// Stopped by a user.
    Stopped,
}

impl Run {
    pub(super) fn new(now: Time, setup: &Setup) -> Result<Run, String> {
        let (graph, problems) = TaskGraph::check(&setup.graph, None, Rules::ACCEPTED);
        let graph = graph.ok_or_else(|| {
            problems.first().map_or_else(|| "the graph is invalid".to_string(), |problem| problem.message.clone())
        })?;
        let mut run = Run {
            policy: setup.policy.clone(),
            setup: setup.clone(),
            tasks: Vec::new(),
            levels: Vec::new(),
            graph: Arc::new(graph),
            intent: Intent::Complete,
            phase: Phase::CheckingBase,
            base_checked: false,
            workers: vec![WorkerStatus::Unprepared; setup.policy.worker_count()],
            ranks: Vec::new(),
            available: Vec::new(),
            ready: BTreeSet::new(),
            resting: BTreeSet::new(),
            outstanding: BTreeMap::new(),
            outdated: BTreeSet::new(),
            removed: BTreeMap::new(),
            next_effect: 0,
            seq: 1,
            breaker: Breaker::Closed { deaths: 0 },
            services: Services::default(),
            paused: false,
            scaled: None,
            passed: BTreeSet::new(),
            red_gates: Vec::new(),
            answers: BTreeMap::new(),
            notes: Vec::new(),
            grants: Vec::new(),
            planning: setup.planning,
            spent: Cost::default(),
            started_at: now,
            updated_at: now,
            work_time: WorkTime::default(),
        };
        run.tasks = run.graph.tasks().iter().map(|_| TaskState::default()).collect();
        run.levels = levels_of(&run.graph, &run.tasks);
        run.reschedule();
        Ok(run)
    }

    /// Returns the effects that are not answered yet.
    pub fn outstanding(&self) -> impl Iterator<Item = (EffectId, &Effect)> {
        self.outstanding.iter().map(|(id, effect)| (*id, effect))
    }

    /// Whether only tasks held by sessions are under way.
    pub fn is_settled(&self) -> bool {
        self.outstanding.values().all(Effect::is_held)
    }

    /// Returns the jobs held by sessions, with the session.
    pub fn held(&self) -> impl Iterator<Item = (&Job, &str)> {
        self.outstanding.values().filter_map(|effect| match effect {
            Effect::RunJob(job) => match &job.performer {
                Performer::Session(session) => Some((job, session.as_str())),
                _ => None,
            },
            _ => None,
        })
    }

    /// Returns the jobs held by sessions, if the run can do nothing before one of them ends; otherwise nothing.
    pub fn awaited(&self) -> impl Iterator<Item = (&Job, &str)> {
        let launches = matches!(self.phase, Phase::Working) && self.intent.launches() && !self.paused;
        let waits = launches && self.is_settled() && self.next_wakeup().is_none();
        self.held().filter(move |_| waits)
    }

    /// Returns the mode of the run; `task` if a session drives it.
    pub fn mode(&self) -> &str {
        match self.policy.isolation {
            _ if self.intent.is_session() => "task",
            Isolation::Container => "container",
            _ => "subprocess",
        }
    }

    pub fn intent(&self) -> Intent {
        self.intent
    }

    /// Returns when `Woke` is due if no other event comes.
    pub fn next_wakeup(&self) -> Option<Time> {
        if !matches!(self.phase, Phase::Working) || !self.intent.launches() || self.paused {
            return None;
        }
        let rested = self.resting.first().map(|(until, _)| *until);
        let held_back = if self.has_work_to_launch() { self.launches_again_at() } else { None };
        rested.into_iter().chain(held_back).min()
    }

    /// Whether any level has begun, so that the start commit is fixed.
    pub fn has_begun(&self) -> bool {
        self.levels.iter().any(|level| level.base.is_some())
    }

    /// Returns when the breaker, or else the next API limit, allows launches again.
    fn launches_again_at(&self) -> Option<Time> {
        let now = self.updated_at;
        // Decided again then: what an API limit still delays waits for that.
        self.breaker.wakeup().filter(|until| *until > now).or_else(|| self.services.wakeup(now))
    }

    fn has_work_to_launch(&self) -> bool {
        let status = self.current_level().map(|level| &level.status);
        !self.ready.is_empty() || matches!(status, Some(LevelStatus::Fixing { job: None, .. }))
    }

    pub fn ended(&self) -> Option<&End> {
        match &self.phase {
            Phase::Ended { end, .. } => Some(end),
            _ => None,
        }
    }

    /// Tells whether the user has stopped the run, and something is still under way.
    pub fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::Draining { end: End::Stopped })
    }

    /// The full name of the branch that levels land on.
    pub fn landing_branch(&self) -> String {
        match self.policy.onto_staging {
            false => self.setup.base_branch.clone(),
            true => format!("refs/heads/mahabharatha/{}/staging", self.setup.feature),
        }
    }

    /// Returns the commit of the last merged level, else the start of the run.
    pub fn newest_base(&self) -> &Oid {
        let merged = self.levels.iter().rev().find_map(|level| match &level.status {
            LevelStatus::Merged { commit, .. } => Some(commit),
            _ => None,
        });
        merged.unwrap_or(&self.setup.start)
    }

    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    pub fn feature(&self) -> &Feature {
        &self.setup.feature
    }

    pub fn graph(&self) -> &Arc<TaskGraph> {
        &self.graph
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    pub fn tasks(&self) -> &[TaskState] {
        &self.tasks
    }

    pub fn task(&self, id: &TaskId) -> Option<&TaskState> {
        self.graph.index(id).map(|index| &self.tasks[index])
    }

    pub fn levels(&self) -> &[LevelState] {
        &self.levels
    }

    pub fn workers(&self) -> &[WorkerStatus] {
        &self.workers
    }

    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    pub fn red_gates(&self) -> &[GateFailure] {
        &self.red_gates
    }

    pub fn passed_gates(&self) -> impl Iterator<Item = &GatePass> {
        self.passed.iter()
    }

    /// Returns the answer to a request that was carried out.
    pub fn answer(&self, request: &str) -> Option<&Answer> {
        self.answers.get(request)
    }

    /// Returns the longest pause for an API limit, while it lasts and delays launches: no other agent takes over.
    pub fn service_pause(&self) -> Option<&Pause> {
        let now = self.updated_at;
        let delays =
            |agent: &str| self.policy.roster.substitute(agent, |other| self.services.may_launch(other, now)).is_none();
        let pauses = self.services.pauses(now).filter(|(agent, _)| self.intent.launches() && delays(agent));
        pauses.map(|(_, pause)| pause).max_by_key(|pause| pause.until)
    }

    /// Returns the cost of planning and of the attempts that have ended.
    pub fn cost(&self) -> Cost {
        self.planning + self.spent
    }

    /// Returns the cost of the attempts that have ended.
    pub fn attempts_cost(&self) -> Cost {
        self.spent
    }

    /// Returns the cost of planning, as of the start or the last resume.
    pub fn planning(&self) -> Cost {
        self.planning
    }

    pub fn started_at(&self) -> Time {
        self.started_at
    }

    /// Returns when the run ended, while it has.
    pub fn ended_at(&self) -> Option<Time> {
        match &self.phase {
            Phase::Ended { at, .. } => Some(*at),
            _ => None,
        }
    }

    /// Returns the time that an attempt took, or has taken up to the latest event: without the time in which the run was idle.
    pub fn attempt_elapsed(&self, record: &AttemptRecord) -> Duration {
        match record.ended {
            Some(_) => record.took,
            None => self.elapsed().saturating_sub(record.started_work),
        }
    }

    pub fn updated_at(&self) -> Time {
        self.updated_at
    }

    /// Returns the number of events so far, the start included.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the lowest level that is not merged.
    pub fn current_level(&self) -> Option<&LevelState> {
        self.current().map(|index| &self.levels[index])
    }

    pub(super) fn current(&self) -> Option<usize> {
        // Levels merge in order, so the merged ones are a prefix.
        let merged = self.levels.partition_point(|level| matches!(level.status, LevelStatus::Merged { .. }));
        (merged < self.levels.len()).then_some(merged)
    }

    pub(super) fn level_of(&self, task: usize) -> usize {
        self.levels.partition_point(|level| level.tasks.end <= task)
    }
}
