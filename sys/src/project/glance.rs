//! Finds the project without starting git, for commands that must answer within milliseconds (status line, hooks).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{Project, above_our_worktrees};
use crate::store::bounded::{SMALL_FILE_BYTES, read_to_string};

impl Project {
    /// Does what `locate` does, for the usual layouts only: a main checkout, a linked worktree, a submodule. Returns
    /// `None` for any other.
    pub fn locate_without_git(start: &Path) -> Option<Project> {
        let start = start.canonicalize().ok()?;
        let start = above_our_worktrees(&start).unwrap_or(&start);
        let checkout = start.ancestors().find(|dir| fs::symlink_metadata(dir.join(".git")).is_ok())?.to_owned();
        let dot_git = checkout.join(".git");
        if dot_git.is_dir() {
            let root = checkout.clone();
            return Some(Project {
                root,
                checkout,
                common_dir: dot_git.clone(),
                git_dir: dot_git,
                settings: OnceLock::new(),
            });
        }
        let git_dir =
            checkout.join(read_to_string(&dot_git, SMALL_FILE_BYTES).ok()?.trim_end().strip_prefix("gitdir: ")?);
        let git_dir = git_dir.canonicalize().ok()?;
        let (root, common_dir) = match read_to_string(&git_dir.join("commondir"), SMALL_FILE_BYTES) {
            Ok(common) => main_checkout(&git_dir.join(common.trim_end()))?,
            Err(_) => (checkout.clone(), git_dir.clone()),
        };
        Some(Project { root, checkout, common_dir, git_dir, settings: OnceLock::new() })
    }
}

/// Returns the checkout whose `.git` is the shared git directory, and that directory.
fn main_checkout(common_dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let common_dir = common_dir.canonicalize().ok()?;
    let root = common_dir.parent().filter(|_| common_dir.ends_with(".git"))?;
    Some((root.to_owned(), common_dir.clone()))
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
