//! What the person has in the checkout that the command was given in.

use std::fs;

use mahabharatha_core::ids::{Feature, Oid};

use super::Project;
use crate::error::{Error, ExitCode, Result};
use crate::git::Found;

/// What a git directory holds in the middle of an operation, what that is, and how it is finished.
const UNDER_WAY: [(&str, &str, &str); 6] = [
    ("MERGE_HEAD", "a merge", "git merge --continue` or `git merge --abort"),
    ("rebase-merge", "a rebase", "git rebase --continue` or `git rebase --abort"),
    ("rebase-apply", "a rebase", "git rebase --continue` or `git rebase --abort"),
    ("CHERRY_PICK_HEAD", "a cherry-pick", "git cherry-pick --continue` or `git cherry-pick --abort"),
    ("REVERT_HEAD", "a revert", "git revert --continue` or `git revert --abort"),
    ("BISECT_LOG", "a bisection", "git bisect reset"),
];

impl Project {
    /// What git is in the middle of, and how it is finished.
    pub fn under_way(&self) -> Vec<(&'static str, &'static str)> {
        let found = UNDER_WAY.into_iter().filter(|(file, ..)| self.git_dir().join(file).exists());
        found.map(|(_, what, finish)| (what, finish)).collect()
    }

    pub fn head_commit(&self) -> Result<Oid> {
        self.find_head()?.ok_or_else(|| Error::new(ExitCode::Preflight, "HEAD is no commit"))
    }

    /// None where nothing is committed yet.
    pub(super) fn find_head(&self) -> Result<Option<Oid>> {
        Ok(match self.head().head_branch()? {
            Some(branch) => self.git().resolve_ref(&branch)?,
            None => self.head().rev_parse("HEAD^{commit}")?,
        })
    }

    /// The branch that levels land on, by its full name.
    pub fn head_branch(&self) -> Result<String> {
        self.head().head_branch()?.ok_or_else(|| {
            Error::new(ExitCode::Preflight, "HEAD is detached: there is no branch for the work to land on")
                .hint("Switch to a branch first: git switch <branch>, or git switch -c <new branch>.")
        })
    }

    /// Files that are not as committed. What cannot be named in a spec is left out.
    pub fn changed_files(&self) -> Result<Vec<String>> {
        let git = self.head().work_tree(&self.checkout);
        let changed = git.status_and_staged()?.into_iter().filter(|entry| entry.found != Found::Ignored);
        Ok(changed.filter_map(|entry| entry.path.as_str().map(str::to_owned)).collect())
    }

    /// Every feature that has a directory of its own below the git directory.
    pub fn features(&self) -> Result<Vec<Feature>> {
        let Ok(entries) = fs::read_dir(self.shared_dir()) else { return Ok(Vec::new()) };
        let mut features: Vec<Feature> = entries
            .flatten()
            .filter(|entry| entry.path().join(crate::store::journal::FILE_NAME).exists())
            .filter_map(|entry| Feature::new(entry.file_name().into_string().ok()?).ok())
            .collect();
        features.sort();
        Ok(features)
    }
}
