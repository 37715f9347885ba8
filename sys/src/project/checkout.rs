//! State of the checkout in which the command was run: HEAD, changed files, git operations in progress.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use mahabharatha_core::ids::{Feature, Oid};

use super::Project;
use crate::error::{Error, Kind, Result, io};
use crate::git::Found;

/// File that git keeps during an operation, the operation's name, and the commands that finish it.
const OPERATIONS: [(&str, &str, &str); 6] = [
    ("MERGE_HEAD", "a merge", "git merge --continue` or `git merge --abort"),
    ("rebase-merge", "a rebase", "git rebase --continue` or `git rebase --abort"),
    ("rebase-apply", "a rebase", "git rebase --continue` or `git rebase --abort"),
    ("CHERRY_PICK_HEAD", "a cherry-pick", "git cherry-pick --continue` or `git cherry-pick --abort"),
    ("REVERT_HEAD", "a revert", "git revert --continue` or `git revert --abort"),
    ("BISECT_LOG", BISECTION, "git bisect reset"),
];
pub const BISECTION: &str = "a bisection";

/// Returns the git operations in progress in a worktree, each with the commands that finish it. `git_dir` is the
/// worktree's own.
pub fn operations_in(git_dir: &Path) -> impl Iterator<Item = (&'static str, &'static str)> {
    let found = OPERATIONS.into_iter().filter(|(file, ..)| git_dir.join(file).exists());
    found.map(|(_, what, finish)| (what, finish))
}

impl Project {
    /// Returns the git operations in progress, each with the commands that finish it.
    pub fn operations_in_progress(&self) -> Vec<(&'static str, &'static str)> {
        operations_in(self.git_dir()).collect()
    }

    pub fn head_commit(&self) -> Result<Oid> {
        self.find_head()?.ok_or_else(|| Error::new(Kind::Preflight, "HEAD is not a commit"))
    }

    /// Returns the HEAD commit; `None` if nothing is committed yet.
    pub(super) fn find_head(&self) -> Result<Option<Oid>> {
        Ok(match self.find_head_branch()? {
            Some(branch) => self.git().resolve_ref(&branch)?,
            None => self.head().rev_parse("HEAD^{commit}")?,
        })
    }

    fn find_head_branch(&self) -> Result<Option<String>> {
        let branch = self.head().head_branch()?;
        Ok(branch.map(|branch| self.git().follow_alias(branch)))
    }

    /// Returns the full ref name of the branch that levels land on.
    pub fn head_branch(&self) -> Result<String> {
        self.find_head_branch()?.ok_or_else(|| {
            Error::new(Kind::Preflight, "HEAD is detached: there is no branch to land on")
                .hint("Switch to a branch first: git switch <branch>, or git switch -c <new branch>.")
        })
    }

    /// Returns files with uncommitted changes, except those whose name is not UTF-8: a spec cannot name them.
    pub fn changed_files(&self) -> Result<Vec<String>> {
        let git = self.head().work_tree(&self.checkout);
        let changed = git.status_and_staged()?.into_iter().filter(|entry| entry.found != Found::Ignored);
        Ok(changed.filter_map(|entry| entry.path.as_str().map(str::to_owned)).collect())
    }

    /// Returns the filter drivers that the repository's own configuration defines, not the user's. Git runs their
    /// programs when it looks for changes.
    pub fn own_filters(&self) -> Result<Vec<String>> {
        Ok(self.head().own_filters()?)
    }

    /// Returns every feature that has a journal, sorted.
    pub fn features(&self) -> Result<Vec<Feature>> {
        let dir = self.shared_dir();
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io("read", &dir)(error)),
        };
        let mut features: Vec<Feature> = entries
            .flatten()
            .filter(|entry| entry.path().join(crate::store::journal::FILE_NAME).exists())
            .filter_map(|entry| Feature::new(entry.file_name().into_string().ok()?).ok())
            .collect();
        features.sort();
        Ok(features)
    }
}
