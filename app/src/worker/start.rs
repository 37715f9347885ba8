//! Step 1: the worktree as the agent shall find it, whatever somebody left there.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mahabharatha_core::ids::{Attempt, Oid, TaskId};
use serde::{Deserialize, Serialize};

use super::keep::{self, Keeper};
use super::order::Order;
use super::{files, ownership};
use crate::error::{Error, ExitCode, Result, io};
use crate::git::{Git, RefChange};
use crate::store::atomic::{make_dir, write_atomic, write_projected};

/// What belongs into a worktree's own directory; the rest is of an operation that somebody did not finish.
const ADMINISTRATION: [&str; 10] =
    ["HEAD", "ORIG_HEAD", "FETCH_HEAD", "commondir", "config.worktree", "gitdir", "index", "locked", "logs", "modules"];

/// The index as it was when every file was as in the base commit. Held in memory, where no agent can change it.
pub struct Pristine {
    bytes: Vec<u8>,
    /// By this git knows which files could have been changed within the clock's resolution.
    written: SystemTime,
}

impl Pristine {
    fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).map_err(io("read", path))?;
        let written = fs::metadata(path).and_then(|found| found.modified()).map_err(io("read", path))?;
        Ok(Pristine { bytes, written })
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        write_projected(path, &self.bytes)?;
        let file = File::options().write(true).open(path).map_err(io("write", path))?;
        file.set_times(FileTimes::new().set_modified(self.written)).map_err(io("write", path))
    }
}

/// Whose unsaved work lies in a slot; the file is gone when nothing unsaved does.
#[derive(Serialize, Deserialize)]
struct Occupant {
    task: TaskId,
    attempt: Attempt,
    base: Oid,
}

pub fn start(order: &Order, job_dir: &Path) -> Result<(Pristine, Vec<String>)> {
    let mut warnings = Vec::new();
    files::check_inside(&order.root, &order.worktree)?;
    administrate(order, &job_dir.join("quarantine"))?;
    let index = order.slot_file("index");
    make_dir(&order.slot_file("").with_file_name(""))?;
    remove_lock(&index)?;
    let git = private_git(order, job_dir)?.index(&index);
    save_what_a_dead_worker_left(order, &git, job_dir, &mut warnings)?;
    reset(order, &git, &index)?;
    set_branch(order)?;
    let pristine = Pristine::read(&index)?;
    // The agent's own `git status` starts clean.
    pristine.write(&order.worktree_git_dir.join("index"))?;
    let occupant = Occupant { task: order.job.task.clone(), attempt: order.job.attempt, base: order.job.base.clone() };
    let text = serde_json::to_vec(&occupant).unwrap_or_default();
    write_atomic(&order.slot_file("json"), &text)?;
    if let (Some(_), Some(wip)) = (&order.job.carry.note, &order.job.carry.wip) {
        put_on_top(order, job_dir, wip)?;
    }
    Ok((pristine, warnings))
}

/// Everything that the attempt left is committed or kept.
pub fn vacate(order: &Order) -> Result<()> {
    files::remove(&order.slot_file("json"))
}

/// A git directory of ours for this attempt, written now.
pub fn private_git(order: &Order, job_dir: &Path) -> Result<Git> {
    let git = Git::objects(&job_dir.join("git"), &order.common_dir, &order.pinned)?;
    git.detach_head(&order.job.base)?;
    Ok(git.work_tree(&order.worktree))
}

/// The files by which git knows the worktree, as `git worktree add` writes them.
fn administrate(order: &Order, quarantine: &Path) -> Result<()> {
    let admin = &order.worktree_git_dir;
    for dir in [admin, &order.worktree] {
        if fs::symlink_metadata(dir).is_ok_and(|found| !found.is_dir()) {
            files::displace(dir, quarantine, "worktree")?;
        }
        fs::create_dir_all(dir).map_err(io("make", dir))?;
    }
    for entry in fs::read_dir(admin).map_err(io("read", admin))?.flatten() {
        if !ADMINISTRATION.iter().any(|name| entry.file_name() == *name) {
            files::remove(&entry.path())?;
        }
    }
    let link = order.worktree.join(".git");
    files::ensure(&link, &format!("gitdir: {}\n", admin.display()), quarantine)?;
    files::ensure(&admin.join("gitdir"), &format!("{}\n", link.display()), quarantine)?;
    files::ensure(&admin.join("commondir"), "../..\n", quarantine)?;
    files::ensure(&admin.join("HEAD"), &format!("ref: {}\n", order.branch), quarantine)
}

/// A worker that was killed could not keep what its agent had done.
fn save_what_a_dead_worker_left(order: &Order, git: &Git, job_dir: &Path, warnings: &mut Vec<String>) -> Result<()> {
    let record = order.slot_file("json");
    let Ok(bytes) = fs::read(&record) else { return Ok(()) };
    let index = order.slot_file("index");
    if let (Ok(occupant), Ok(pristine)) = (serde_json::from_slice::<Occupant>(&bytes), Pristine::read(&index)) {
        let scratch = job_dir.join("left.index");
        pristine.write(&scratch)?;
        let git = git.clone().index(&scratch);
        git.detach_head(&occupant.base)?;
        let found = ownership::look(&git, order)?;
        found.take_out(order, job_dir)?;
        let keeper = Keeper::new(order, &occupant.task, occupant.attempt, &occupant.base);
        let all: Vec<_> = found.everything().collect();
        let kept = keep::keep(&keeper, &git, &[], &all)?;
        warnings.extend(kept.warnings);
        if kept.wip.is_some() {
            warnings.push(format!(
                "the worktree held unsaved work of {} attempt {}; it is kept in {}",
                occupant.task,
                occupant.attempt,
                keeper.name()
            ));
        }
        git.detach_head(&order.job.base)?;
    }
    files::remove(&record)
}

fn reset(order: &Order, git: &Git, index: &Path) -> Result<()> {
    let try_once = || -> Result<()> {
        git.run(["read-tree", "--reset", "-u", order.job.base.as_str()])?;
        git.run(["clean", "-ffdq"])?;
        Ok(())
    };
    if try_once().is_ok() {
        return Ok(());
    }
    // An unreadable index, directories without rights, a directory where a file must be: all of it anew.
    files::remove(index)?;
    remove_lock(index)?;
    files::wipe(&order.worktree)?;
    try_once().map_err(|error| {
        let text = format!("{} cannot be set to {}: {error}", order.worktree.display(), order.job.base.short());
        Error::new(ExitCode::Failed, text)
    })
}

fn set_branch(order: &Order) -> Result<()> {
    let loose = order.common_dir.join(&order.branch);
    let base = order.job.base.as_str();
    if fs::read_to_string(&loose).is_ok_and(|text| text.trim() == base) {
        return Ok(());
    }
    remove_lock(&loose)?;
    let set = RefChange::Set { name: order.branch.clone(), new: order.job.base.clone() };
    Ok(Git::repository(&order.common_dir).update_refs(&[set], "mahabharatha: start of an attempt")?)
}

/// Left by a git that was killed: this slot is ours alone while we hold the job.
fn remove_lock(path: &Path) -> Result<()> {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    files::remove(&PathBuf::from(lock))
}

/// The owned part of the work in progress, as changes that are not committed.
fn put_on_top(order: &Order, job_dir: &Path, wip: &Oid) -> Result<()> {
    let scratch = job_dir.join("wip.index");
    let git = private_git(order, job_dir)?.index(&scratch);
    let changes = git.diff_tree(&order.job.base, wip)?;
    let ours = changes.iter().filter(|change| ownership::owner(&order.owned, &change.path).is_some());
    let (gone, there): (Vec<_>, Vec<_>) = ours.partition(|change| change.new.is_none());
    for change in gone {
        files::remove(&change.path.under(&order.worktree))?;
    }
    git.read_tree(wip)?;
    git.checkout_index(there.into_iter().map(|change| &change.path))?;
    Ok(())
}
