//! Works on a checkout of the user from a private git directory, where git does not find what it keeps beside the index.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::{Call, Git, GitError, RepoPath, Result};
use crate::bounded;

/// Start of the names of the files that hold the shared part of a split index.
const SHARED_INDEX: &str = "sharedindex.";
const SPARSE_PATTERNS: &str = "info/sparse-checkout";
/// Maximum size of the patterns of a sparse checkout.
const MAX_PATTERNS_BYTES: u64 = 16 << 20;

impl Git {
    /// Copies the shared part of a split index from the checkout's git directory into this private one.
    pub fn take_shared_index(&self, checkout_git_dir: &Path) -> Result<()> {
        assert!(self.objects.is_some(), "only a private git directory may get files of another");
        for entry in fs::read_dir(checkout_git_dir).into_iter().flatten().flatten() {
            let is_shared = entry.file_name().to_string_lossy().starts_with(SHARED_INDEX);
            if is_shared && entry.file_type().is_ok_and(|kind| kind.is_file()) {
                let (from, to) = (entry.path(), self.git_dir.join(entry.file_name()));
                fs::copy(&from, to).map_err(|error| GitError::file("cannot copy", &from, error))?;
            }
        }
        Ok(())
    }

    /// Returns git that leaves files out of the work tree as the user's sparse checkout does.
    pub fn as_sparse_as(mut self, checkout_git_dir: &Path) -> Result<Git> {
        assert!(self.objects.is_some(), "only a private git directory may get files of another");
        let from = checkout_git_dir.join(SPARSE_PATTERNS);
        let patterns = match bounded::read(&from, MAX_PATTERNS_BYTES) {
            Ok(patterns) => patterns,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(self),
            Err(error) => return Err(GitError::file("cannot read", &from, error)),
        };
        let settings = Git::repository(checkout_git_dir).settings()?.sparse_checkout();
        if !settings.is_empty() {
            let to = self.git_dir.join(SPARSE_PATTERNS);
            fs::write(&to, patterns).map_err(|error| GitError::file("cannot write", &to, error))?;
            self.overrides = settings;
        }
        Ok(self)
    }

    /// Tells whether files are left out of the work tree as in the user's sparse checkout.
    pub fn is_sparse(&self) -> bool {
        !self.overrides.is_empty()
    }

    /// Returns the files of the index that are not in the work tree because the checkout is sparse.
    pub fn left_out_of_work_tree(&self) -> Result<BTreeSet<RepoPath>> {
        let output = self.call(Call::new(["ls-files", "-t", "-z", "--full-name"]))?;
        Ok(output.parts().filter_map(|part| part.strip_prefix(b"S ")).map(RepoPath::new).collect())
    }
}
