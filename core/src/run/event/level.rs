//! What is known of a level on its way to the base branch: commits, gates, obstacles.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::excerpt::few;
use crate::ids::{Oid, TaskId};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCommit {
    pub task: TaskId,
    pub commit: Oid,
}

/// A tree that passed every gate, and its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Candidate {
    /// The tip of the base branch that the tree contains.
    pub base: Oid,
    pub staging: Oid,
    pub tree: Oid,
}

/// A gate or verification that passed on a tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GatePass {
    pub command: String,
    pub tree: Oid,
    /// The task that was verified, which the command sees; none for a gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Whether the checkout was clean when the gates began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clean: bool,
}

/// Name under which `worktrees.setup` is run and reported in staging, like a gate.
pub const SETUP: &str = "worktrees.setup";
/// The same for `merge.prepare`.
pub const PREPARE: &str = "merge.prepare";
/// What the name of a task's verification begins with.
pub const VERIFICATION: &str = "verify ";

/// Returns the name under which a task's verification is reported, like that of a gate.
pub fn verification_name(task: &TaskId) -> String {
    format!("{VERIFICATION}{task}")
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateFailure {
    pub gate: String,
    pub command: String,
    /// Bounded, as it goes into a prompt.
    pub output: String,
    /// The likely cause, for the user. Never in a prompt: it may tell of files that agents cannot see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Whether that cause is what the sandbox denied the gate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
    /// The staging tip that the gate failed on.
    pub staging: Oid,
    /// The task whose own verification failed, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Whether the checkout was clean when the gates began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clean: bool,
}

impl GateFailure {
    /// Splits the output into what the gate printed and its last line in brackets, which says how it ended.
    pub fn output_and_end(&self) -> (&str, Option<&str>) {
        let output = self.output.trim_end();
        let (above, last) = output.rsplit_once('\n').unwrap_or(("", output));
        match last.starts_with('[') && last.ends_with(']') {
            true => (above.trim_end(), Some(last)),
            false => (output, None),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// A gate failed that is not required, or that already failed on the base.
    OnlyReported { failure: GateFailure },
    /// A user's work on staging was in the way; it is kept under this ref.
    StagingKept { name: String },
    /// Commits on the branch that the run did not make and that land with the level.
    Gained { branch: String, commits: Vec<String> },
    /// Lock files that `merge.prepare` made and that are not committed: symbolic links, and new ones that no task owns.
    LockFilesLeftOut { files: Vec<String> },
    /// Lock files that `merge.prepare` removed.
    LockFilesDeleted { files: Vec<String> },
    /// A ref of the run was changed from outside and is restored.
    RefPutBack { name: String },
    /// The journal was changed from outside and is restored; the changed one is kept in this file.
    JournalPutBack { aside: String },
}

/// Why a level could not land on the base branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "obstacle", rename_all = "snake_case")]
pub enum Obstacle {
    /// The base moved forward; it must be merged in and gated again.
    BaseMoved,
    /// The base no longer contains what was last seen on it.
    BaseRewritten { was: Oid, now: Option<Oid> },
    /// The base has conflicting commits; the conflict is in the staging worktree.
    Conflict { files: Vec<String>, worktree: String },
    /// The base moved forward, but the files and index of its checkout did not.
    CheckoutLeftBehind { branch: String, worktree: String, was: Oid, now: Oid },
    /// The checkout of the base branch has changes in the way.
    CheckoutInTheWay { files: Vec<String>, worktree: String, why: String },
    /// Files of these tasks changed on the base branch after the tasks had started, before the level below was merged.
    Outdated { tasks: Vec<TaskId> },
    /// The repository no longer has all objects of these tasks' commits.
    WorkLost { tasks: Vec<TaskId> },
    /// The repository no longer has all objects of the staged commit; it must be staged again.
    StagingLost,
    /// The contents of git objects of the level do not match their names.
    Forged { objects: Vec<String> },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::BaseMoved => f.write_str("the base branch kept moving while the gates ran"),
            Obstacle::BaseRewritten { was, now: None } => {
                write!(f, "the base branch is gone or has become a symbolic ref; it was at {}", was.short())
            }
            Obstacle::BaseRewritten { was, now: Some(_) } => {
                write!(f, "the base branch was rewritten: it no longer contains {}", was.short())
            }
            Obstacle::CheckoutLeftBehind { branch, worktree, was, now } => write!(
                f,
                "{branch} was moved to {}, but its checkout at {worktree} is still at {}",
                now.short(),
                was.short()
            ),
            Obstacle::Conflict { files, .. } => write!(f, "conflict in {}", files.join(", ")),
            Obstacle::CheckoutInTheWay { files, worktree, why } => {
                write!(f, "the checkout at {worktree} is in the way: {why}")?;
                if files.is_empty() { Ok(()) } else { write!(f, " ({})", files.join(", ")) }
            }
            Obstacle::Outdated { tasks } => {
                write!(f, "files of {} have changed on the base branch since it started", names(tasks))
            }
            Obstacle::WorkLost { tasks } => {
                write!(f, "the repository has lost the work of {}: objects of its commits are missing", names(tasks))
            }
            Obstacle::StagingLost => f.write_str("the repository has lost what was staged: objects are missing"),
            Obstacle::Forged { objects } => write!(
                f,
                "the contents of git objects do not match their names, so the level does not land: {}",
                few(objects)
            ),
        }
    }
}

fn names(tasks: &[TaskId]) -> String {
    tasks.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ")
}
