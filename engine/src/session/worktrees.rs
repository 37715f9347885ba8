//! Puts the feature's worktrees where `worktrees.dir` says.

use mahabharatha_core::config::Config;
use mahabharatha_core::run::Run;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::{FeaturePaths, Project};

use crate::host::cleanup::{self, What};

/// Records the configured directory. Worktrees in another one are removed, and created again when they are needed; fails if
/// one of them has work that is saved nowhere else. The caller holds the feature's lock.
pub fn settle(project: &Project, paths: &FeaturePaths, run: Option<&Run>, config: &Config) -> Result<()> {
    let (old, new) = (paths.worktrees_dir(), project.worktrees_dir(config.worktrees.dir.as_deref()));
    if old != new {
        let found = cleanup::leftovers(project, paths, run, false)?;
        let worktrees: Vec<_> = found.into_iter().filter(|found| matches!(found.what, What::Worktree(_))).collect();
        if let Some((worktree, why)) = worktrees.iter().find_map(|found| Some((&found.what, found.precious.as_ref()?)))
        {
            let message = format!("worktrees.dir has changed, and a worktree cannot be moved: {why}");
            return Err(Error::new(Kind::Paused, message)
                .detail(worktree.to_string())
                .hint(format!("Put it back to {}, and change it when no attempt is under way.", old.display())));
        }
        let worktrees: Vec<What> = worktrees.into_iter().map(|found| found.what).collect();
        cleanup::remove(project, paths, &worktrees)?;
    }
    project.use_worktrees_dir(paths, &new)
}
