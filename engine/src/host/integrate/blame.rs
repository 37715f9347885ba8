//! Finds the task that made a gate fail: by the files that the gate's output names, otherwise by bisecting the level's
//! commits.

use mahabharatha_core::config::{Gate, MergeTarget};
use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::{Oid, TaskId};
use mahabharatha_core::run::event::{GateFailure, TaskCommit};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{Merged, short_branch};

use super::command::{Check, PREPARE, Ran};
use super::named::owners_named;
use super::prepare::{Prepared, Readied};
use super::worktree::StagingWorktree;
use super::{Integration, Outcome};
use crate::provision::SETUP;

/// The task that made a gate fail, if it could be determined, and the reason.
#[derive(Debug, PartialEq)]
pub struct Blame {
    pub task: Option<TaskId>,
    pub why: String,
}

/// The failed gate, as it is run on other trees.
struct Trial {
    check: Check,
    /// Whether it failed in a clean checkout.
    clean: bool,
    /// Gates to run before it, because a clean checkout has none of their output.
    before: Vec<Check>,
}

/// Result of running the failed gate on another tree.
enum Tried {
    Green,
    Red,
    /// The gate could not be run, for this reason.
    Untestable(String),
    Cancelled,
}

impl Integration {
    /// Finds the task that made a gate fail. `commits` are the level's commits in staged order.
    pub fn blame(&self, base: &Oid, failure: &GateFailure, commits: &[TaskCommit]) -> Result<Outcome<Blame>> {
        let blamed = |task: Option<TaskId>, why: String| Ok(Outcome::Done(Blame { task, why }));
        let owners = commits.iter().filter_map(|commit| {
            let owned = self.owners.get(&commit.task)?;
            Some((&commit.task, owned.as_slice() as &[OwnedPath]))
        });
        let root = self.paths.staging_worktree().display().to_string();
        let named = owners_named(&failure.output, &root, owners);
        if let (Some((task, path)), 1) = (named.first_key_value(), named.len()) {
            return blamed(Some((*task).clone()), format!("the output names {path}"));
        }
        if commits.is_empty() {
            return blamed(None, "the level has no commits".into());
        }
        let outcome = self.bisect(base, failure, commits)?;
        self.show_staging(&failure.staging)?;
        Ok(outcome)
    }

    fn bisect(&self, base: &Oid, failure: &GateFailure, commits: &[TaskCommit]) -> Result<Outcome<Blame>> {
        let blamed = |task: Option<&TaskId>, why| Ok(Outcome::Done(Blame { task: task.cloned(), why }));
        let moved = match self.target {
            MergeTarget::Base => self.current_base(base)?.ok().filter(|tip| tip != base),
            MergeTarget::Staging => None,
        };
        let worktree = StagingWorktree::open(self, &failure.staging)?;
        let trial = self.trial_of(failure);
        if let Some(tip) = &moved {
            // The gate may fail because of commits that the base branch has gained.
            let branch = short_branch(&self.base_branch);
            match self.try_tree(&worktree, &trial, &self.tree_of(tip)?)? {
                Tried::Green => {}
                Tried::Red => return blamed(None, format!("it fails on {branch} itself, at {}", tip.short())),
                Tried::Untestable(why) => return blamed(None, why),
                Tried::Cancelled => return Ok(Outcome::Cancelled),
            }
        }
        // Invariant: green with the first `green` commits of the level, red with the first `red`.
        let (mut green, mut red) = (0, commits.len());
        while red - green > 1 {
            let middle = green + (red - green) / 2;
            let tried = match self.tree_up_to(&commits[middle - 1].commit, moved.as_ref())? {
                Ok(tree) => self.try_tree(&worktree, &trial, &tree)?,
                Err(why) => Tried::Untestable(why),
            };
            match tried {
                Tried::Green => green = middle,
                Tried::Red => red = middle,
                Tried::Untestable(why) => return blamed(None, why),
                Tried::Cancelled => return Ok(Outcome::Cancelled),
            }
        }
        let task = &commits[red - 1].task;
        let why = match commits.len() {
            1 => "it is the level's only task".into(),
            _ => format!("it passes without {task}'s commit and fails with it"),
        };
        blamed(Some(task), why)
    }

    fn tree_up_to(&self, commit: &Oid, moved: Option<&Oid>) -> Result<Result<Oid, String>> {
        let Some(tip) = moved else { return self.tree_of(commit).map(Ok) };
        match self.merge_base_into(commit, tip)? {
            Merged::Clean(tree) => Ok(Ok(tree)),
            Merged::Conflict { .. } => {
                Ok(Err(format!("a part of the level conflicts with {}", short_branch(&self.base_branch))))
            }
        }
    }

    fn try_tree(&self, worktree: &StagingWorktree, trial: &Trial, tree: &Oid) -> Result<Tried> {
        if trial.clean {
            worktree.set_to_clean(tree)?;
        }
        let tree = if trial.check.name == PREPARE {
            tree.clone()
        } else {
            match self.prepare_tree(worktree, &"blame", tree)? {
                Prepared::Done(made) => made.tree,
                Prepared::Failed(..) => {
                    return Ok(Tried::Untestable(format!("{PREPARE} fails on a part of the level")));
                }
                Prepared::Cancelled => return Ok(Tried::Cancelled),
            }
        };
        if trial.check.name == SETUP {
            return Ok(match self.set_up(worktree, &"blame", &tree)? {
                Readied::Ready => Tried::Green,
                Readied::Failed(..) => Tried::Red,
                Readied::Cancelled => Tried::Cancelled,
            });
        }
        if trial.check.name != PREPARE {
            match self.set_up(worktree, &"blame", &tree)? {
                Readied::Ready => {}
                Readied::Failed(..) => return Ok(Tried::Untestable(format!("{SETUP} fails on a part of the level"))),
                Readied::Cancelled => return Ok(Tried::Cancelled),
            }
        }
        for check in &trial.before {
            worktree.set_to(&tree)?;
            if matches!(self.run(worktree, &"blame", check)?, Ran::Cancelled) {
                return Ok(Tried::Cancelled);
            }
        }
        worktree.set_to(&tree)?;
        Ok(match self.run(worktree, &"blame", &trial.check)? {
            Ran::Passed => Tried::Green,
            Ran::Failed(_) => Tried::Red,
            Ran::Cancelled => Tried::Cancelled,
        })
    }

    /// Returns the failed gate as configured, or with its command only if it is no longer configured.
    fn trial_of(&self, failure: &GateFailure) -> Trial {
        let is_it = |gate: &&Gate| gate.name == failure.gate && gate.command == failure.command;
        let configured = self.gates.iter().find(is_it);
        let check = configured.map_or_else(|| Check::prepare(&failure.command), Check::from);
        let check = Check { name: failure.gate.clone(), task: failure.task.clone(), ..check };
        let needs_others = failure.clean && check.name != PREPARE;
        let before = self.gates.iter().take_while(|gate| needs_others && !is_it(gate)).map(Check::from).collect();
        Trial { check, clean: failure.clean, before }
    }
}
