//! Prepares the staging worktree for gates: `merge.prepare` regenerates lock files for the combined work of all tasks,
//! `worktrees.setup` installs what they name.

use std::fmt::Display;

use mahabharatha_core::ids::{Level, Oid};
use mahabharatha_core::run::event::Candidate;
use mahabharatha_core::secrets::feedback;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{CommitText, NewCommit};

use super::Integration;
use super::command::{Check, Failed, Ran};
use super::worktree::{LockFiles, StagingWorktree};
use crate::worker::scan_secrets;

/// File of a feature that records what setup ran on in staging.
const SETUP_RECORD: &str = "staging.setup";

pub(super) enum Prepared {
    /// The tree with its regenerated lock files; other changes are dropped.
    Done(LockFiles),
    Failed(Check, Failed),
    Cancelled,
}

impl Integration {
    /// Runs `merge.prepare` on the tree, if one is configured.
    pub(super) fn prepare_tree(&self, worktree: &StagingWorktree, at: &impl Display, tree: &Oid) -> Result<Prepared> {
        let Some(command) = &self.prepare else {
            let unchanged = LockFiles { tree: tree.clone(), left_out: Vec::new(), deleted: Vec::new() };
            return Ok(Prepared::Done(unchanged));
        };
        let check = Check::prepare(command);
        worktree.set_to(tree)?;
        Ok(match self.run(worktree, at, &check)? {
            Ran::Passed => {
                let made = worktree.take_lock_files(tree)?;
                let found = scan_secrets(&self.objects, tree, &made.tree, &self.allowed_secrets)?.findings;
                if found.is_empty() {
                    Prepared::Done(made)
                } else {
                    let output = feedback(&found);
                    Prepared::Failed(check, Failed { output, likely_cause: None, denied: false })
                }
            }
            Ran::Failed(failed) => Prepared::Failed(check, failed),
            Ran::Cancelled => Prepared::Cancelled,
        })
    }

    /// Commits the lock files of the prepared tree to staging, if they changed.
    pub(super) fn commit_lock_files(&self, level: Level, before: Candidate, tree: Oid) -> Result<Candidate> {
        if tree == before.tree {
            return Ok(before);
        }
        let changes = self.objects.diff_tree(&before.tree, &tree)?;
        let parent = self.objects.read_commits(std::slice::from_ref(&before.staging))?;
        // Reuse the time of the parent commit, so that the same files give the same commit.
        let signature = parent.first().map_or_else(Vec::new, |parent| self.signature_as_of(parent));
        let message = format!("Prepare level {level}: {}\n\n{}", self.paths.feature(), self.trailers(level));
        let text = CommitText {
            parents: Vec::new(),
            author: signature.clone(),
            committer: signature,
            message: message.into_bytes(),
        };
        let made = self.objects.stack_commits(&before.staging, &[NewCommit { text: &text, changes: &changes }])?;
        let staging = made.into_iter().next().unwrap_or_else(|| before.staging.clone());
        self.repository.update_ref(&self.paths.staging_branch(), &staging, Some(&before.staging))?;
        Ok(Candidate { staging, tree, ..before })
    }

    /// Returns our identity with the commit's time.
    fn signature_as_of(&self, commit: &CommitText) -> Vec<u8> {
        let after_email = commit.committer.iter().rposition(|&byte| byte == b'>').map_or(0, |at| at + 1);
        let mut signature = format!("{} <{}>", self.identity.name, self.identity.email).into_bytes();
        signature.extend_from_slice(&commit.committer[after_email..]);
        signature
    }
}

pub(super) enum Readied {
    Ready,
    Failed(Check, Failed),
    Cancelled,
}

impl Integration {
    /// Runs `worktrees.setup` on the tree if it is due in staging. What it changes and git does not ignore is dropped.
    pub(super) fn set_up(&self, worktree: &StagingWorktree, at: &impl Display, tree: &Oid) -> Result<Readied> {
        let Some(setup) = &self.setup else { return Ok(Readied::Ready) };
        worktree.set_to(tree)?;
        let record = self.paths.dir().join(SETUP_RECORD);
        let Some(due) = setup.due(&worktree.git, tree, &worktree.path, &record)? else { return Ok(Readied::Ready) };
        due.begin()?;
        let check = Check::setup(&setup.command);
        Ok(match self.run(worktree, at, &check)? {
            Ran::Passed => {
                due.done(&worktree.status()?)?;
                Readied::Ready
            }
            Ran::Failed(failed) => Readied::Failed(check, failed),
            Ran::Cancelled => Readied::Cancelled,
        })
    }
}
