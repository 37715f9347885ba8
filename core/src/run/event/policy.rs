//! Settings of a run, and how far a process drives it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::Level;
use crate::isolation::Isolation;
use crate::run::accepted::Accepted;
use crate::run::roster::Roster;

/// Limit on the number of workers.
const MAX_WORKERS: u32 = 10_000;

/// Settings of a run from the configuration and the command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    pub workers: u32,
    pub max_attempts: u32,
    pub backoff: Backoff,
    pub remediation_attempts: u32,
    /// Whether anything must be checked on the base before the first launch.
    pub has_gates: bool,
    pub allow_red_base: bool,
    pub max_usd: Option<f64>,
    /// Limit on the cost of all attempts at one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_usd_per_task: Option<f64>,
    /// Whether levels land on the staging branch instead of the base branch.
    pub onto_staging: bool,
    pub clean_gates: CleanGates,
    /// Whether to wait until an API limit resets that an earlier process met.
    pub waits_for_limits: bool,
    /// Settings that decide what is executed and believed; a change needs the user's consent (`Run::unaccepted`).
    pub accepted: Accepted,
    /// Who grants files that an agent asks for.
    pub amend: Amend,
    /// The sandbox in which agents, verifications and gates run.
    pub isolation: Isolation,
    /// Whether a user must approve each level before it lands.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval: bool,
    /// When a task may start.
    pub schedule: Schedule,
    /// Which agent makes an attempt.
    #[serde(default, skip_serializing_if = "Roster::is_empty")]
    pub roster: Roster,
}

/// When a task may start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// When the level below its own is merged.
    #[default]
    Levels,
    /// When the tasks that it depends on are completed.
    Dependencies,
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Schedule::Levels => "levels",
            Schedule::Dependencies => "dependencies",
        })
    }
}

/// Limit on the cost of all attempts at one task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TaskBudget {
    pub max_usd: Option<f64>,
}

impl Policy {
    /// Returns the number of workers, limited in case the journal was tampered with.
    pub(in crate::run) fn worker_count(&self) -> usize {
        self.workers.min(MAX_WORKERS) as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Backoff {
    pub strategy: BackoffStrategy,
    pub base_ms: u64,
    pub max_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackoffStrategy {
    Exponential,
    Linear,
    Fixed,
}

/// Levels whose gates and verifications run in a clean checkout, without ignored files that earlier commands left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleanGates {
    Last,
    Every,
    Never,
}

/// Who grants files that a task does not own and its agent asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amend {
    /// The user.
    #[default]
    Ask,
    /// The run, if no task owns them.
    Auto,
}

/// How far a process drives the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// To the end.
    Complete,
    /// Until this level is merged.
    Level(Level),
    /// No launches: merge this level, which is complete.
    Merge(Level),
    /// No launches: a session claims the tasks, and says which level is to be merged now.
    Session(Option<Level>),
}

impl Intent {
    pub(in crate::run) fn launches(self) -> bool {
        matches!(self, Intent::Complete | Intent::Level(_))
    }

    pub fn is_session(self) -> bool {
        matches!(self, Intent::Session(_))
    }

    /// Returns the level after which to stop.
    pub(in crate::run) fn goal(self) -> Option<Level> {
        match self {
            Intent::Complete | Intent::Session(None) => None,
            Intent::Level(goal) | Intent::Merge(goal) | Intent::Session(Some(goal)) => Some(goal),
        }
    }
}
