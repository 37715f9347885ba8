//! Sets up the worktree for an attempt, whatever state an earlier attempt left it in, and records whose work is in it.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mahabharatha_core::config::Isolation;
use mahabharatha_core::ids::{Attempt, Oid, TaskId, WorkerId};
use mahabharatha_core::run::effect::Job;
use mahabharatha_sys::bounded::{self, INDEX_BYTES, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::git::{Git, RefChange, RepoPath};
use mahabharatha_sys::proc;
use mahabharatha_sys::project;
use mahabharatha_sys::store::atomic::{make_dir, write_projected};
use mahabharatha_sys::store::tree;
use serde::{Deserialize, Serialize};

use super::guard::{Guard, Snapshot};
use super::job_spec::{JobSpec, WORKTREE_VARIABLE, slot_file, slots_dir};
use super::setup::{self, Place};
use super::wip::{self, Saved, WipRef};
use super::{files, include, ownership, sweep, trial};
use crate::provision;

/// Files that belong in a worktree's git directory; others are from an unfinished git operation and are removed.
const WORKTREE_GIT_FILES: [&str; 10] =
    ["HEAD", "ORIG_HEAD", "FETCH_HEAD", "commondir", "config.worktree", "gitdir", "index", "locked", "logs", "modules"];

/// Index with every file as in the base commit. Held in memory, where no agent can change it.
pub struct Pristine {
    bytes: Vec<u8>,
    /// Modification time of the index, from which git tells which files may have changed within the clock's resolution.
    written: SystemTime,
}

impl Pristine {
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = bounded::read(path, INDEX_BYTES).map_err(io("read", path))?;
        let written = fs::metadata(path).and_then(|found| found.modified()).map_err(io("read", path))?;
        Ok(Pristine { bytes, written })
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        self.write_as_of(path, self.written)
    }

    /// Writes the index with a time before that of any file, so that git compares the contents of all files it looks at.
    pub fn write_distrusted(&self, path: &Path) -> Result<()> {
        self.write_as_of(path, SystemTime::UNIX_EPOCH + Duration::from_secs(1))
    }

    fn write_as_of(&self, path: &Path, time: SystemTime) -> Result<()> {
        write_projected(path, &self.bytes)?;
        let file = File::options().write(true).open(path).map_err(io("write", path))?;
        file.set_times(FileTimes::new().set_modified(time)).map_err(io("write", path))
    }
}

/// Attempt whose unsaved work is in a slot; the slot has no such file when there is no unsaved work.
#[derive(Serialize, Deserialize)]
struct Occupant {
    task: TaskId,
    attempt: Attempt,
    base: Oid,
    guard: Snapshot,
}

/// Returns the job directory of the attempt whose unsaved work is in a worker's slot.
pub fn occupant(feature_dir: &Path, worker: WorkerId) -> Result<Option<PathBuf>> {
    let record = slot_file(feature_dir, worker, "json");
    let bytes = match bounded::read(&record, LARGE_FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("read", &record)(error)),
    };
    let Occupant { task, attempt, .. } = serde_json::from_slice(&bytes)
        .map_err(|error| Error::new(Kind::Invalid, format!("{}: {error}", record.display())))?;
    Ok(Some(project::job_dir(feature_dir, &task, attempt)))
}

/// Returns the job directories of the attempts in all occupied slots.
pub fn occupants(feature_dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(slots_dir(feature_dir)).into_iter().flatten().flatten();
    let records = entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned));
    let workers = records.filter_map(|name| name.strip_prefix("worker-")?.parse().ok().map(WorkerId));
    workers.filter_map(|worker| occupant(feature_dir, worker).transpose()).collect()
}

/// Returns the pristine index and the guard of this attempt, if it occupies the slot.
pub fn occupied(spec: &JobSpec) -> Result<Option<(Pristine, Guard<'_>)>> {
    let Ok(bytes) = bounded::read(&spec.slot_file("json"), LARGE_FILE_BYTES) else { return Ok(None) };
    let Ok(Occupant { task, attempt, guard, .. }) = serde_json::from_slice(&bytes) else { return Ok(None) };
    if task != spec.job.task || attempt != spec.job.attempt {
        return Ok(None);
    }
    Ok(Some((Pristine::read(&spec.slot_file("index"))?, Guard::from_snapshot(spec, guard))))
}

/// Records that this attempt occupies the slot. Must run before the agent can change anything.
pub fn occupy(spec: &JobSpec, guard: &Guard<'_>) -> Result<()> {
    let Job { task, attempt, base, .. } = spec.job.clone();
    let occupant = Occupant { task, attempt, base, guard: guard.snapshot() };
    // No fsync: what the agent writes from now on would not survive a power failure either.
    write_projected(&spec.slot_file("json"), &serde_json::to_vec(&occupant).unwrap_or_default())
}

/// Frees the slot, once everything the attempt left is committed or saved.
pub fn vacate(spec: &JobSpec) -> Result<()> {
    files::remove(&spec.slot_file("json"))
}

/// Sets the worktree to the base, makes it ready to work, and adds what the attempt continues.
pub fn start(place: &Place<'_>) -> Result<(Pristine, Vec<String>)> {
    let Place { spec, job_dir, .. } = *place;
    files::check_worktree(&spec.root, spec.worktrees_dir(), &spec.worktree)?;
    let quarantine = job_dir.join("quarantine");
    write_worktree_git_files(spec, &quarantine)?;
    let index = spec.slot_file("index");
    make_dir(&spec.slots_dir())?;
    remove_locks(spec)?;
    let mut warnings = save_leftover(spec, job_dir)?;
    write_worktree_git_files(spec, &quarantine)?;
    let git = private_git(spec)?.index(&index);
    reset(spec, &git, &index)?;
    set_branch(spec)?;
    warnings.extend(place.warm(&git)?);
    warnings.extend(include::include(spec, &git)?);
    warnings.extend(place.set_up(&git)?);
    let pristine = Pristine::read(&index)?;
    // Makes the agent's own `git status` start clean.
    pristine.write(&spec.worktree_git_dir.join("index"))?;
    if let (Some(_), Some(wip)) = (&spec.job.carry.note, &spec.job.carry.wip) {
        put_on_top(spec, &git, &job_dir.join("wip.index"), wip)?;
    }
    Ok((pristine, warnings))
}

/// Returns git for the slot's worktree, without anything in it that git would wait for. Call it only while no agent runs.
pub fn private_git(spec: &JobSpec) -> Result<Git> {
    tree::remove_special_files(&spec.worktree)?;
    slot_git(spec)
}

/// Returns git with a private git directory for the slot, created now if needed. It may not look at the worktree.
pub fn slot_git(spec: &JobSpec) -> Result<Git> {
    let git = Git::objects(&spec.slot_file("git"), &spec.common_dir, &spec.pinned)?;
    git.detach_head(&spec.job.base)?;
    Ok(git.work_tree(&spec.worktree))
}

/// Writes the files by which git knows the worktree, as `git worktree add` does.
pub fn write_worktree_git_files(spec: &JobSpec, quarantine: &Path) -> Result<()> {
    let admin = &spec.worktree_git_dir;
    for dir in [admin, &spec.worktree] {
        if fs::symlink_metadata(dir).is_ok_and(|found| !found.is_dir()) {
            files::displace(dir, quarantine, "worktree")?;
        }
        fs::create_dir_all(dir).map_err(io("make", dir))?;
    }
    tree::make_accessible(&spec.worktree);
    for entry in fs::read_dir(admin).map_err(io("read", admin))?.flatten() {
        if !WORKTREE_GIT_FILES.iter().any(|name| entry.file_name() == *name) {
            files::remove(&entry.path())?;
        }
    }
    let link = spec.worktree.join(".git");
    files::ensure(&link, &format!("gitdir: {}\n", admin.display()), quarantine)?;
    files::ensure(&admin.join("gitdir"), &format!("{}\n", link.display()), quarantine)?;
    files::ensure(&admin.join("commondir"), "../..\n", quarantine)?;
    files::ensure(&admin.join("HEAD"), &format!("ref: {}\n", spec.branch), quarantine)
}

/// Saves the work that killed workers left in their worktrees, unless a later attempt saved it. No worker may be
/// running. Work that cannot be attributed to an attempt stays in place.
pub fn save_leftovers(feature_dir: &Path) -> Result<()> {
    for entry in fs::read_dir(slots_dir(feature_dir)).into_iter().flatten().flatten() {
        let Ok(bytes) = bounded::read(&entry.path(), LARGE_FILE_BYTES) else { continue };
        let Ok(Occupant { task, attempt, .. }) = serde_json::from_slice(&bytes) else { continue };
        let job_dir = project::job_dir(feature_dir, &task, attempt);
        let Ok(spec) = JobSpec::read(&job_dir) else { continue };
        if spec.slot_file("json") == entry.path() {
            remove_locks(&spec)?;
            write_worktree_git_files(&spec, &job_dir.join("quarantine"))?;
            save_leftover(&spec, &job_dir)?;
        }
    }
    Ok(())
}

/// Saves the work of a killed worker's agent as wip; returns warnings for the user.
fn save_leftover(spec: &JobSpec, job_dir: &Path) -> Result<Vec<String>> {
    let record = spec.slot_file("json");
    let bytes = match bounded::read(&record, LARGE_FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        // Not our record any more: there may be work of an attempt all the same.
        Err(_) => Vec::new(),
    };
    for survivor in proc::find_marked(WORKTREE_VARIABLE, spec.worktree.as_os_str()) {
        proc::end_process(survivor);
    }
    let Ok(occupant) = serde_json::from_slice::<Occupant>(&bytes) else {
        let place = set_aside(spec, "unknown")?;
        vacate(spec)?;
        return Ok(vec![format!("what was left of an unknown attempt is in {place}")]);
    };
    let left_by = project::job_dir(&spec.feature_dir(), &occupant.task, occupant.attempt);
    trial::refuse_open(&left_by)?;
    trial::end_killed(&left_by);
    let wip_ref = WipRef::new(spec, &occupant.task, occupant.attempt, &occupant.base);
    let whose = format!("{} attempt {}, whose worker was killed", occupant.task, occupant.attempt);
    let git = private_git(spec)?;
    let planted = Guard::from_snapshot(spec, occupant.guard).restore(&git, job_dir)?;
    let mut warnings: Vec<String> =
        planted.strays.iter().map(|name| format!("{name} was changed during {whose}; it was restored")).collect();
    warnings.extend(match save(spec, job_dir, &wip_ref) {
        Ok(kept) if kept.wip.is_some() => {
            [kept.warnings, vec![format!("what was left of {whose}, is kept in {}", wip_ref.name())]].concat()
        }
        Ok(kept) => kept.warnings,
        Err(error) => {
            let place = set_aside(spec, &format!("{}.{}", occupant.task, occupant.attempt))?;
            vec![format!("what was left of {whose}, could not be committed ({error}); it is in {place}")]
        }
    });
    vacate(spec)?;
    Ok(warnings)
}

fn save(spec: &JobSpec, job_dir: &Path, wip_ref: &WipRef<'_>) -> Result<Saved> {
    let scratch = job_dir.join("left.index");
    Pristine::read(&spec.slot_file("index"))?.write(&scratch)?;
    let git = private_git(spec)?.index(&scratch);
    git.detach_head(wip_ref.base())?;
    let found = ownership::look(&git, spec)?;
    found.take_out(spec, job_dir)?;
    let kept = wip::save(wip_ref, &git, &[], &found.everything().collect::<Vec<_>>());
    files::remove(&scratch)?;
    kept
}

/// Moves the whole worktree aside, so that nothing in it is lost.
fn set_aside(spec: &JobSpec, name: &str) -> Result<String> {
    let parent = spec.worktree.parent().unwrap_or(&spec.root);
    let place = (1..)
        .map(|n| parent.join(format!("left-{name}-{n}")))
        .find(|place| fs::symlink_metadata(place).is_err())
        .unwrap_or_else(|| parent.join("left"));
    fs::rename(&spec.worktree, &place).map_err(io("move", &spec.worktree))?;
    // It is no longer a worktree of the repository.
    files::remove(&place.join(".git"))?;
    files::remove(&spec.slot_file("index"))?;
    Ok(place.display().to_string())
}

pub fn reset(spec: &JobSpec, git: &Git, index: &Path) -> Result<()> {
    // Without a sandbox an agent can have written the index, and git believes what an index says of whole directories.
    let is_ours = spec.confinement.isolation != Isolation::Off && index.exists();
    let swept = || sweep::sweep(git, &spec.worktree, &spec.job.base).is_ok_and(|is_clean| is_clean);
    if (is_ours && swept()) || set_to_base(spec, git).is_ok() {
        return Ok(());
    }
    // An unreadable index, missing permissions, a directory in place of a file: start from an empty worktree.
    files::remove(index)?;
    remove_lock(index)?;
    provision::forget(&setup::record(spec))?;
    provision::forget(&setup::warm_record(spec))?;
    files::wipe(&spec.worktree)?;
    set_to_base(spec, git).map_err(|error| {
        let text = format!("{} cannot be set to {}: {error}", spec.worktree.display(), spec.job.base.short());
        Error::new(Kind::Failed, text)
    })
}

fn set_to_base(spec: &JobSpec, git: &Git) -> Result<()> {
    git.run(["read-tree", "--reset", "-u", spec.job.base.as_str()])?;
    // Removing an ignore file can reveal more untracked files.
    while git.run(["clean", "-ffd"])?.bytes.windows(10).any(|name| name == b".gitignore") {}
    sweep::remove_nested_git(git, &spec.worktree, &spec.job.base)
}

fn set_branch(spec: &JobSpec) -> Result<()> {
    let git = Git::repository(&spec.common_dir);
    if git.resolve_ref(&spec.branch)?.as_ref() == Some(&spec.job.base) {
        return Ok(());
    }
    remove_lock(&spec.common_dir.join(&spec.branch))?;
    let set = RefChange::Set { name: spec.branch.clone(), new: spec.job.base.clone() };
    Ok(git.update_refs(&[set], "mahabharatha: start of an attempt")?)
}

/// Returns where the worker's branch was moved to, if it was. No stray: nothing is merged through the branch.
pub fn moved_branch(spec: &JobSpec) -> Option<String> {
    let git = Git::repository(&spec.common_dir);
    if git.is_symbolic(&spec.branch) {
        return Some("another branch by a symbolic ref".to_owned());
    }
    let now = git.resolve_ref(&spec.branch).ok()??;
    (now != spec.job.base).then(|| now.to_string())
}

/// Removes stale git locks of the slot and of the task's refs, which only the holder of the job lock writes.
fn remove_locks(spec: &JobSpec) -> Result<()> {
    for index in ["index", "scratch"] {
        remove_lock(&spec.slot_file(index))?;
    }
    let (feature, task) = (&spec.feature, &spec.job.task);
    let refs = spec.common_dir.join(format!("refs/mahabharatha/{feature}"));
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

/// Removes the lock file that a killed git left for `path`.
fn remove_lock(path: &Path) -> Result<()> {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    files::remove(&PathBuf::from(lock))
}

/// Applies the owned part of a wip commit to the worktree, as uncommitted changes. A file that another task has changed
/// since the wip was begun stays as it is now.
pub fn put_on_top(spec: &JobSpec, git: &Git, scratch: &Path, wip: &Oid) -> Result<()> {
    let git = git.clone().index(scratch);
    let changes = git.diff_tree(&spec.job.base, wip)?;
    let changed_since = git.diff_tree(&base_of_wip(&git, wip)?, &spec.job.base)?;
    let changed_since: BTreeSet<&RepoPath> = changed_since.iter().map(|change| &change.path).collect();
    let is_ours = |path: &RepoPath| ownership::owner(&spec.owned, path).is_some() && !changed_since.contains(path);
    let ours = changes.iter().filter(|change| is_ours(&change.path));
    let (gone, there): (Vec<_>, Vec<_>) = ours.partition(|change| change.new.is_none());
    for change in gone {
        files::remove(&change.path.under(&spec.worktree))?;
    }
    git.read_tree(wip)?;
    git.checkout_index(there.into_iter().map(|change| &change.path))?;
    files::remove(scratch)
}

/// Returns the commit that an attempt which saved its work began with: what it does not own is in a second commit.
pub fn base_of_wip(git: &Git, wip: &Oid) -> Result<Oid> {
    let mut base = wip.clone();
    for _ in 0..2 {
        let texts = git.read_commits(std::slice::from_ref(&base))?;
        match texts.first().and_then(|text| Some((text, text.parents.first()?))) {
            Some((text, parent)) if text.message.starts_with(b"wip(") => base = parent.clone(),
            _ => break,
        }
    }
    Ok(base)
}
