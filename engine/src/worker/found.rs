//! Collects the work of a task that the user reports as done: from the main checkout, or from its last attempt's wip.

use std::fs;
use std::path::Path;

use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::git::{Found, Git, RepoPath};

use super::files;
use super::job_spec::JobSpec;
use super::ownership;
use super::start::{self, private_git};

/// Copies the task's changed files from the main checkout into its worktree; without any, restores the task's wip.
pub fn take(spec: &JobSpec, job_dir: &Path) -> Result<()> {
    let index = job_dir.join("found.index");
    let git = private_git(spec)?.index(&index);
    git.read_tree(&spec.job.base)?;
    let in_checkout = git.clone().work_tree(&spec.root);
    let left_out = Git::repository(&spec.common_dir).work_tree(&spec.root).left_out_of_work_tree()?;
    let mut taken = false;
    for entry in in_checkout.status()? {
        // In a sparse checkout a file that is not there was not deleted.
        let deleted = entry.found == Found::Deleted && !left_out.contains(&entry.path);
        let changed = deleted || matches!(entry.found, Found::Changed | Found::Untracked);
        if changed && ownership::owner(&spec.owned, &entry.path).is_some() {
            copy(spec, &entry.path)?;
            taken = true;
        }
    }
    if !taken && let Some(wip) = &spec.job.carry.wip {
        start::put_on_top(spec, &git, &index, wip)?;
    }
    files::remove(&index)
}

fn copy(spec: &JobSpec, path: &RepoPath) -> Result<()> {
    let (from, to) = (path.under(&spec.root), path.under(&spec.worktree));
    if files::link_on_the_way(&spec.worktree, path.as_path()).is_some() {
        // What it leads to is not the task's. The file counts as missing.
        return Ok(());
    }
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
