//! Finds out what would land: the tip of staging, merged with the base branch as it is now.

use mahabharatha_core::config::MergeTarget;
use mahabharatha_core::ids::{Level, Oid};
use mahabharatha_core::run::event::{Candidate, Obstacle};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{Merged, RefChange, RepoPath, short_branch};

use super::gate::GateCall;
use super::worktree::StagingWorktree;
use super::{Integration, Note, missing};

impl Integration {
    /// Returns what would land now: the tip of staging merged with the current base branch.
    pub(super) fn candidate(&self, call: GateCall) -> Result<Result<Candidate, Obstacle>> {
        let staging = self.current_staging(call.staging)?;
        self.report_gained(call.level, &self.paths.staging_branch(), call.staging, &staging)?;
        let base = match self.target {
            MergeTarget::Staging => call.base.clone(),
            MergeTarget::Base => match self.current_base(call.base)? {
                Ok(tip) => tip,
                Err(obstacle) => return Ok(Err(obstacle)),
            },
        };
        if base == *call.base {
            let tree = self.tree_of(&staging)?;
            return Ok(Ok(Candidate { base, staging, tree }));
        }
        if let Some(left_behind) = self.checkout_left_behind(call.base, &base)? {
            return Ok(Err(left_behind));
        }
        self.report_gained(call.level, &self.base_branch, call.base, &base)?;
        if self.repository.is_ancestor(&staging, &base)? {
            // The base branch already contains everything of the level.
            let tree = self.tree_of(&base)?;
            return Ok(Ok(Candidate { staging: base.clone(), base, tree }));
        }
        match self.merge_base_into(&staging, &base)? {
            Merged::Clean(tree) => Ok(Ok(Candidate { base, staging, tree })),
            Merged::Conflict { tree, stages } => {
                let worktree = StagingWorktree::open(self, &staging)?;
                if !worktree.is_being_merged(&staging) {
                    worktree.show_conflict(&staging, &base, &tree, &stages)?;
                }
                let mut files: Vec<&RepoPath> = stages.iter().map(|stage| &stage.path).collect();
                files.dedup();
                let files = files.into_iter().map(RepoPath::to_string).collect();
                Ok(Err(Obstacle::Conflict { files, worktree: worktree.path.display().to_string() }))
            }
        }
    }

    /// Reports commits that land with the level but were not made by the run, such as the user's.
    fn report_gained(&self, level: Level, branch: &str, from: &Oid, to: &Oid) -> Result<()> {
        if from == to {
            return Ok(());
        }
        let range = format!("{from}..{to}");
        let log = ["log", "--first-parent", "--max-count=20", "--format=%h %s (%an)", &range];
        let commits = String::from_utf8_lossy(&self.repository.run(log)?.bytes).lines().map(str::to_owned).collect();
        (self.report)(Note::Gained { level, branch: short_branch(branch).to_owned(), commits });
        Ok(())
    }

    /// Returns an obstacle if the base branch was moved without its checkout. A commit made in the checkout is in its
    /// index; a branch moved from elsewhere leaves the index behind.
    fn checkout_left_behind(&self, was: &Oid, now: &Oid) -> Result<Option<Obstacle>> {
        // Landing reports any other problem of the checkout.
        let Ok(Some(checkout)) = self.checkout_of_base()? else { return Ok(None) };
        if !checkout.is_left_behind(was, now)? {
            return Ok(None);
        }
        let (branch, worktree) = (short_branch(&self.base_branch).to_owned(), checkout.place());
        Ok(Some(Obstacle::CheckoutLeftBehind { branch, worktree, was: was.clone(), now: now.clone() }))
    }

    pub(super) fn merge_base_into(&self, commit: &Oid, base: &Oid) -> Result<Merged> {
        let common = self.repository.merge_base(commit, base)?.ok_or_else(|| missing(base))?;
        Ok(self.objects.merge_trees(&common, commit, base, short_branch(&self.base_branch))?)
    }

    /// Returns the tip of the base branch, or an obstacle if it no longer contains the commit last seen there.
    pub(super) fn current_base(&self, seen: &Oid) -> Result<Result<Oid, Obstacle>> {
        let now = self.repository.resolve_ref(&self.base_branch)?;
        match now {
            Some(tip) if tip == *seen || self.repository.is_ancestor(seen, &tip)? => Ok(Ok(tip)),
            now => Ok(Err(Obstacle::BaseRewritten { was: seen.clone(), now })),
        }
    }

    /// Returns the tip of staging, including commits that the user added on top, such as a conflict resolution. A
    /// branch that lost the staged commit is set back to it.
    fn current_staging(&self, staged: &Oid) -> Result<Oid> {
        let name = self.paths.staging_branch();
        match self.repository.resolve_ref(&name)? {
            Some(tip) if tip == *staged || self.repository.is_ancestor(staged, &tip)? => Ok(tip),
            _ => {
                if self.repository.is_symbolic(&name) {
                    (self.report)(Note::PutBack { name: name.clone() });
                }
                self.repository.update_refs(&[RefChange::Set { name, new: staged.clone() }], "as it was staged")?;
                Ok(staged.clone())
            }
        }
    }
}
