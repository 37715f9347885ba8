//! Simulated workers. They outlive the orchestrator.

use std::collections::BTreeMap;

use mahabharatha_core::ids::{Oid, TaskId};
use mahabharatha_core::run::EffectId;
use mahabharatha_core::run::effect::{Job, Performer, Purpose};
use mahabharatha_core::run::event::{FailCause, JobEnd, JobReport};

use crate::faults::{Fault, Faults};
use crate::ownership;
use crate::repo::Repo;
use crate::rng::{Rng, oid};

/// An attempt and its result, which is drawn when the attempt begins.
#[derive(Debug, Clone)]
pub struct Attempted {
    pub effect: EffectId,
    pub job: Job,
    pub started_at: i64,
    /// Whether the process started, so that its pid is reported.
    pub alive: bool,
    pub ends_at: i64,
    pub report: JobReport,
    /// Time of its last heartbeat if it hangs: then the orchestrator has to kill it.
    frozen_from: Option<i64>,
}

/// Without a sign of life for so long an attempt is ended; and so it is after so long in any case.
const STALL: i64 = 600_000;
const TIMEOUT: i64 = 3_600_000;
/// Limit on the duration of an attempt that is watched.
pub const LONGEST: i64 = TIMEOUT + STALL;

/// A time during which the API limit is hit.
#[derive(Debug)]
pub struct Outage {
    /// The agent whose API it is.
    pub agent: String,
    pub until: i64,
    pub told: bool,
}

impl Outage {
    pub fn random(agent: &str, now: i64, rng: &mut Rng) -> Outage {
        let lasts = rng.one_of([1_000, 30_000, 900_000, 20_000_000]);
        Outage { agent: agent.to_string(), until: now + lasts, told: rng.chance(50) }
    }
}

#[derive(Debug, Default)]
pub struct Workers {
    pub attempts: BTreeMap<(TaskId, u32), Attempted>,
}

impl Workers {
    /// Begins an attempt; checks that it is begun only once.
    pub fn begin(&mut self, attempted: Attempted) -> &Attempted {
        let key = (attempted.job.task.clone(), attempted.job.attempt.0);
        assert!(!self.attempts.contains_key(&key), "attempt {} at {} is begun a second time", key.1, key.0);
        self.attempts.entry(key).or_insert(attempted)
    }

    pub fn get_mut(&mut self, job: &Job) -> Option<&mut Attempted> {
        self.attempts.get_mut(&(job.task.clone(), job.attempt.0))
    }
}

/// What the end of an attempt is drawn from.
pub struct Odds<'a> {
    pub repo: &'a mut Repo,
    pub faults: &'a mut Faults,
    pub rng: &'a mut Rng,
}

/// Draws how a session's attempt ends. A session that stops calling has abandoned it.
pub fn draw_held(effect: EffectId, job: &Job, now: i64, odds: Odds<'_>) -> Attempted {
    let Odds { repo, faults, rng } = odds;
    let lasts = rng.one_of([10, 5_000, 100_000, 5_000_000]);
    let end = match rng.between(0, 9) {
        0..=5 => done(job, repo, faults, rng),
        6 | 7 => failed(rng.one_of([FailCause::Strays, FailCause::Verification])),
        8 => JobEnd::Blocked { reason: "it cannot be done".to_string() },
        _ => JobEnd::Cancelled,
    };
    let wip = wip(job, &end, rng);
    let report = JobReport { wip, ..JobReport::new(end, lasts as u64) };
    Attempted {
        effect,
        job: job.clone(),
        started_at: now,
        alive: false,
        ends_at: now + lasts,
        report,
        frozen_from: None,
    }
}

/// Draws how an attempt ends.
pub fn draw(effect: EffectId, job: &Job, now: i64, odds: Odds<'_>) -> Attempted {
    let Odds { repo, faults, rng } = odds;
    let slow = if faults.strikes(Fault::JobIsSlow, rng) { 50_000 } else { 0 };
    let mut lasts = rng.between(10, 5_000) as i64 + slow;
    let (mut alive, mut frozen_from) = (true, None);
    let end = if faults.strikes(Fault::NeverStarts, rng) {
        (lasts, alive) = (lasts.min(1_000), false);
        JobEnd::Died { started: false }
    } else if faults.strikes(Fault::DiesEarly, rng) {
        lasts = lasts.min(1_999);
        JobEnd::Died { started: true }
    } else if faults.strikes(Fault::DiesLate, rng) {
        lasts += 2_000;
        JobEnd::Died { started: true }
    } else if faults.strikes(Fault::Hangs, rng) {
        match rng.between(0, 2) {
            0 => {
                lasts = TIMEOUT;
                failed(FailCause::Timeout)
            }
            1 => {
                lasts += STALL;
                failed(FailCause::Stalled)
            }
            _ => {
                frozen_from = Some(now + lasts);
                lasts = i64::from(u32::MAX);
                JobEnd::Died { started: true }
            }
        }
    } else if faults.strikes(Fault::JobFails, rng) {
        failed(rng.one_of([
            FailCause::Agent,
            FailCause::Strays,
            FailCause::Missing,
            FailCause::Verification,
            FailCause::Timeout,
            FailCause::Stalled,
            FailCause::Setup,
        ]))
    } else if faults.strikes(Fault::JobCheckpoints, rng) {
        JobEnd::Checkpoint { note: format!("half of {} by attempt {}", job.task, job.attempt) }
    } else if faults.strikes(Fault::JobBlocks, rng) {
        let reason = if rng.chance(50) { ownership::request(rng) } else { "it cannot be done".to_string() };
        if rng.chance(50) { JobEnd::Blocked { reason } } else { JobEnd::Escalated { reason } }
    } else {
        done(job, repo, faults, rng)
    };
    let wip = wip(job, &end, rng);
    let cost_usd = (!rng.chance(10)).then(|| rng.between(0, 100) as f64 / 100.0);
    let decisions = if rng.chance(10) { vec![decision(job)] } else { Vec::new() };
    let tokens = rng.between(0, 9_999);
    let report = JobReport { wip, cost_usd, tokens, decisions, ..JobReport::new(end, lasts as u64) };
    Attempted { effect, job: job.clone(), started_at: now, alive, ends_at: now + lasts, report, frozen_from }
}

fn decision(job: &Job) -> String {
    format!("as {} saw it in attempt {}", job.task, job.attempt)
}

fn done(job: &Job, repo: &mut Repo, faults: &mut Faults, rng: &mut Rng) -> JobEnd {
    let fix = matches!(job.purpose, Purpose::Fix { .. });
    let fixes = fix && !faults.strikes(Fault::FixFails, rng);
    let bad = (!fix && faults.strikes(Fault::BadCommit, rng)).then(|| rng.index(2));
    JobEnd::Done { commit: repo.commit(job, fix, fixes, bad) }
}

fn failed(cause: FailCause) -> JobEnd {
    let strays = if cause == FailCause::Strays { vec!["not/mine.rs".to_string()] } else { Vec::new() };
    JobEnd::Failed { cause, feedback: format!("failed: {cause:?}"), strays }
}

fn wip(job: &Job, end: &JobEnd, rng: &mut Rng) -> Option<Oid> {
    let unverified = !matches!(end, JobEnd::Done { .. });
    (unverified && rng.chance(50)).then(|| oid(&format!("wip {} {}", job.task, job.attempt)))
}

impl Attempted {
    pub fn is_held(&self) -> bool {
        matches!(self.job.performer, Performer::Session(_))
    }

    pub fn is_over(&self, now: i64) -> bool {
        self.ends_at <= now
    }

    /// Kills a worker without a heartbeat.
    pub fn end_if_frozen(&mut self, now: i64, rng: &mut Rng) {
        if let Some(since) = self.frozen_from {
            self.cut_short(now.max(since + STALL), JobEnd::Died { started: true }, rng);
        }
    }

    /// The orchestrator is gone: a worker that hangs is not killed.
    pub fn is_left_alone(&mut self, now: i64) {
        if self.frozen_from.is_some() && !self.is_over(now) {
            self.ends_at = i64::MAX;
        }
    }

    /// Ends the attempt early, at this time at the latest.
    pub fn cut_short(&mut self, at: i64, end: JobEnd, rng: &mut Rng) {
        if self.ends_at > at {
            self.ends_at = at;
            self.report.wip = wip(&self.job, &end, rng);
            self.report.end = end;
            self.report.ran_ms = (at - self.started_at).max(0) as u64;
        }
    }
}
