//! The worker's prompt: what all workers of a feature share, cut to a budget, then the task, never cut.

pub mod architect;
mod context;
pub(crate) mod markdown;
pub mod product_owner;
pub mod rules;
pub mod scout;
mod task;
#[cfg(test)]
mod tests;

use crate::ids::{Attempt, Feature};
use crate::run::event::GateFailure;
use crate::spec::TaskSpec;

pub use markdown::bound_text;

/// What a token is taken to be: the budget counts characters, four to a token.
pub const CHARS_PER_TOKEN: usize = 4;

/// Everything that a prompt is made of.
#[derive(Debug, Clone)]
pub struct PromptInput<'a> {
    pub feature: &'a Feature,
    pub task: &'a TaskSpec,
    pub project: Option<Document<'a>>,
    pub requirements: Option<Document<'a>>,
    pub design: Option<Document<'a>>,
    /// What was decided while the feature was built.
    pub decisions: &'a [String],
    pub attempt: Attempt,
    pub max_attempts: u32,
    /// The output of the attempt that failed.
    pub feedback: Option<&'a str>,
    /// Where the attempt that checkpointed stood; its work lies in the worktree.
    pub note: Option<&'a str>,
    /// Where the work of the attempt before is kept.
    pub wip_ref: Option<&'a str>,
    /// The gate that this attempt is to mend.
    pub remedy: Option<&'a GateFailure>,
    pub worktree: &'a str,
    pub ports: &'a [u16],
    /// Security rules that concern the task's files.
    pub rules: &'a [Document<'a>],
    /// For the documents and decisions; the task comes on top.
    pub budget_tokens: u32,
}

/// A text that all workers of a feature read.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// Where a worker can read all of it.
    pub path: &'a str,
    pub text: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The same for all workers of a feature, so that a model's prompt cache can serve it where it goes first.
    pub shared: String,
    /// About this attempt at this task.
    pub own: String,
    /// The sections that the budget had no room for, such as `Requirements › Out of Scope`.
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
