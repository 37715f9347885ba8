//! Creates, finds and removes worktrees of the repository. The caller must hold the lock that serializes this.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::Oid;

use super::{Call, Git, GitError, Result};
use crate::bounded::{self, SMALL_FILE_BYTES};
use crate::crash;

impl Git {
    /// Adds a detached worktree at the commit, without checking out files.
    pub fn worktree_add(&self, path: &Path, commit: &Oid) -> Result<()> {
        let args = ["worktree", "add", "--quiet", "--no-checkout", "--force", "--detach"].map(OsStr::new);
        self.call(Call::new(args.into_iter().chain([path.as_os_str(), commit.as_str().as_ref()]))).map(drop)
    }

    /// Removes a worktree's files and its entry in the repository, even if its files are gone already.
    pub fn worktree_remove(&self, path: &Path) -> Result<()> {
        let entry = self.worktree_git_dir(path);
        for dir in [Some(path.to_owned()), entry].into_iter().flatten() {
            crash::point(|| format!("remove {} before", dir.file_name().unwrap_or_default().display()));
            match fs::remove_dir_all(&dir) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(GitError::file("cannot remove", &dir, error));
                }
                _ => {}
            }
        }
        self.remove_incomplete_entry(path);
        Ok(())
    }

    /// Removes the entry that a git killed during `worktree add` left for this name: a directory that holds at most a
    /// lock and an empty `gitdir`.
    fn remove_incomplete_entry(&self, path: &Path) {
        let dir = self.git_dir().join("worktrees").join(path.file_name().unwrap_or_default());
        let entries: Vec<_> = fs::read_dir(&dir).into_iter().flatten().flatten().collect();
        let is_incomplete = |entry: &fs::DirEntry| match entry.file_name().to_str() {
            Some("locked") => true,
            Some("gitdir") => entry.metadata().is_ok_and(|file| file.is_file() && file.len() == 0),
            _ => false,
        };
        if entries.iter().all(is_incomplete) {
            for entry in &entries {
                let _ = fs::remove_file(entry.path());
            }
            // Fails if something was added meanwhile.
            let _ = fs::remove_dir(&dir);
        }
    }

    /// Returns the registered worktrees directly in this directory, even those whose files are gone.
    pub fn worktrees_in(&self, dir: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.git_dir().join("worktrees")).into_iter().flatten().flatten();
        let known = entries.filter_map(|entry| {
            let text = bounded::read_to_string(&entry.path().join("gitdir"), SMALL_FILE_BYTES).ok()?;
            entry.path().join(text.trim_end_matches('\n')).parent().map(Path::to_owned)
        });
        known.filter(|path| path.parent() == Some(dir)).collect()
    }

    /// Returns the full name of the branch that a worktree is on; none where its HEAD is detached or cannot be read.
    pub fn worktree_branch(&self, path: &Path) -> Option<String> {
        let head = bounded::read_to_string(&self.worktree_git_dir(path)?.join("HEAD"), SMALL_FILE_BYTES).ok()?;
        head.strip_prefix("ref: ").map(|name| name.trim_end().to_owned())
    }

    /// Returns the directory where the repository keeps a worktree's HEAD and index. Looks it up in the repository,
    /// since an agent may have changed the worktree's own `.git`.
    pub fn worktree_git_dir(&self, path: &Path) -> Option<PathBuf> {
        let entries = fs::read_dir(self.git_dir().join("worktrees")).ok()?;
        let (wanted, real) = (path.join(".git"), path.canonicalize().ok());
        entries.flatten().map(|entry| entry.path()).find(|dir| {
            let Ok(text) = bounded::read_to_string(&dir.join("gitdir"), SMALL_FILE_BYTES) else { return false };
            // The path may be relative to the directory of its file.
            let found = dir.join(text.trim_end_matches('\n'));
            let there = || found.parent().and_then(|parent| parent.canonicalize().ok());
            found == wanted || (real.is_some() && there() == real)
        })
    }
}
