//! Integrates a level: stages its task commits, gates them in the staging worktree, lands them on the base branch.
//!
//! Called by the host. Every step must be idempotent: after a crash it finds what it did before or does the same again.

mod adopt;
mod blame;
mod cancel;
mod candidate;
mod checkout;
mod command;
mod findings;
mod gate;
mod gate_run;
mod index_lock;
mod known;
mod land;
mod named;
mod prepare;
mod stage;
mod undo;
mod worktree;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use mahabharatha_core::config::{Gate, MergeTarget};
use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::{Level, Oid, TaskId};
use mahabharatha_core::run::event::GateFailure;
use mahabharatha_core::secrets::{Allowed, Redactor};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::{Git, Identity, Pinned};
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::store::tree;

use crate::confinement::Confinement;
use crate::provision::Setup;
use crate::provision::warm::Warm;

pub use blame::Blame;
pub use cancel::Cancel;
pub use gate::{GateCall, Gated};
pub use known::KnownFiles;
pub(super) use stage::objection;
pub use undo::{Reverted, Undoing};
pub(super) use worktree::STAGING_SANDBOX;

/// Everything needed to integrate the levels of one feature.
pub struct Integration {
    pub project: Project,
    pub paths: FeaturePaths,
    /// The repository, for refs, history and worktrees.
    pub repository: Git,
    /// A private git directory with the pinned settings, for files and objects.
    pub objects: Git,
    pub pinned: Pinned,
    pub identity: Identity,
    /// The full ref name of the branch that levels land on.
    pub base_branch: String,
    pub target: MergeTarget,
    /// Command to run before the gates; its changes to lock files are committed.
    pub prepare: Option<String>,
    /// What makes the staging worktree ready for gates, if anything is configured.
    pub setup: Option<Setup>,
    /// What a new staging worktree gets from the main checkout, if anything is configured.
    pub warm: Option<Warm>,
    pub gates: Vec<Gate>,
    /// Patterns of ignored files that a clean checkout keeps.
    pub caches: Vec<String>,
    /// Paths that each task may change.
    pub owners: BTreeMap<TaskId, Vec<OwnedPath>>,
    /// The complete environment of commands.
    pub env: BTreeMap<OsString, OsString>,
    /// Names of variables that are set for the user, and not for commands.
    pub hidden_variables: Vec<String>,
    /// How commands are confined.
    pub confinement: Confinement,
    pub cancel: Cancel,
    pub known: KnownFiles,
    /// What the configuration allows although it looks like a secret.
    pub allowed_secrets: Vec<Allowed>,
    /// Size at which a log is rotated.
    pub max_log_bytes: u64,
    /// Takes secrets out of what commands print.
    pub redactor: Redactor,
    /// Receives notes as they occur, for logs and reports; no behaviour depends on it.
    pub report: Box<dyn Fn(Note) + Send + Sync>,
}

/// A task's verification, to be run again on the combined work of all tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    pub task: TaskId,
    pub command: String,
    pub timeout: Duration,
}

/// Result of a step that can be cancelled.
#[derive(Debug, PartialEq)]
pub enum Outcome<T> {
    Done(T),
    /// Cancelled through `Cancel`.
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

/// Something that happened during integration, for logs and reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A gate failed that blocks nothing: it is not required, or failed on the base already.
    OnlyReported { level: Option<Level>, failure: GateFailure },
    /// The user's changes on staging were in the way and are kept under this ref.
    Kept { name: String },
    /// A branch has commits that were not made by the run and that land with the level.
    Gained { level: Level, branch: String, commits: Vec<String> },
    /// Lock files that `merge.prepare` made and that are not committed.
    LockFilesLeftOut { level: Level, files: Vec<String> },
    /// Lock files that `merge.prepare` removed.
    LockFilesDeleted { level: Level, files: Vec<String> },
    /// A ref of the run was changed from outside and has been restored.
    PutBack { name: String },
}

impl Integration {
    fn trailers(&self, level: Level) -> String {
        format!("Mahabharatha-Feature: {}\nMahabharatha-Level: {level}\n", self.paths.feature())
    }

    /// Returns whether the repository no longer has all objects of the commit.
    fn is_lost(&self, commit: &Oid) -> Result<bool> {
        Ok(!self.objects.lost(std::slice::from_ref(commit))?.is_empty())
    }

    /// Removes the index of staging, and creates our git directory again if it is not as it was: a command of the project
    /// may have written to both.
    fn renew_git_dir(&self) -> Result<()> {
        tree::remove(&self.staging_index())?;
        Ok(Git::objects(self.objects.git_dir(), self.project.common_dir(), &self.pinned).map(drop)?)
    }

    fn staging_index(&self) -> PathBuf {
        self.objects.git_dir().join("staging.index")
    }

    fn tree_of(&self, commit: &Oid) -> Result<Oid> {
        let tree = self.objects.rev_parse(&format!("{commit}^{{tree}}"))?;
        tree.ok_or_else(|| missing(commit))
    }
}

fn missing(commit: &Oid) -> Error {
    Error::new(Kind::Failed, format!("the repository has no commit {commit}"))
        .hint("Was it cleaned out by hand? `mahabharatha retry` makes a new commit for a task.")
}
