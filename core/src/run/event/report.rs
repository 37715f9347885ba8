//! How an attempt ended.

use serde::{Deserialize, Serialize};

use super::setup::SetupFailure;
use crate::cost::Cost;
use crate::ids::{Oid, Time};
use crate::secrets::{Finding, Suppression};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    pub end: JobEnd,
    /// Unverified work, saved under the wip ref.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wip: Option<Oid>,
    /// Lifetime of the worker.
    pub ran_ms: u64,
    /// Time that the verification which passed took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_ms: Option<u64>,
    /// None if it was not measured.
    pub cost_usd: Option<f64>,
    pub tokens: u64,
    /// The agent that made the attempt, by its name in the configuration; none if it was a session or a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model that the agent was asked to use; none for its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the worker knows of the reason, beyond what `end` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Warnings for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why the attempt may have failed, for the user. Never in a prompt: it may tell of files that agents cannot see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The agent's decisions that later tasks should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,
    /// What looks like a secret in the commit and was allowed with a reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suppressed_secrets: Vec<Suppression>,
    /// What looks like a secret and made the attempt fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Finding>,
    /// Files that the agent asks for and no task can own as the files of the base are, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ungrantable: Vec<String>,
}

impl JobReport {
    /// Makes a report of nothing but how the attempt ended.
    pub fn new(end: JobEnd, ran_ms: u64) -> JobReport {
        JobReport {
            end,
            wip: None,
            ran_ms,
            verification_ms: None,
            cost_usd: None,
            tokens: 0,
            agent: None,
            model: None,
            reason: None,
            warnings: Vec::new(),
            hint: None,
            decisions: Vec::new(),
            suppressed_secrets: Vec::new(),
            secrets: Vec::new(),
            ungrantable: Vec::new(),
        }
    }

    /// Adds the hint, if there is one, to what the user is told about the attempt: at the beginning, because displays of
    /// one line show only that. Never in a prompt: it may tell of files that agents cannot see.
    pub fn with_hint(&self, text: &str) -> String {
        self.hint.iter().fold(text.to_owned(), |text, hint| format!("{hint}\n{text}"))
    }

    pub fn cost(&self) -> Cost {
        Cost::of(self.cost_usd, self.tokens)
    }

    pub fn with_cost(self, cost: Cost) -> JobReport {
        JobReport { cost_usd: cost.usd(), tokens: cost.tokens(), ..self }
    }

    /// Makes the report of an attempt that was cancelled before anything is known of it.
    pub fn cancelled() -> JobReport {
        JobReport::new(JobEnd::Cancelled, 0)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum JobEnd {
    /// Inside its ownership, verified, committed.
    Done {
        commit: Oid,
    },
    /// `feedback` goes into the next attempt's prompt.
    Failed {
        cause: FailCause,
        feedback: String,
        strays: Vec<String>,
    },
    /// The agent stopped at a checkpoint; a new one continues from the note.
    Checkpoint {
        note: String,
    },
    /// The agent says that the task cannot be done.
    Blocked {
        reason: String,
    },
    Escalated {
        reason: String,
    },
    /// The agent's API was at its limit, overloaded or unreachable. The attempt is repeated and uses up no retry.
    Unserved {
        why: String,
        /// When the limit resets, if the API says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
    },
    /// The worktree could not be set up, so no agent was started. Uses up no retry and ends the run.
    SetupFailed {
        failure: SetupFailure,
    },
    /// The worker ended without a result.
    Died {
        started: bool,
    },
    /// Cancelled; its work is saved.
    Cancelled,
}

/// A reason that programs can tell from others without reading its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The agent stopped because the budget of its task is used up.
    TaskBudget,
    /// A limit of the API is reached.
    ApiLimit,
    /// The API refuses the agent's login or key.
    ApiAccess,
    /// The verification did not end in time.
    VerificationTimeout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailCause {
    /// The agent itself failed.
    Agent,
    /// It changed files that the task does not own.
    Strays,
    /// A file that the task must create is missing.
    Missing,
    /// A fix that changed nothing.
    Unchanged,
    Verification,
    /// It would commit what looks like a secret.
    Secrets,
    Timeout,
    /// No output and no change for too long.
    Stalled,
    /// The worktree could not be prepared.
    Setup,
}
