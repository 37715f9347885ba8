//! Worktrees of the repository: made, found, removed. The caller sees to it that this happens one at a time.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::Oid;

use super::{Call, Git, GitError, Result};
use crate::crash;

impl Git {
    /// Makes a worktree without files, which stands at the commit.
    pub fn worktree_add(&self, path: &Path, commit: &Oid) -> Result<()> {
        let args = ["worktree", "add", "--quiet", "--no-checkout", "--force", "--detach"].map(OsStr::new);
        self.call(Call::new(args.into_iter().chain([path.as_os_str(), commit.as_str().as_ref()]))).map(drop)
    }

    /// Takes a worktree away, files and administration, also one whose files are gone.
    pub fn worktree_remove(&self, path: &Path) -> Result<()> {
        let administration = self.worktree_git_dir(path);
        for dir in [Some(path.to_owned()), administration].into_iter().flatten() {
            crash::point(|| format!("remove {} before", dir.file_name().unwrap_or_default().display()));
            match fs::remove_dir_all(&dir) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(GitError::file("cannot remove", &dir, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The worktrees that the repository knows of in this directory, whether their files are there or not.
    pub fn worktrees_in(&self, dir: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.git_dir().join("worktrees")).into_iter().flatten().flatten();
        let known = entries.filter_map(|entry| {
            let text = fs::read_to_string(entry.path().join("gitdir")).ok()?;
            entry.path().join(text.trim_end_matches('\n')).parent().map(Path::to_owned)
        });
        known.filter(|path| path.parent() == Some(dir)).collect()
    }

    /// Where the repository keeps a worktree's HEAD and index. Asked of the repository, since the worktree's own `.git`
    /// may have been changed by an agent.
    pub fn worktree_git_dir(&self, path: &Path) -> Option<PathBuf> {
        let entries = fs::read_dir(self.git_dir().join("worktrees")).ok()?;
        let (wanted, real) = (path.join(".git"), path.canonicalize().ok());
        entries.flatten().map(|entry| entry.path()).find(|dir| {
            let Ok(text) = fs::read_to_string(dir.join("gitdir")) else { return false };
            // It may be relative to the directory that it stands in.
            let found = dir.join(text.trim_end_matches('\n'));
            let there = || found.parent().and_then(|parent| parent.canonicalize().ok());
            found == wanted || (real.is_some() && there() == real)
        })
    }
}
