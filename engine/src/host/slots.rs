//! Worktrees of workers, created one at a time because git loses worktrees that are added concurrently.
//!
//! Files in an existing worktree are never removed here: they may be work that is saved nowhere else.

use std::fs;
use std::path::Path;

use mahabharatha_core::ids::{Oid, WorkerId};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::git::Git;
use mahabharatha_sys::store::locks::WorktreesLock;

use super::Context;
use crate::worker::check_worktree;

/// Creates the worker's worktree without files, unless it exists; its first job switches to the branch and checks out
/// what it needs.
pub fn prepare(context: &Context, worker: WorkerId) -> Result<()> {
    let (project, paths, commit) = (&context.project, &context.paths, &context.start);
    let path = &paths.worktree(worker);
    check_worktree(project.root(), &paths.worktrees_dir(), path)?;
    let git = Git::repository(project.common_dir());
    let _one_at_a_time = WorktreesLock::wait(&project.shared_dir())?;
    match (git.worktree_git_dir(path).is_some(), path.is_dir()) {
        (true, true) => return Ok(()),
        // Git no longer knows the worktree; its files may be saved nowhere else.
        (false, true) => return register_again(&git, path, commit),
        _ => {}
    }
    let name = path.file_name().unwrap_or_default().display();
    crash::point(|| format!("add {name} before"));
    git.worktree_remove(path)?;
    git.worktree_add(path, commit)?;
    crash::point(|| format!("add {name} after"));
    Ok(())
}

/// Registers a directory with files as a worktree again.
fn register_again(git: &Git, path: &Path, commit: &Oid) -> Result<()> {
    // If this process is killed midway, `cleanup` recognizes by this name that the directory holds work.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!("left-{name}"));
    fs::rename(path, &aside).map_err(io("move", path))?;
    git.worktree_add(path, commit)?;
    let link = aside.join(".git");
    if fs::symlink_metadata(&link).is_ok_and(|found| found.is_dir()) {
        fs::remove_dir_all(&link).map_err(io("remove", &link))?;
    }
    fs::rename(path.join(".git"), &link).map_err(io("write", &link))?;
    fs::remove_dir(path).map_err(io("remove", path))?;
    fs::rename(&aside, path).map_err(io("move", &aside))
}
