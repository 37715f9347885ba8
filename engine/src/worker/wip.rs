//! Saves unverified work as wip, under a ref of its own. Wip is never merged.

use std::fs;
use std::path::Path;

use mahabharatha_core::ids::{Attempt, Oid, TaskId};
use mahabharatha_sys::bounded;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{Git, Identity, RefChange, RepoPath};
use mahabharatha_sys::project::wip_ref;

use super::job_spec::JobSpec;
use super::{files, ownership};

/// Larger files are not saved, only named in a warning.
const MAX_FILE_BYTES: u64 = 50 << 20;

/// Attempt whose work is saved, and the commit it is based on.
pub struct WipRef<'a> {
    spec: &'a JobSpec,
    task: &'a TaskId,
    attempt: Attempt,
    base: &'a Oid,
}

pub struct Saved {
    pub wip: Option<Oid>,
    pub warnings: Vec<String>,
}

impl<'a> WipRef<'a> {
    pub fn new(spec: &'a JobSpec, task: &'a TaskId, attempt: Attempt, base: &'a Oid) -> Self {
        WipRef { spec, task, attempt, base }
    }

    pub fn of(spec: &'a JobSpec) -> Self {
        WipRef::new(spec, &spec.job.task, spec.job.attempt, &spec.job.base)
    }

    pub fn base(&self) -> &Oid {
        self.base
    }

    /// Returns the name of the ref for the work.
    pub fn name(&self) -> String {
        wip_ref(self.spec.feature.as_str(), self.task.as_str(), self.attempt.0)
    }

    fn message(&self, remark: &str) -> String {
        format!(
            "wip({}): attempt {}{remark}\n\nMahabharatha-Feature: {}\nMahabharatha-Task: {}\nMahabharatha-Attempt: {}\n",
            self.task, self.attempt, self.spec.feature, self.task, self.attempt
        )
    }

    fn identity(&self) -> &Identity {
        &self.spec.identity
    }
}

/// Commits what the task owns and, in a second commit on top, any other changes.
/// The index of `git` must be as in the base commit.
pub fn save(wip_ref: &WipRef<'_>, git: &Git, owned: &[&RepoPath], others: &[&RepoPath]) -> Result<Saved> {
    let mut kept = Saved { wip: None, warnings: Vec::new() };
    let root = &wip_ref.spec.worktree;
    let mut parent = wip_ref.base.clone();
    for (paths, remark) in [(owned, ""), (others, ", with what it does not own")] {
        let paths: Vec<&RepoPath> =
            paths.iter().copied().filter(|path| can_be_saved(root, path, &mut kept.warnings)).collect();
        if paths.is_empty() {
            continue;
        }
        ownership::stage(git, root, paths)?;
        let tree = git.write_tree()?;
        parent = git.commit_tree(&tree, &[parent], &wip_ref.message(remark), wip_ref.identity())?;
        kept.wip = Some(parent.clone());
    }
    if let Some(wip) = &kept.wip {
        let set = RefChange::Set { name: wip_ref.name(), new: wip.clone() };
        Git::repository(&wip_ref.spec.common_dir).update_refs(&[set], "mahabharatha: work in progress")?;
    }
    Ok(kept)
}

pub(super) fn can_be_saved(root: &Path, path: &RepoPath, warnings: &mut Vec<String>) -> bool {
    let Ok(found) = fs::symlink_metadata(path.under(root)) else {
        // Deleted, which is a change too.
        return true;
    };
    if found.is_file() && found.len() > MAX_FILE_BYTES {
        warnings.push(format!(
            "{path} is not saved: it has {} MB, the limit is {} MB",
            found.len() >> 20,
            MAX_FILE_BYTES >> 20
        ));
        return false;
    }
    if found.is_dir() {
        // Its files are listed separately.
        return false;
    }
    let readable = || found.is_symlink() || bounded::open(&path.under(root)).is_ok();
    let legal = path.as_path().iter().all(|name| !files::is_dot_git(name));
    let fit = legal && (found.is_file() || found.is_symlink()) && readable();
    if !fit {
        warnings.push(format!("{path} is not saved: not a file that git can read and hold"));
    }
    fit
}
