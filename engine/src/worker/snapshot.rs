//! What the worktree of an attempt has now, as a tree. Writes nothing into the repository or the worktree, so it may be
//! taken while the agent works.

use std::path::Path;
use std::time::Duration;

use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::Oid;
use mahabharatha_core::run::effect::Job;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{Git, Pinned, RepoPath};

use super::job_spec::JobSpec;
use super::start::Pristine;
use super::{files, ownership, wip};

/// Which attempt, and where: all of it known from the run, since an agent without a sandbox can change the job's files.
pub struct Running<'a> {
    pub job: &'a Job,
    pub owned: &'a [OwnedPath],
    pub pinned: &'a Pinned,
    pub common_dir: &'a Path,
    pub worktree: &'a Path,
}

/// Time limit of each git call beside a working agent.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A tree in an object directory of its own.
pub struct Snapshot {
    pub git: Git,
    pub tree: Oid,
    /// Changed files that the task does not own.
    pub strays: Vec<String>,
    /// Changed files that are not in the tree, with the reason.
    pub left_out: Vec<String>,
}

/// Takes a snapshot; `scratch` is an empty directory for it. Filters of the user's configuration are not run: what one
/// would change is in the tree as it is in the worktree.
pub fn snapshot(running: &Running<'_>, job_dir: &Path, scratch: &Path) -> Result<Snapshot> {
    let Running { job, owned, pinned, common_dir, worktree } = *running;
    let pinned = without_filters(pinned);
    let spec = JobSpec {
        job: job.clone(),
        owned: owned.to_vec(),
        pinned: pinned.clone(),
        common_dir: common_dir.to_owned(),
        worktree: worktree.to_owned(),
        ..JobSpec::read(job_dir)?
    };
    files::check_worktree(&spec.root, spec.worktrees_dir(), worktree)?;
    let git =
        Git::objects(&scratch.join("git"), common_dir, &pinned)?.with_scratch_objects(&scratch.join("objects"))?;
    let git = git.within(TIME_LIMIT);
    git.detach_head(&job.base)?;
    let index = scratch.join("index");
    let git = git.work_tree(worktree).index(&index);
    // With the slot's index git reads only files that changed.
    let known = Pristine::read(&spec.slot_file("index")).and_then(|pristine| pristine.write(&index));
    if known.is_err() || !git.diff_cached(&job.base).is_ok_and(|changes| changes.is_empty()) {
        files::remove(&index)?;
        git.read_tree(&job.base)?;
    }
    let changes = ownership::look(&git, &spec)?;
    let mut left_out = Vec::new();
    let paths: Vec<&RepoPath> =
        changes.everything().filter(|path| wip::can_be_saved(worktree, path, &mut left_out)).collect();
    ownership::stage(&git, worktree, paths)?;
    let strays = changes.strays.iter().map(|stray| stray.path.to_string()).collect();
    Ok(Snapshot { tree: git.write_tree()?, git, strays, left_out })
}

fn without_filters(pinned: &Pinned) -> Pinned {
    let is_filter = |key: &str| key.starts_with("filter.") || key.starts_with("lfs.");
    Pinned(pinned.0.iter().filter(|(key, _)| !is_filter(key)).cloned().collect())
}
