//! Why no worktree can be set up for work.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::excerpt::{failure_report, summary};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SetupFailure {
    /// `worktrees.setup` failed.
    Command {
        /// How it failed, and where.
        what: String,
        command: String,
        output: String,
        /// The likely cause, for the user only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// What else keeps every worker from starting, such as a missing container engine.
    Other { why: String },
}

impl SetupFailure {
    /// Returns the failure in one line.
    pub fn summary(&self) -> String {
        summary(&self.to_string())
    }

    /// Returns what a program may have printed into it.
    pub fn texts_mut(&mut self) -> Vec<&mut String> {
        match self {
            SetupFailure::Command { what, command, output, cause } => {
                [what, command, output].into_iter().chain(cause).collect()
            }
            SetupFailure::Other { why } => vec![why],
        }
    }
}

impl fmt::Display for SetupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupFailure::Command { what, command, output, .. } => {
                f.write_str(&failure_report(what, Some(command), output))
            }
            SetupFailure::Other { why } => f.write_str(why),
        }
    }
}

impl std::error::Error for SetupFailure {}
