//! Checks the disk: what becomes of `worktrees.warm`, and whether all worktrees of a run fit.

use std::path::{Path, PathBuf};

use mahabharatha_core::ids::WorkerId;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{EntryType, RepoPath};
use mahabharatha_sys::store::tree;

use super::{CheckStatus, Ground, Report, free_bytes};
use crate::provision::warm::{Plan, Planned, Warm};

/// Name of the check of `worktrees.warm`.
pub const WARM: &str = "warm";
/// Disk space of a file is a multiple of this.
const BLOCK_BYTES: u64 = 4096;

/// Checks what new worktrees get from the main checkout, and whether they fit on their disk.
pub fn check_space(report: &mut Report, ground: &Ground<'_>) -> Result<()> {
    let dir = nearest(&ground.project.worktrees_dir(ground.config.worktrees.dir.as_deref()));
    let warm = check_warm(report, ground, &dir)?;
    let missing = new_worktrees(ground);
    let Ok(space) = rustix::fs::statvfs(&dir) else { return Ok(()) };
    let (free, files) = (free_bytes(&space), checkout_bytes(ground)?);
    let copied: u64 = warm.iter().map(Planned::cost).sum();
    let each = files.saturating_add(copied);
    let needed = each.saturating_mul(missing);
    let figures = format!(
        "{missing} new worktrees take about {} MB ({} MB of files and {} MB of worktrees.warm for each), and {} MB are free in {}",
        needed >> 20,
        files >> 20,
        copied >> 20,
        free >> 20,
        dir.display()
    );
    if needed > free {
        // Staging has a worktree too.
        let fitting = (free / each.max(1)).saturating_sub(1);
        let fewer = if fitting > 0 { format!("start with `--workers {fitting}`, ") } else { String::new() };
        let less = if copied > 0 { "shorten worktrees.warm, " } else { "" };
        report.fail(
            "disk",
            format!("{figures}."),
            format!("Free some space, {fewer}{less}or set worktrees.dir to a directory on another disk."),
        );
    } else if report.checks.iter().all(|check| check.name != "disk" || check.status != CheckStatus::Failed) {
        // To measure it takes a look at each file, which a run does not wait for.
        let used = (!ground.executes).then(|| tree::disk_bytes(&ground.paths.worktrees()) >> 20);
        let used = used.map(|used| format!("; those that are there use {used} MB")).unwrap_or_default();
        report.ok("disk", figures + &used);
    }
    Ok(())
}

fn check_warm(report: &mut Report, ground: &Ground<'_>, dir: &Path) -> Result<Vec<Planned>> {
    let Some(warm) = Warm::of(&ground.config.worktrees) else { return Ok(Vec::new()) };
    let root = ground.project.root();
    let mut planned = warm.plan(root, dir, ground.isolation.maps_paths());
    let git = ground.project.head().work_tree(ground.project.checkout());
    for one in &mut planned {
        let is_there = matches!(one.plan, Plan::Take { .. });
        if is_there && git.ignored(&[RepoPath::from(one.dir.as_str())])?.is_empty() {
            one.plan = Plan::Not("git does not ignore it; add it to .gitignore".to_owned());
        }
        match one.plan {
            Plan::Not(_) => report.warn(WARM, format!("{one}."), "New worktrees begin without it."),
            _ => report.ok(WARM, one.to_string()),
        }
    }
    Ok(planned)
}

/// Returns how many worktrees the run has to make: one for each worker that gets a task, and staging.
fn new_worktrees(ground: &Ground<'_>) -> u64 {
    let workers = ground.workers.min(u32::try_from(ground.graph.tasks().len()).unwrap_or(u32::MAX));
    let worktrees = (0..workers).map(|worker| ground.paths.worktree(WorkerId(worker)));
    worktrees.chain([ground.paths.staging_worktree()]).filter(|worktree| !worktree.is_dir()).count() as u64
}

/// Estimates the disk space of a checkout by the files of the main one.
fn checkout_bytes(ground: &Ground<'_>) -> Result<u64> {
    let entries = ground.project.git().ls_tree(&ground.project.head_commit()?)?.into_iter();
    let files = entries.filter(|entry| entry.kind != EntryType::Submodule);
    let bytes = files.map(|entry| {
        let found = std::fs::symlink_metadata(entry.path.under(ground.project.checkout()));
        found.map_or(0, |found| found.len()).next_multiple_of(BLOCK_BYTES)
    });
    Ok(bytes.sum())
}

/// Returns the directory itself, or the nearest one above it that is there.
fn nearest(dir: &Path) -> PathBuf {
    dir.ancestors().find(|part| part.is_dir()).unwrap_or(dir).to_owned()
}
