//! A task that is said to be done: what there is of it, in the main checkout or kept from its last attempt.

use std::fs;
use std::path::Path;

use super::files;
use super::order::Order;
use super::ownership;
use super::start::{self, private_git};
use crate::error::{Result, io};
use crate::git::{Found, RepoPath};

/// Brings the task's own files into its worktree, as they lie in the main checkout where something was changed there.
pub fn take(order: &Order, job_dir: &Path) -> Result<()> {
    let index = job_dir.join("found.index");
    let git = private_git(order)?.index(&index);
    git.read_tree(&order.job.base)?;
    let in_checkout = git.clone().work_tree(&order.root);
    let mut taken = false;
    for entry in in_checkout.status()? {
        let changed = matches!(entry.found, Found::Changed | Found::Deleted | Found::Untracked);
        if changed && ownership::owner(&order.owned, &entry.path).is_some() {
            copy(order, &entry.path)?;
            taken = true;
        }
    }
    if !taken && let Some(wip) = &order.job.carry.wip {
        start::put_on_top(order, &git, &index, wip)?;
    }
    files::remove(&index)
}

fn copy(order: &Order, path: &RepoPath) -> Result<()> {
    let (from, to) = (path.under(&order.root), path.under(&order.worktree));
    files::remove(&to)?;
    let Ok(kind) = fs::symlink_metadata(&from).map(|found| found.file_type()) else { return Ok(()) };
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir).map_err(io("make", dir))?;
    }
    if kind.is_symlink() {
        let target = fs::read_link(&from).map_err(io("read", &from))?;
        std::os::unix::fs::symlink(target, &to).map_err(io("write", &to))
    } else if kind.is_file() {
        fs::copy(&from, &to).map(drop).map_err(io("write", &to))
    } else {
        Ok(())
    }
}
