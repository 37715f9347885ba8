//! A level's way from task commits to the base branch: staged on objects, gated in a worktree of its own, landed.
//!
//! Every step can be carried out again: it finds what it did before, or does the same once more.

mod blame;
mod cancel;
mod checkout;
mod command;
mod gate;
mod gate_run;
mod index_lock;
mod known;
mod land;
mod named;
mod prepare;
mod stage;
mod worktree;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use mahabharatha_core::config::{Gate, MergeTarget};
use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::{Level, Oid, TaskId};
use mahabharatha_core::run::event::GateFailure;
use mahabharatha_sys::git::{Git, Identity};
use mahabharatha_sys::project::{FeaturePaths, Project};

pub use blame::Blame;
pub use cancel::Cancel;
pub use gate::{GateCall, Gated};
pub use known::KnownFiles;
pub(super) use stage::objection;

/// What it takes to integrate the levels of one feature.
pub struct Integration {
    pub project: Project,
    pub paths: FeaturePaths,
    /// The repository, for refs, history and worktrees.
    pub repository: Git,
    /// A git directory of ours with the pinned settings, for files and objects; nobody else uses it.
    pub objects: Git,
    pub identity: Identity,
    /// The full ref name of the branch that levels land on.
    pub base_branch: String,
    pub target: MergeTarget,
    /// Run before the gates; what it changes in lock files is committed.
    pub prepare: Option<String>,
    pub gates: Vec<Gate>,
    /// What each task of the graph may change.
    pub owners: BTreeMap<TaskId, Vec<OwnedPath>>,
    /// Everything that commands see of the environment.
    pub env: BTreeMap<OsString, OsString>,
    pub cancel: Cancel,
    pub known: KnownFiles,
    /// Told as it happens, for logs and reports; nothing depends on it.
    pub report: Box<dyn Fn(Note) + Send + Sync>,
}

/// A task's own verification, to be run again where all tasks have come together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    pub task: TaskId,
    pub command: String,
    pub timeout: Duration,
}

/// How a step ended.
#[derive(Debug, PartialEq)]
pub enum Outcome<T> {
    Done(T),
    /// Canceled through `Cancel`.
    Cancelled,
}

impl<T> Outcome<T> {
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Outcome::Done(value) => Outcome::Done(make(value)),
            Outcome::Cancelled => Outcome::Cancelled,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A gate failed that does not count: it is not required, or was red on the base already.
    OnlyReported { level: Option<Level>, failure: GateFailure },
    /// What a person did on staging was in the way; it is kept under this ref.
    Kept { name: String },
    /// A branch has commits that were not put there by the run, and that land with the level.
    Gained { level: Level, branch: String, commits: Vec<String> },
    /// A ref of ours was changed by somebody else, and is put back.
    PutBack { name: String },
}

impl Integration {
    fn trailers(&self, level: Level) -> String {
        format!("Mahabharatha-Feature: {}\nMahabharatha-Level: {level}\n", self.paths.feature())
    }

    fn tree_of(&self, commit: &Oid) -> mahabharatha_sys::error::Result<Oid> {
        let tree = self.objects.rev_parse(&format!("{commit}^{{tree}}"))?;
        tree.ok_or_else(|| missing(commit))
    }
}

fn missing(commit: &Oid) -> mahabharatha_sys::error::Error {
    mahabharatha_sys::error::Error::new(
        mahabharatha_sys::error::Kind::Failed,
        format!("the repository has no commit {commit}"),
    )
    .hint("Was it cleaned out by hand? `mahabharatha retry` makes a task's commit anew.")
}
