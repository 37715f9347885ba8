//! Step 1: the worktree as the agent shall find it, whatever somebody left there.

use std::fs::{self, File, FileTimes};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mahabharatha_core::ids::{Attempt, Oid, TaskId, WorkerId};
use mahabharatha_core::run::effect::Job;
use serde::{Deserialize, Serialize};

use super::guard::{Guard, Snapshot};
use super::keep::{self, Keeper, Kept};
use super::order::{Order, SLOTS, slot_file};
use super::{files, include, ownership};
use crate::error::{Error, ExitCode, Result, io};
use crate::git::{Git, RefChange};
use crate::proc;
use crate::store::atomic::{make_dir, write_projected};

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
    guard: Snapshot,
}

/// The job directory of the attempt whose unsaved work lies in a worker's slot.
pub fn occupant(feature_dir: &Path, worker: WorkerId) -> Result<Option<PathBuf>> {
    let record = slot_file(feature_dir, worker, "json");
    let bytes = match fs::read(&record) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("read", &record)(error)),
    };
    let Occupant { task, attempt, .. } = serde_json::from_slice(&bytes)
        .map_err(|error| Error::new(ExitCode::Invalid, format!("{}: {error}", record.display())))?;
    Ok(Some(feature_dir.join("jobs").join(format!("{task}.{attempt}"))))
}

/// Of every slot that is taken.
pub fn occupants(feature_dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(feature_dir.join(SLOTS)).into_iter().flatten().flatten();
    let records = entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned));
    let workers = records.filter_map(|name| name.strip_prefix("worker-")?.parse().ok().map(WorkerId));
    workers.filter_map(|worker| occupant(feature_dir, worker).transpose()).collect()
}

/// The pristine state and the guard of the attempt that lies in the slot, if it is this one.
pub fn occupied(order: &Order) -> Result<Option<(Pristine, Guard<'_>)>> {
    let Ok(bytes) = fs::read(order.slot_file("json")) else { return Ok(None) };
    let Ok(Occupant { task, attempt, guard, .. }) = serde_json::from_slice(&bytes) else { return Ok(None) };
    if task != order.job.task || attempt != order.job.attempt {
        return Ok(None);
    }
    Ok(Some((Pristine::read(&order.slot_file("index"))?, Guard::from_snapshot(order, guard))))
}

/// Before the agent may change anything.
pub fn occupy(order: &Order, guard: &Guard<'_>) -> Result<()> {
    let Job { task, attempt, base, .. } = order.job.clone();
    let occupant = Occupant { task, attempt, base, guard: guard.snapshot() };
    // What the agent writes from now on does not survive a loss of power either.
    write_projected(&order.slot_file("json"), &serde_json::to_vec(&occupant).unwrap_or_default())
}

/// Everything that the attempt left is committed or kept.
pub fn vacate(order: &Order) -> Result<()> {
    files::remove(&order.slot_file("json"))
}

pub fn start(order: &Order, job_dir: &Path) -> Result<(Pristine, Vec<String>)> {
    files::check_inside(&order.root, &order.worktree)?;
    let quarantine = job_dir.join("quarantine");
    administrate(order, &quarantine)?;
    let index = order.slot_file("index");
    make_dir(&order.slots_dir())?;
    remove_locks(order)?;
    let mut warnings = save_what_a_dead_worker_left(order, job_dir)?;
    administrate(order, &quarantine)?;
    let git = private_git(order)?.index(&index);
    reset(order, &git, &index)?;
    set_branch(order)?;
    let pristine = Pristine::read(&index)?;
    // The agent's own `git status` starts clean.
    pristine.write(&order.worktree_git_dir.join("index"))?;
    if let (Some(_), Some(wip)) = (&order.job.carry.note, &order.job.carry.wip) {
        put_on_top(order, &git, &job_dir.join("wip.index"), wip)?;
    }
    warnings.extend(include::include(order, &git)?);
    Ok((pristine, warnings))
}

/// The slot's git directory of ours, made right now.
pub fn private_git(order: &Order) -> Result<Git> {
    let git = Git::objects(&order.slot_file("git"), &order.common_dir, &order.pinned)?;
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

/// Keeps what attempts whose workers were killed left in their worktrees, where no later attempt did. Nobody may be at work.
/// What cannot be told whose it is stays where it is.
pub fn save_leftovers(feature_dir: &Path) -> Result<()> {
    for entry in fs::read_dir(feature_dir.join("slots")).into_iter().flatten().flatten() {
        let Ok(bytes) = fs::read(entry.path()) else { continue };
        let Ok(Occupant { task, attempt, .. }) = serde_json::from_slice(&bytes) else { continue };
        let job_dir = feature_dir.join("jobs").join(format!("{task}.{attempt}"));
        let Ok(order) = Order::read(&job_dir) else { continue };
        if order.slot_file("json") == entry.path() {
            administrate(&order, &job_dir.join("quarantine"))?;
            save_what_a_dead_worker_left(&order, &job_dir)?;
        }
    }
    Ok(())
}

/// A worker that was killed could not keep what its agent had done.
fn save_what_a_dead_worker_left(order: &Order, job_dir: &Path) -> Result<Vec<String>> {
    let record = order.slot_file("json");
    let Ok(bytes) = fs::read(&record) else { return Ok(Vec::new()) };
    for survivor in proc::find_marked("MAHABHARATHA_WORKTREE", order.worktree.as_os_str()) {
        proc::end_process(survivor);
    }
    let Ok(occupant) = serde_json::from_slice::<Occupant>(&bytes) else {
        let place = set_aside(order, "unknown")?;
        vacate(order)?;
        return Ok(vec![format!("what was left of an unknown attempt is in {place}")]);
    };
    let keeper = Keeper::new(order, &occupant.task, occupant.attempt, &occupant.base);
    let whose = format!("{} attempt {}, whose worker was killed", occupant.task, occupant.attempt);
    let git = private_git(order)?;
    let planted = Guard::from_snapshot(order, occupant.guard).restore(&git, job_dir)?;
    let mut warnings: Vec<String> = planted
        .strays
        .iter()
        .map(|name| format!("{name} was changed in the time of {whose}; it is put back"))
        .collect();
    warnings.extend(match save(order, job_dir, &keeper) {
        Ok(kept) if kept.wip.is_some() => {
            [kept.warnings, vec![format!("what was left of {whose}, is kept in {}", keeper.name())]].concat()
        }
        Ok(kept) => kept.warnings,
        Err(error) => {
            let place = set_aside(order, &format!("{}.{}", occupant.task, occupant.attempt))?;
            vec![format!("what was left of {whose}, could not be committed ({error}); it is in {place}")]
        }
    });
    vacate(order)?;
    Ok(warnings)
}

fn save(order: &Order, job_dir: &Path, keeper: &Keeper<'_>) -> Result<Kept> {
    let scratch = job_dir.join("left.index");
    Pristine::read(&order.slot_file("index"))?.write(&scratch)?;
    let git = private_git(order)?.index(&scratch);
    git.detach_head(keeper.base())?;
    let found = ownership::look(&git, order)?;
    found.take_out(order, job_dir)?;
    let kept = keep::keep(keeper, &git, &[], &found.everything().collect::<Vec<_>>());
    files::remove(&scratch)?;
    kept
}

/// Moves the whole worktree out of the way, so that nothing in it is lost.
fn set_aside(order: &Order, name: &str) -> Result<String> {
    let parent = order.worktree.parent().unwrap_or(&order.root);
    let place = (1..)
        .map(|n| parent.join(format!("left-{name}-{n}")))
        .find(|place| fs::symlink_metadata(place).is_err())
        .unwrap_or_else(|| parent.join("left"));
    fs::rename(&order.worktree, &place).map_err(io("move", &order.worktree))?;
    // Not a worktree of the repository any more.
    files::remove(&place.join(".git"))?;
    files::remove(&order.slot_file("index"))?;
    Ok(place.display().to_string())
}

fn reset(order: &Order, git: &Git, index: &Path) -> Result<()> {
    let try_once = || -> Result<()> {
        git.run(["read-tree", "--reset", "-u", order.job.base.as_str()])?;
        // What an ignore file hid comes to light when that is gone.
        while git.run(["clean", "-ffd"])?.bytes.windows(10).any(|name| name == b".gitignore") {}
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

/// Where the worker's branch was moved to since. Nothing is merged through it, so that is no stray.
pub fn moved_branch(order: &Order) -> Option<String> {
    let now = Git::repository(&order.common_dir).resolve_ref(&order.branch).ok()??;
    (now != order.job.base).then(|| now.to_string())
}

/// Of the slot and of the task's refs, which nobody else writes while we hold the job.
fn remove_locks(order: &Order) -> Result<()> {
    for index in ["index", "scratch"] {
        remove_lock(&order.slot_file(index))?;
    }
    let (feature, task) = (&order.feature, &order.job.task);
    let refs = order.common_dir.join(format!("refs/mahabharatha/{feature}"));
    for kind in ["tasks", "fixes"] {
        remove_lock(&refs.join(kind).join(task.as_str()))?;
    }
    for entry in fs::read_dir(refs.join("wip").join(task.as_str())).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "lock") {
            files::remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Left by a git that was killed.
fn remove_lock(path: &Path) -> Result<()> {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    files::remove(&PathBuf::from(lock))
}

/// The owned part of the work in progress, as changes that are not committed.
pub fn put_on_top(order: &Order, git: &Git, scratch: &Path, wip: &Oid) -> Result<()> {
    let git = git.clone().index(scratch);
    let changes = git.diff_tree(&order.job.base, wip)?;
    let ours = changes.iter().filter(|change| ownership::owner(&order.owned, &change.path).is_some());
    let (gone, there): (Vec<_>, Vec<_>) = ours.partition(|change| change.new.is_none());
    for change in gone {
        files::remove(&change.path.under(&order.worktree))?;
    }
    git.read_tree(wip)?;
    git.checkout_index(there.into_iter().map(|change| &change.path))?;
    files::remove(scratch)
}
