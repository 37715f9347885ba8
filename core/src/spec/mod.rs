//! Specs as the user or the architect wrote them, not yet validated. The graph check does that.
//!
//! Called by `graph`, `engine/specs` and `planning`. Nothing may run from a spec: only a checked `TaskGraph` is run.

mod effort;
mod graph_file;
pub(crate) mod path;
mod requirements;
mod shared;
mod task_file;

pub use effort::Effort;
pub use graph_file::{FileLists, GraphFile, TaskSpec, Verification};
pub use requirements::{Criterion, Gap, Requirements, Story};
pub use shared::Shared;
pub use task_file::{import_tasks, parse_task_file, write_continued_task_file, write_task_file};

/// Why a document cannot be parsed, with the position if the format gives one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    pub message: String,
    /// 1-based line and column.
    pub at: Option<(usize, usize)>,
}

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "line {line}, column {column}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
