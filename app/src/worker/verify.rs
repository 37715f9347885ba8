//! Step 5: the task's own command on exactly the tree that would be committed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use mahabharatha_core::excerpt::failure_report;

use super::log::Log;
use super::order::Order;
use super::watch::Interrupt;
use super::{files, ownership};
use crate::error::{Error, ExitCode, Result};
use crate::git::{Found, Git};
use crate::proc::{self, Cmd, Ended, bounded_text};

const FEEDBACK: (usize, usize) = (6 * 1024, 10 * 1024);

pub enum Verdict {
    Passed,
    Failed { feedback: String },
    Interrupted,
}

/// The index of `git` must hold the tree that would be committed.
pub fn verify(order: &Order, git: &Git, interrupt: &Interrupt, log: &Log) -> Result<Verdict> {
    let command = order.task.verification.command.trim();
    if command.is_empty() {
        log.info("verification", "there is no verification command");
        return Ok(Verdict::Passed);
    }
    let before = snapshot(order);
    let mut ended = run(order, command, interrupt, log)?;
    if !ended.cancelled && snapshot(order) != before && restore(order, git)? {
        log.info("verification", "the command changed files of the task; they are restored and it runs once more");
        ended = run(order, command, interrupt, log)?;
        restore(order, git)?;
    }
    if ended.cancelled {
        return Ok(Verdict::Interrupted);
    }
    if ended.success() {
        log.info("verification", &format!("passed after {:.1} s: {command}", ended.duration.as_secs_f64()));
        return Ok(Verdict::Passed);
    }
    let how = if ended.timed_out {
        format!("did not end within {} s", order.task.verification.timeout_seconds)
    } else {
        format!("failed with {}", ended.status)
    };
    let output = bounded_text(&ended.stdout, FEEDBACK);
    Ok(Verdict::Failed { feedback: failure_report(&format!("The verification {how}"), Some(command), &output) })
}

fn run(order: &Order, command: &str, interrupt: &Interrupt, log: &Log) -> Result<Ended> {
    let failed = |error: std::io::Error| Error::new(ExitCode::Failed, format!("the verification: {error}"));
    let running = Cmd::shell(command)
        .cwd(&order.worktree)
        .envs(order.environment())
        .merged()
        .keep(FEEDBACK.0, FEEDBACK.1)
        .copy_to(log.lines("verification_output"))
        .timeout(Duration::from_secs(order.task.verification.timeout_seconds.max(1)))
        .spawn()
        .map_err(failed)?;
    let ended = interrupt.wait(running).map_err(failed)?;
    if !proc::end_descendants(Duration::ZERO) {
        return Err(Error::new(ExitCode::Failed, "the verification left processes that cannot be ended"));
    }
    Ok(ended)
}

/// Enough of each owned file to tell that it was touched; the change time cannot be set by a program.
fn snapshot(order: &Order) -> BTreeMap<PathBuf, (u64, u64, u32, i64, i64)> {
    let mut files = BTreeMap::new();
    let mut add = |path: PathBuf| {
        if let Ok(found) = fs::symlink_metadata(&path) {
            files.insert(path, (found.ino(), found.size(), found.mode(), found.ctime(), found.ctime_nsec()));
        }
    };
    for owned in &order.owned {
        let place = order.worktree.join(&owned.path);
        if owned.directory {
            files::walk(&place, |path, _| {
                add(place.join(path));
                true
            });
        } else {
            add(place);
        }
    }
    files
}

/// Makes the owned files as the tree has them; `true` if any was different.
fn restore(order: &Order, git: &Git) -> Result<bool> {
    let is_generated = ownership::generated(order)?;
    let (mut changed, mut made) = (Vec::new(), Vec::new());
    for entry in git.status()? {
        match entry.found {
            _ if ownership::owner(&order.owned, &entry.path).is_none() => {}
            Found::Changed | Found::Deleted => changed.push(entry.path),
            Found::Untracked | Found::UntrackedDirectory if !is_generated(&entry.path) => made.push(entry.path),
            Found::Untracked | Found::UntrackedDirectory | Found::Ignored => {}
        }
    }
    for path in &made {
        files::remove(&path.under(&order.worktree))?;
    }
    git.checkout_index(&changed)?;
    Ok(!changed.is_empty() || !made.is_empty())
}
