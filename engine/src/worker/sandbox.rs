//! The sandbox of an attempt's worktree. Agent and verification each get a new one, so that nothing the agent left in its
//! home can make the verification pass.

use std::path::{Path, PathBuf};

use mahabharatha_sys::bounded::{self, SMALL_FILE_BYTES};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::sandbox::{self, Sandbox};

use super::job_spec::JobSpec;
use super::start::write_worktree_git_files;
use crate::confinement::Confined;
use crate::containers::slot_of;

/// Creates the sandbox for the agent, whose git starts with the slot's pristine index.
pub fn for_agent(spec: &JobSpec) -> Result<Sandbox> {
    spec.confinement.sandbox(&confined(spec, spec.slot_file("sandbox"), &spec.slot_file("index")))
}

/// Ends what an earlier attempt may have left running in the slot's container.
pub fn end_earlier(spec: &JobSpec) -> Result<()> {
    let Some(containers) = &spec.confinement.containers else { return Ok(()) };
    sandbox::end_earlier(&spec.slot_file("sandbox"), &containers.container(&slot_of(spec.job.worker), &spec.ports))
}

/// Creates the sandbox for the verification, whose git shows the task's changes as staged.
pub fn for_verification(spec: &JobSpec) -> Result<Sandbox> {
    spec.confinement.sandbox_of_check(&confined(spec, spec.slot_file("sandbox"), &spec.slot_file("scratch")))
}

/// Creates the sandbox for a command in a copy of the worktree, whose git shows the task's changes as staged.
pub fn for_copy(spec: &JobSpec, dir: PathBuf, index: &Path) -> Result<Sandbox> {
    // The worker's branch may be at another commit by now.
    spec.confinement.sandbox_of_copy(&Confined { branch: None, ..confined(spec, dir, index) })
}

fn confined<'a>(spec: &'a JobSpec, dir: PathBuf, index: &'a Path) -> Confined<'a> {
    Confined {
        dir,
        worktree: &spec.worktree,
        root: &spec.root,
        common_dir: &spec.common_dir,
        spec_dir: &spec.spec_dir,
        head: &spec.job.base,
        branch: Some(&spec.branch),
        index,
        identity: &spec.identity,
        slot: slot_of(spec.job.worker),
        ports: &spec.ports,
    }
}

/// Restores the worktree's `.git` file when it is dropped, after a sandbox that had to replace it.
pub struct GitLink<'a> {
    pub spec: &'a JobSpec,
    pub job_dir: &'a Path,
}

impl Drop for GitLink<'_> {
    fn drop(&mut self) {
        if self.spec.confinement.isolation.keeps_paths() {
            // The next attempt writes it again, and reports what is in the way.
            let _ = write_worktree_git_files(self.spec, &self.job_dir.join("quarantine"));
        }
    }
}

/// Restores the worktree's `.git` file if it still leads to a sandbox of ours whose program was killed with us.
pub fn restore_git_link(spec: &JobSpec, job_dir: &Path) -> Result<()> {
    let ours = format!("gitdir: {}\n", spec.slot_file("sandbox").join("git").display());
    let link = spec.worktree.join(".git");
    if bounded::read(&link, SMALL_FILE_BYTES).is_ok_and(|text| text == ours.as_bytes()) {
        write_worktree_git_files(spec, &job_dir.join("quarantine"))?;
    }
    Ok(())
}
