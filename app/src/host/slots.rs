//! Worktrees of workers. Git loses some when they are made side by side, so that is done one at a time.

use mahabharatha_core::ids::WorkerId;
use mahabharatha_core::run::event::Event;

use super::Context;
use crate::error::Result;

/// Makes the worker's worktree, empty: its first job checks out what it needs.
pub fn prepare(context: &Context, worker: WorkerId) -> Result<Event> {
    let (path, branch) = (context.paths.worktree(worker), context.paths.worker_branch(worker));
    super::integrate::worktree::ensure(context, &path, &branch)?;
    Ok(Event::SlotReady { worker })
}
