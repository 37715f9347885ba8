//! Worktrees of workers. Git loses some when they are made side by side, so that is done one at a time.

use std::path::Path;

use mahabharatha_core::ids::{Oid, WorkerId};
use mahabharatha_core::run::event::Event;

use super::Context;
use crate::error::Result;
use crate::git::Git;
use crate::project::Project;
use crate::store::locks::WorktreesLock;

/// Makes the worker's worktree, empty: its first job puts it on its branch and checks out what it needs.
pub fn prepare(context: &Context, worker: WorkerId) -> Result<Event> {
    ensure(&context.project, &context.paths.worktree(worker), &context.start)?;
    Ok(Event::SlotReady { worker })
}

/// Makes a worktree where there is none; one that is there stays as it is, with what lies in it.
pub fn ensure(project: &Project, path: &Path, commit: &Oid) -> Result<()> {
    let git = Git::repository(project.common_dir());
    let _one_at_a_time = WorktreesLock::wait(&project.shared_dir())?;
    if git.worktree_git_dir(path).is_some() && path.is_dir() {
        return Ok(());
    }
    git.worktree_remove(path)?;
    git.worktree_add(path, commit)?;
    Ok(())
}
