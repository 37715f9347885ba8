//! Runs the task's verification command on exactly the tree that would be committed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mahabharatha_core::excerpt::failure_report;
use mahabharatha_core::graph::OwnedPath;
use mahabharatha_sys::bounded;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::{Found, RepoPath};
use mahabharatha_sys::proc::{self, Cmd, Ended, bounded_text};
use mahabharatha_sys::sandbox::Sandbox;

use super::job_spec::JobSpec;
use super::log::Log;
use super::sandbox::{self, GitLink};
use super::secrets::Contents;
use super::start::{Pristine, private_git, slot_git};
use super::watch::CancelSignal;
use super::{files, ownership};
use crate::cause::{Places, hidden_variable};
use crate::{confinement, offline};

/// Bytes kept from the beginning and the end of the command's output.
const FEEDBACK_BYTES: (usize, usize) = (6 * 1024, 10 * 1024);

pub enum Verdict {
    /// With the time that the command took, if there is one.
    Passed(Option<Duration>),
    Failed {
        feedback: String,
        /// The likely cause, for the user only: such as what the sandbox kept the command from.
        hint: Option<String>,
        timed_out: bool,
    },
    Cancelled,
}

/// Runs the verification. The slot's scratch index must hold the tree that would be committed, of whose files `committed`
/// has contents.
pub fn verify(
    spec: &JobSpec,
    job_dir: &Path,
    cancel: &CancelSignal,
    log: &Log,
    committed: &Contents,
) -> Result<Verdict> {
    if spec.task.verification.is_blank() {
        log.info("verification", "there is no verification command");
        return Ok(Verdict::Passed(None));
    }
    let command = spec.task.verification.command.trim();
    // Where git converts files, their bytes are not those of the commit.
    let are_plain = are_as_committed(spec, committed);
    let before = snapshot(spec);
    let staged = Pristine::read(&spec.slot_file("scratch"))?;
    let (mut ended, mut hint) = run(spec, job_dir, cancel, log)?;
    if !ended.cancelled && snapshot(spec) != before && restore(spec, &staged)? {
        log.info("verification", "the command changed files of the task; they are restored and it runs once more");
        (ended, hint) = run(spec, job_dir, cancel, log)?;
        restore(spec, &staged)?;
    }
    if ended.cancelled {
        return Ok(Verdict::Cancelled);
    }
    if ended.success() && !(are_plain && are_as_committed(spec, committed)) && !is_as_staged(spec, &staged)? {
        let feedback = "The task's files changed while they were verified: what passed is not what would be committed.";
        return Ok(Verdict::Failed { feedback: feedback.to_owned(), hint: None, timed_out: false });
    }
    if ended.success() {
        log.info("verification", &format!("passed after {:.1} s: {command}", ended.duration.as_secs_f64()));
        return Ok(Verdict::Passed(Some(ended.duration)));
    }
    let how = if ended.timed_out {
        format!("did not end within {} s", spec.task.verification.timeout_seconds)
    } else {
        format!("failed with {}", ended.status)
    };
    let output = log.redactor().redacted(&bounded_text(&ended.stdout, FEEDBACK_BYTES));
    let feedback = failure_report(&format!("The verification {how}"), Some(command), &output);
    Ok(Verdict::Failed { feedback, hint, timed_out: ended.timed_out })
}

/// Runs the command; returns also the likely cause if it fails.
fn run(spec: &JobSpec, job_dir: &Path, cancel: &CancelSignal, log: &Log) -> Result<(Ended, Option<String>)> {
    let failed = |error: std::io::Error| Error::caused("the verification")(error);
    let git_link = GitLink { spec, job_dir };
    let sandbox = sandbox::for_verification(spec)?;
    let command = Cmd::shell(spec.task.verification.command.trim())
        .envs(spec.environment(sandbox.workdir()))
        .merged()
        .keep(FEEDBACK_BYTES.0, FEEDBACK_BYTES.1)
        .copy_to(log.lines("verification_output"))
        .timeout(Duration::from_secs(spec.task.verification.timeout_seconds.max(1)));
    let running = sandbox.confine(command)?.spawn().map_err(failed)?;
    let ended = cancel.wait(running).map_err(failed)?;
    if !proc::end_descendants(Duration::ZERO) {
        return Err(Error::new(Kind::Failed, "the verification left processes that cannot be ended"));
    }
    drop(git_link);
    let failed = !ended.success() && !ended.cancelled;
    let offline = || offline::cause(&spec.confinement, &String::from_utf8_lossy(&ended.stdout));
    let hint = failed.then(|| likely_cause(spec, &sandbox, &ended).or_else(offline)).flatten();
    confinement::failure(&sandbox).map_or(Ok((ended, hint)), Err)
}

/// Says why a command in the slot's worktree may have failed, going by its output: what the sandbox denied, a variable that
/// it does not get, an ignored file that only the user's checkout has.
pub fn likely_cause(spec: &JobSpec, sandbox: &Sandbox, ended: &Ended) -> Option<String> {
    let output = String::from_utf8_lossy(&ended.stdout);
    let (root, worktree, workdir) = (&spec.root, &spec.worktree, sandbox.workdir());
    let ignored = || {
        // Only a hint: the command has failed either way.
        let git = slot_git(spec).ok()?;
        Places { root, worktree, workdir, git: &git, is_attempt: true }.missing_ignored_file(&output).ok()?
    };
    sandbox.denial(&output).or_else(|| hidden_variable(&output, &spec.hidden_variables)).or_else(ignored)
}

/// Returns enough metadata of each owned file to tell that it was touched; programs cannot set the change time.
fn snapshot(spec: &JobSpec) -> BTreeMap<PathBuf, (u64, u64, u32, i64, i64)> {
    let mut files = BTreeMap::new();
    let mut add = |path: PathBuf| {
        if let Ok(found) = fs::symlink_metadata(&path) {
            files.insert(path, (found.ino(), found.size(), found.mode(), found.ctime(), found.ctime_nsec()));
        }
    };
    for owned in &spec.owned {
        let place = spec.worktree.join(&owned.path);
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

/// Tells whether all that the task owns are files with exactly the bytes that would be committed. If not, git can tell
/// whether it amounts to the same.
fn are_as_committed(spec: &JobSpec, committed: &Contents) -> bool {
    let is_same = |owned: &OwnedPath| {
        let (path, place) = (Path::new(&owned.path), spec.worktree.join(&owned.path));
        let Some((mode, bytes)) = committed.get(&RepoPath::from(owned.path.as_str())) else { return false };
        let Ok(found) = fs::symlink_metadata(&place) else { return false };
        !owned.directory
            && found.is_file()
            && (found.mode() & 0o100 != 0) == (mode & 0o100 != 0)
            && files::link_on_the_way(&spec.worktree, path).is_none()
            && bounded::read(&place, bytes.len() as u64).is_ok_and(|read| read == *bytes)
    };
    !spec.owned.is_empty() && spec.owned.iter().all(is_same)
}

/// Tells whether the owned files have the contents that were hashed into the index. Reads them all: a process that
/// is no descendant of ours may have changed them at any time.
fn is_as_staged(spec: &JobSpec, staged: &Pristine) -> Result<bool> {
    let index = spec.slot_file("scratch");
    staged.write_distrusted(&index)?;
    let git = private_git(spec)?.index(&index);
    let paths: Vec<&str> = spec.owned.iter().map(|owned| owned.path.as_str()).collect();
    let same = git.has_contents(&paths)?;
    staged.write(&index)?;
    Ok(same)
}

/// Resets the owned files to the tree in the index; returns `true` if any differed. Trusts neither our git directory nor
/// the index file: the command could write to both.
fn restore(spec: &JobSpec, staged: &Pristine) -> Result<bool> {
    let index = spec.slot_file("scratch");
    let git = private_git(spec)?.index(&index);
    staged.write(&index)?;
    let is_generated = ownership::generated(spec)?;
    let (mut changed, mut made) = (Vec::new(), Vec::new());
    for entry in git.status()? {
        match entry.found {
            _ if ownership::owner(&spec.owned, &entry.path).is_none() => {}
            Found::Changed | Found::Deleted => changed.push(entry.path),
            Found::Untracked | Found::UntrackedDirectory if !is_generated(&entry.path) => made.push(entry.path),
            Found::Untracked | Found::UntrackedDirectory | Found::Ignored => {}
        }
    }
    for path in &made {
        files::remove(&path.under(&spec.worktree))?;
    }
    git.checkout_index(&changed)?;
    Ok(!changed.is_empty() || !made.is_empty())
}
