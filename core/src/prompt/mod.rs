//! Builds the worker's prompt: a part shared by all workers of a feature, cut to a budget, then the task, which is
//! never cut. Also the prompts of the roles that are asked questions: architect, product owner, scout.
//!
//! Called by the worker, `planning` and `init`. Must never read a file: the caller brings every text.

pub mod architect;
mod context;
pub mod product_owner;
pub mod rules;
pub mod scout;
mod task;
#[cfg(test)]
mod tests;

use crate::ids::{Attempt, Feature};
use crate::run::event::GateFailure;
use crate::run::notes::TaskNote;
use crate::spec::TaskSpec;

/// Assumed characters per token. The budget is counted in characters.
pub const CHARS_PER_TOKEN: usize = 4;

/// Everything that a worker's prompt is built from.
#[derive(Debug, Clone)]
pub struct PromptInput<'a> {
    pub feature: &'a Feature,
    pub task: &'a TaskSpec,
    pub project: Option<Document<'a>>,
    pub requirements: Option<Document<'a>>,
    pub design: Option<Document<'a>>,
    /// Decisions made while the feature was being built.
    pub decisions: &'a [String],
    pub attempt: Attempt,
    pub max_attempts: u32,
    /// Output of the failed attempt.
    pub feedback: Option<&'a str>,
    /// Note of an attempt that checkpointed; its work is in the worktree.
    pub note: Option<&'a str>,
    /// Notes to the task: the user's, and those of other tasks' agents.
    pub notes: &'a [TaskNote],
    /// Ref with the work in progress of the previous attempt.
    pub wip_ref: Option<&'a str>,
    /// The gate that this attempt has to fix.
    pub fix: Option<&'a GateFailure>,
    pub worktree: &'a str,
    pub ports: &'a [u16],
    /// Security rules that apply to the task's files.
    pub rules: &'a [Document<'a>],
    /// Budget for documents and decisions; the task itself is not counted.
    pub budget_tokens: u32,
}

/// A document that goes into a prompt.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// Where a worker can read the whole document.
    pub path: &'a str,
    pub text: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Identical for all workers of a feature. It comes first, so that the model's prompt cache applies.
    pub shared: String,
    /// About this attempt at this task.
    pub own: String,
    /// The sections that did not fit into the budget, such as `Requirements › Out of Scope`.
    pub cut: Vec<String>,
}

impl Prompt {
    pub fn new(input: &PromptInput<'_>) -> Prompt {
        let (shared, cut) = context::write(input);
        Prompt { shared, own: task::write(input), cut }
    }

    pub fn text(&self) -> String {
        format!("{}---\n\n{}", self.shared, self.own)
    }
}
