//! Parts of the model: a task, a level, the circuit breaker, the API limit.

use std::time::Duration;

use mahabharatha_core::ids::{Level, Oid, TaskId, Time};
use mahabharatha_core::run::EffectId;
use mahabharatha_core::run::effect::Carry;
use mahabharatha_core::run::event::{Candidate, Event, GateFailure, JobEnd, JobReport, Obstacle, Policy, TaskCommit};
use mahabharatha_core::spec::TaskSpec;

/// Checkpoints of a task that use up no retry.
pub const FREE_CHECKPOINTS: u32 = 10;
/// Jobs that fail to start before their task is blocked.
const MAX_FALSE_STARTS: u32 = 10;
/// Early deaths in a row that open the breaker.
const MAX_EARLY_DEATHS: u32 = 3;
/// Launches in a row that hit the API limit before the run pauses.
const MAX_LIMITED_LAUNCHES: u32 = 10;

#[derive(Debug, Clone)]
pub struct TaskModel {
    pub spec: TaskSpec,
    pub dependencies: Vec<TaskId>,
    pub standing: Standing,
    pub last_attempt: u32,
    pub failures: u32,
    pub checkpoints: u32,
    pub false_starts: u32,
    pub rests_until: Option<Time>,
    pub carry: Carry,
    /// What its completed work was built on: a commit of the base branch, and whether there was anything else below it.
    pub built_on: Option<(Oid, bool)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    Open,
    Done(Oid),
    Blocked,
    Skipped,
}

#[derive(Debug, Clone)]
pub struct LevelModel {
    pub level: Level,
    pub merged: Option<Oid>,
    pub staged: Option<Vec<TaskCommit>>,
    pub staging: Option<Oid>,
    pub candidate: Option<Candidate>,
    pub failure: Option<GateFailure>,
    pub blamed: Option<TaskId>,
    pub fix_attempts: u32,
    /// Commits of fixes, except for tasks that were redone or skipped since.
    pub fixes: Vec<TaskCommit>,
    /// Every task was verified once more on the tree that passed.
    pub verified: bool,
    /// The tree that a user approved.
    pub approved: Option<Oid>,
    /// The fix under way.
    pub fix: Option<EffectId>,
    pub fix_carry: Carry,
}

/// Expected state of the circuit breaker.
#[derive(Debug)]
pub enum BreakerModel {
    Closed { deaths: u32 },
    Open { until: Time, probe: Option<EffectId> },
}

impl TaskModel {
    pub fn new(spec: &TaskSpec) -> TaskModel {
        TaskModel {
            spec: spec.clone(),
            dependencies: Vec::new(),
            standing: Standing::Open,
            last_attempt: 0,
            failures: 0,
            checkpoints: 0,
            false_starts: 0,
            rests_until: None,
            carry: Carry::default(),
            built_on: None,
        }
    }

    pub fn build_ended(&mut self, now: Time, report: &JobReport, policy: &Policy) {
        self.rests_until = None;
        match &report.end {
            JobEnd::Done { commit } => {
                self.standing = Standing::Done(commit.clone());
                self.carry = Carry::default();
            }
            JobEnd::Failed { feedback, .. } => self.failed(now, feedback, report, policy),
            JobEnd::Died { started: true } => self.failed(now, "The worker ended without a result.", report, policy),
            JobEnd::Died { started: false } => {
                self.false_starts += 1;
                if self.false_starts >= MAX_FALSE_STARTS {
                    self.standing = Standing::Blocked;
                } else {
                    self.rests_until = Some(now + pause(policy, self.failures.max(1)));
                }
            }
            JobEnd::Checkpoint { note } => {
                self.carry = Carry { feedback: None, note: Some(note.clone()), wip: report.wip.clone() };
                if self.checkpoints > FREE_CHECKPOINTS {
                    self.standing = Standing::Blocked;
                }
            }
            JobEnd::Blocked { .. } | JobEnd::Escalated { .. } => {
                self.standing = Standing::Blocked;
                if report.wip.is_some() {
                    self.carry.wip = report.wip.clone();
                }
            }
            JobEnd::Cancelled | JobEnd::Unserved { .. } | JobEnd::SetupFailed { .. } => {
                if report.wip.is_some() {
                    self.carry.wip = report.wip.clone();
                }
            }
        }
    }

    pub fn failed(&mut self, now: Time, feedback: &str, report: &JobReport, policy: &Policy) {
        self.failures += 1;
        self.carry = Carry { feedback: Some(feedback.to_string()), note: None, wip: report.wip.clone() };
        if self.failures >= policy.max_attempts {
            self.standing = Standing::Blocked;
        } else if !self.spec.foreground {
            self.rests_until = Some(now + pause(policy, self.failures));
        }
    }
}

fn pause(policy: &Policy, failures: u32) -> Duration {
    use mahabharatha_core::run::event::BackoffStrategy::{Exponential, Fixed, Linear};
    let factor = match policy.backoff.strategy {
        Exponential => 2f64.powi(failures as i32 - 1),
        Linear => f64::from(failures),
        Fixed => 1.0,
    };
    Duration::from_millis((policy.backoff.base_ms as f64 * factor).min(policy.backoff.max_ms as f64) as u64)
}

impl LevelModel {
    pub fn new(level: Level) -> LevelModel {
        LevelModel {
            level,
            merged: None,
            staged: None,
            staging: None,
            candidate: None,
            failure: None,
            blamed: None,
            fix_attempts: 0,
            fixes: Vec::new(),
            verified: false,
            approved: None,
            fix: None,
            fix_carry: Carry::default(),
        }
    }

    pub fn unstage(&mut self) {
        self.fix = None;
        (self.staged, self.staging, self.candidate, self.failure, self.blamed) = (None, None, None, None, None);
    }

    /// `failing`: the task of this level whose own verification failed.
    pub fn integration(&mut self, event: &Event, failing: Option<TaskId>) {
        match event {
            Event::Staged { staging, commits, .. } => {
                self.unstage();
                self.staged = Some(commits.clone());
                self.staging = Some(staging.clone());
            }
            Event::GatesPassed { candidate, .. } => {
                self.staging = Some(candidate.staging.clone());
                self.candidate = Some(candidate.clone());
                if candidate.staging == candidate.base {
                    self.merged = Some(candidate.base.clone());
                }
            }
            Event::GateFailed { failure, .. } => {
                self.staging = Some(failure.staging.clone());
                self.failure = Some(failure.clone());
                self.fix_carry = Carry::default();
                self.blamed = failing;
            }
            Event::Blamed { task, .. } => self.blamed = task.clone(),
            Event::Landed { commit, .. } => self.merged = Some(commit.clone()),
            Event::NotLanded {
                obstacle: Obstacle::WorkLost { .. } | Obstacle::Outdated { .. } | Obstacle::StagingLost,
                ..
            } => self.unstage(),
            Event::NotLanded { .. } => self.candidate = None,
            _ => {}
        }
    }

    pub fn fix_ended(&mut self, task: &TaskId, report: &JobReport, free: bool) {
        self.fix = None;
        if let JobEnd::Unserved { .. } = report.end {
            self.fix_attempts -= 1;
            self.fix_carry.wip = report.wip.clone().or(self.fix_carry.wip.take());
            return;
        }
        let text = |why: &str| Some(why.to_string());
        let (feedback, note) = match &report.end {
            JobEnd::Done { commit } => {
                self.staging = Some(commit.clone());
                self.fixes.push(TaskCommit { task: task.clone(), commit: commit.clone() });
                (None, None)
            }
            JobEnd::Unserved { .. } => unreachable!("it has returned"),
            JobEnd::Cancelled | JobEnd::SetupFailed { .. } => (None, None),
            JobEnd::Checkpoint { note } => (None, text(note)),
            JobEnd::Died { .. } => (text("The worker ended without a result."), None),
            JobEnd::Failed { feedback: why, .. }
            | JobEnd::Blocked { reason: why }
            | JobEnd::Escalated { reason: why } => (text(why), None),
        };
        let not_tried = matches!(report.end, JobEnd::Cancelled | JobEnd::SetupFailed { .. });
        self.fix_attempts -= u32::from(free || not_tried);
        self.fix_carry = Carry { feedback, note, wip: report.wip.clone() };
    }
}

/// Expected pause while the API limit lasts.
#[derive(Debug, Default)]
pub struct LimitModel {
    /// Launches in a row that hit the limit; jobs launched before a pause began count once.
    tries: u32,
    pub exhausted: bool,
    since: Option<Time>,
    pub until: Option<Time>,
    /// Whether the API named the time.
    told: bool,
}

impl LimitModel {
    pub fn job_ended(&mut self, now: Time, launched: Time, end: &JobEnd) {
        let JobEnd::Unserved { until, .. } = end else {
            if !matches!(end, JobEnd::Died { .. } | JobEnd::Cancelled | JobEnd::SetupFailed { .. }) {
                self.tries = 0;
            }
            return;
        };
        self.tries += u32::from(self.since.is_none_or(|since| since < launched));
        self.exhausted |= self.tries >= MAX_LIMITED_LAUNCHES;
        let seconds = (5 << self.tries.saturating_sub(1).min(30)).min(300);
        let told = until.filter(|until| *until > now);
        let until = told.unwrap_or(now + Duration::from_secs(seconds));
        if self.until.is_none_or(|until| until <= now) {
            (self.since, self.until, self.told) = (Some(now), Some(until), told.is_some());
        } else if self.until < Some(until) {
            (self.until, self.told) = (Some(until), told.is_some());
        }
    }

    pub fn resumed(&mut self, policy: &Policy) {
        let before = std::mem::take(self);
        if before.told && policy.waits_for_limits {
            *self = LimitModel { since: before.since, until: before.until, told: true, ..LimitModel::default() };
        }
    }
}

impl BreakerModel {
    pub fn job_ended(&mut self, now: Time, early: bool, cooldown: Duration) {
        match self {
            BreakerModel::Closed { deaths } if early => {
                *deaths += 1;
                if *deaths >= MAX_EARLY_DEATHS {
                    *self = BreakerModel::Open { until: now + cooldown, probe: None };
                }
            }
            BreakerModel::Open { until, .. } if now < *until => {}
            BreakerModel::Open { .. } if early => *self = BreakerModel::Open { until: now + cooldown, probe: None },
            _ => *self = BreakerModel::Closed { deaths: 0 },
        }
    }

    pub fn cancelled(&mut self, id: EffectId) {
        if let BreakerModel::Open { probe, .. } = self
            && *probe == Some(id)
        {
            *probe = None;
        }
    }

    pub fn launched(&mut self, id: EffectId) {
        if let BreakerModel::Open { probe, .. } = self {
            *probe = Some(id);
        }
    }
}
