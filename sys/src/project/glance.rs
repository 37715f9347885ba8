//! Finds the project without starting git, for commands that must answer within milliseconds (status line, hooks).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{Project, above_our_worktrees};
use crate::bounded::{SMALL_FILE_BYTES, read_to_string};
use crate::error::{Result, io};

impl Project {
    /// Does what `locate` does, for the usual layouts only: a main checkout, a linked worktree, a submodule. Returns
    /// `None` for any other.
    pub fn locate_without_git(start: &Path) -> Option<Project> {
        let GitDirs { checkout, git_dir, common_dir } = GitDirs::around(&start.canonicalize().ok()?).ok()??;
        let root = if git_dir == common_dir {
            checkout.clone()
        } else {
            // The checkout whose `.git` all worktrees share.
            common_dir.parent().filter(|_| common_dir.ends_with(".git"))?.to_owned()
        };
        Some(Project { root, checkout, common_dir, git_dir, settings: OnceLock::new() })
    }
}

/// The git directories of a checkout, as git finds them.
pub struct GitDirs {
    pub checkout: PathBuf,
    pub git_dir: PathBuf,
    /// The one that all worktrees share.
    pub common_dir: PathBuf,
}

impl GitDirs {
    /// Finds those of the checkout around a directory; `None` if there is no repository.
    pub fn around(dir: &Path) -> Result<Option<GitDirs>> {
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let start = above_our_worktrees(&dir).unwrap_or(dir);
        let checkout = start.ancestors().find(|dir| fs::symlink_metadata(dir.join(".git")).is_ok());
        checkout.map_or(Ok(None), GitDirs::at)
    }

    /// Finds those of a checkout; `None` if its `.git` leads nowhere. A `.git` that cannot be read is an error.
    pub fn at(checkout: &Path) -> Result<Option<GitDirs>> {
        let dot_git = checkout.join(".git");
        let git_dir = match read_to_string(&dot_git, SMALL_FILE_BYTES) {
            Ok(text) => {
                let named = text.trim_end().strip_prefix("gitdir: ");
                named.and_then(|named| checkout.join(named).canonicalize().ok())
            }
            Err(error) if error.kind() == ErrorKind::IsADirectory => Some(dot_git),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(io("read", &dot_git)(error)),
        };
        let Some(git_dir) = git_dir else { return Ok(None) };
        let common_dir = match read_to_string(&git_dir.join("commondir"), SMALL_FILE_BYTES) {
            Ok(text) => git_dir.join(text.trim_end()).canonicalize().ok(),
            Err(_) => Some(git_dir.clone()),
        };
        Ok(common_dir.map(|common_dir| GitDirs { checkout: checkout.to_owned(), git_dir, common_dir }))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, args: &[&str]) {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=T", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"]).args(args);
        assert!(
            git.current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap().status.success(),
            "{args:?}"
        );
    }

    #[test]
    fn the_result_is_the_same_as_with_git() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().canonicalize().unwrap().join("main");
        fs::create_dir_all(main.join("a/b")).unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "one"]);
        git(&main, &["worktree", "add", "-q", "../linked"]);
        git(&main, &["submodule", "--quiet", "add", "../linked", "sub"]);
        fs::create_dir_all(main.join(".mahabharatha/worktrees/x/worker-0")).unwrap();
        for place in ["", "a/b", "../linked", "sub", ".mahabharatha/worktrees/x/worker-0"] {
            let start = main.join(place);
            assert_eq!(Project::locate_without_git(&start), Project::locate(&start).unwrap(), "{place}");
        }
        assert_eq!(Project::locate_without_git(dir.path()), None);
        assert_eq!(Project::locate_without_git(&main.join("nowhere")), None);
    }
}
