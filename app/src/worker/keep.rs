//! Work that is not verified is kept under a ref of its own, never merged.

use std::fs;
use std::path::Path;

use mahabharatha_core::ids::{Attempt, Oid, TaskId};

use super::order::Order;
use super::{files, ownership};
use crate::error::Result;
use crate::git::{Git, Identity, RefChange, RepoPath};

/// A file beyond this is named, not kept.
const MAX_FILE: u64 = 50 << 20;

/// For whom work is kept, and on top of what.
pub struct Keeper<'a> {
    order: &'a Order,
    task: &'a TaskId,
    attempt: Attempt,
    base: &'a Oid,
}

pub struct Kept {
    pub wip: Option<Oid>,
    pub warnings: Vec<String>,
}

impl<'a> Keeper<'a> {
    pub fn new(order: &'a Order, task: &'a TaskId, attempt: Attempt, base: &'a Oid) -> Self {
        Keeper { order, task, attempt, base }
    }

    pub fn of(order: &'a Order) -> Self {
        Keeper::new(order, &order.job.task, order.job.attempt, &order.job.base)
    }

    pub fn base(&self) -> &Oid {
        self.base
    }

    /// The ref that the work is kept under.
    pub fn name(&self) -> String {
        format!("refs/mahabharatha/{}/wip/{}/{}", self.order.feature, self.task, self.attempt)
    }

    fn message(&self, remark: &str) -> String {
        format!(
            "wip({}): attempt {}{remark}\n\nMahabharatha-Feature: {}\nMahabharatha-Task: {}\nMahabharatha-Attempt: {}\n",
            self.task, self.attempt, self.order.feature, self.task, self.attempt
        )
    }

    fn identity(&self) -> &Identity {
        &self.order.identity
    }
}

/// One commit with what the task owns and, where there is anything else, another on top with that.
/// The index of `git` must be as in the base commit.
pub fn keep(keeper: &Keeper<'_>, git: &Git, owned: &[&RepoPath], others: &[&RepoPath]) -> Result<Kept> {
    let mut kept = Kept { wip: None, warnings: Vec::new() };
    let root = &keeper.order.worktree;
    let mut parent = keeper.base.clone();
    for (paths, remark) in [(owned, ""), (others, ", with what it does not own")] {
        let paths: Vec<&RepoPath> =
            paths.iter().copied().filter(|path| can_be_kept(root, path, &mut kept.warnings)).collect();
        if paths.is_empty() {
            continue;
        }
        ownership::stage(git, root, paths)?;
        let tree = git.write_tree()?;
        parent = git.commit_tree(&tree, &[parent], &keeper.message(remark), keeper.identity())?;
        kept.wip = Some(parent.clone());
    }
    if let Some(wip) = &kept.wip {
        let set = RefChange::Set { name: keeper.name(), new: wip.clone() };
        Git::repository(&keeper.order.common_dir).update_refs(&[set], "mahabharatha: work in progress")?;
    }
    Ok(kept)
}

fn can_be_kept(root: &Path, path: &RepoPath, warnings: &mut Vec<String>) -> bool {
    let Ok(found) = fs::symlink_metadata(path.under(root)) else {
        // Gone, which is a change too.
        return true;
    };
    if found.is_file() && found.len() > MAX_FILE {
        warnings.push(format!("{path} is not kept: {} MB", found.len() >> 20));
        return false;
    }
    if found.is_dir() {
        // Its files are listed on their own.
        return false;
    }
    let readable = || found.is_symlink() || fs::File::open(path.under(root)).is_ok();
    let legal = path.as_path().iter().all(|name| !files::is_dot_git(name));
    let fit = legal && (found.is_file() || found.is_symlink()) && readable();
    if !fit {
        warnings.push(format!("{path} is not kept: not a file that git can read and hold"));
    }
    fit
}
