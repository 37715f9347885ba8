//! Finds and removes what a run leaves in the repository: worktrees, refs, directories, stale locks.
//!
//! Called when a feature closes, at the start of a session and by `cleanup`. Leftovers that hold work which is neither
//! merged nor saved are marked `precious`; a caller removes them only if the user asked for it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use mahabharatha_core::ids::{Attempt, Oid, TaskId};
use mahabharatha_core::run::{LevelState, LevelStatus, Run, TaskStatus};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::git::{Git, RefChange};
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::store::atomic::write_projected;
use mahabharatha_sys::store::locks::WorktreesLock;
use mahabharatha_sys::store::tree::remove_file;

use crate::worker::check_worktree;

/// Something that could be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub what: What,
    /// Why it must not be removed unless the user asks for it.
    pub precious: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Worktree(PathBuf),
    Ref(String, Oid),
    Directory(PathBuf),
}

impl What {
    /// Whether it is a worktree, its branch, or what is known of worktrees.
    pub fn belongs_to_worktrees(&self) -> bool {
        match self {
            What::Worktree(_) => true,
            What::Ref(name, _) => name.starts_with("refs/heads/"),
            What::Directory(dir) => dir.ends_with("slots") || dir.ends_with("integration"),
        }
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::Worktree(path) => write!(f, "worktree {}", path.display()),
            What::Ref(name, _) => write!(f, "ref {name}"),
            What::Directory(path) => write!(f, "directory {}", path.display()),
        }
    }
}

/// Returns everything of a feature except its journal, specs and reports. The caller holds the feature's lock.
pub fn leftovers(project: &Project, paths: &FeaturePaths, run: Option<&Run>, wip_too: bool) -> Result<Vec<Leftover>> {
    let git = Git::repository(project.common_dir());
    check_worktree(project.root(), &paths.worktrees_dir(), &paths.worktrees())?;
    let mut found = worktrees(&git, paths)?;
    let merged = |task: &str| TaskId::new(task).ok().is_some_and(|task| run.is_some_and(|run| is_merged(run, &task)));
    let feature = paths.feature().as_str();
    let (heads, refs) = (format!("refs/heads/mahabharatha/{feature}/"), format!("refs/mahabharatha/{feature}/"));
    let (branches, others): (Vec<_>, Vec<_>) =
        git.for_each_ref(&[&heads, &refs])?.into_iter().partition(|(name, _)| name.starts_with(&heads));
    let in_use = branches_in_use(&git, &found);
    for (name, oid) in branches {
        let precious = if name == paths.staging_branch() && !is_landed(&git, run, &oid)? {
            Some("it is not merged".to_string())
        } else {
            in_use.contains(&name).then(|| "its worktree is kept".to_string())
        };
        found.push(Leftover { what: What::Ref(name, oid), precious });
    }
    for (name, oid) in others {
        let below = name.trim_start_matches(&refs).to_owned();
        let mut parts = below.split('/');
        let (kind, task) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let unfinished = kind == "unfinished";
        if (kind == "wip" || unfinished) && !wip_too {
            continue;
        }
        let precious = match unfinished {
            true => Some("it is what a person did on staging".to_string()),
            false => (!merged(task)).then(|| {
                let attempt = parts.next().and_then(|attempt| attempt.parse().ok()).filter(|_| kind == "wip");
                let secrets = run.zip(attempt).and_then(|(run, attempt)| secrets_of(run, task, attempt));
                format!("{task} is not merged{}", secrets.unwrap_or_default())
            }),
        };
        found.push(Leftover { what: What::Ref(name, oid), precious });
    }
    let completed = run.is_some_and(|run| run.current_level().is_none());
    if completed {
        for dir in
            ["jobs", "slots", "spool", "integration", "bases", "damaged-objects"].map(|name| paths.dir().join(name))
        {
            if dir.exists() {
                found.push(Leftover { what: What::Directory(dir), precious: None });
            }
        }
    }
    Ok(found)
}

/// Says that an attempt holds what looks like a secret, if it does.
fn secrets_of(run: &Run, task: &str, attempt: u32) -> Option<String> {
    let attempts = &run.task(&TaskId::new(task).ok()?)?.attempts;
    let record = attempts.iter().find(|record| record.attempt == Attempt(attempt))?;
    let found = record.ended.as_ref()?.1.secrets.first()?;
    Some(format!("; it holds what looks like a secret ({}, {})", found.path, found.rule))
}

/// Returns the branches of the precious worktrees, which would have no commit without them.
fn branches_in_use(git: &Git, worktrees: &[Leftover]) -> BTreeSet<String> {
    let precious = worktrees.iter().filter(|leftover| leftover.precious.is_some());
    let branch = |leftover: &Leftover| match &leftover.what {
        What::Worktree(path) => git.worktree_branch(path),
        _ => None,
    };
    precious.filter_map(branch).collect()
}

fn is_merged(run: &Run, task: &TaskId) -> bool {
    let Some(level) = run.graph().task(task).map(|task| task.level) else { return false };
    let is_skipped = run.task(task).is_some_and(|state| matches!(state.status, TaskStatus::Skipped { .. }));
    let is_landed = |state: &LevelState| state.level == level && matches!(state.status, LevelStatus::Merged { .. });
    !is_skipped && run.levels().iter().any(is_landed)
}

/// Returns whether the base branch contains the commit.
fn is_landed(git: &Git, run: Option<&Run>, commit: &Oid) -> Result<bool> {
    let Some(run) = run else { return Ok(false) };
    match git.resolve_ref(&run.setup().base_branch)? {
        Some(base) => Ok(git.is_ancestor(commit, &base)?),
        None => Ok(false),
    }
}

fn worktrees(git: &Git, paths: &FeaturePaths) -> Result<Vec<Leftover>> {
    let dir = paths.worktrees();
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => Some(entries),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(io("read", &dir)(error)),
    };
    let mut found = Vec::new();
    // A plain file there is not ours and must not keep the feature from closing.
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    let mut there: BTreeSet<PathBuf> =
        entries.into_iter().flatten().flatten().filter(|entry| !is_file(entry)).map(|entry| entry.path()).collect();
    // Include worktrees that git knows but whose files are gone or were never created.
    there.extend(git.worktrees_in(&dir));
    for path in there {
        let in_merge = git.worktree_git_dir(&path).is_some_and(|admin| admin.join("MERGE_HEAD").exists());
        let precious = if in_merge {
            Some("a conflict is being resolved in it".to_string())
        } else {
            unsaved(paths, &path.file_name().unwrap_or_default().to_string_lossy())
        };
        found.push(Leftover { what: What::Worktree(path), precious });
    }
    found.sort_by_key(|leftover| leftover.what.to_string());
    Ok(found)
}

/// Returns why a worktree holds unsaved work, if it does. A slot has a record as long as an attempt's work exists only
/// in its worktree.
fn unsaved(paths: &FeaturePaths, name: &str) -> Option<String> {
    if name.starts_with("left-") {
        return Some("it is work that could not be committed".to_string());
    }
    let unsaved = record(paths, name).exists();
    unsaved.then(|| "it holds work that is saved nowhere else; the next run saves it".to_string())
}

/// Returns the file that says which attempt occupies the worktree of this name.
fn record(paths: &FeaturePaths, name: &str) -> PathBuf {
    paths.dir().join("slots").join(format!("{name}.json"))
}

/// Removes the given things, worktrees before their branches.
pub fn remove(project: &Project, paths: &FeaturePaths, things: &[What]) -> Result<()> {
    let git = Git::repository(project.common_dir());
    check_worktree(project.root(), &paths.worktrees_dir(), &paths.worktrees())?;
    let _lock = WorktreesLock::wait(&project.shared_dir())?;
    for thing in things {
        match thing {
            What::Worktree(path) => {
                // Without its record, no worker takes the missing files for work of the attempt.
                remove_file(&record(paths, &path.file_name().unwrap_or_default().to_string_lossy()))?;
                git.worktree_remove(path)?;
            }
            What::Directory(path) => {
                crash::point(|| format!("clear {} before", path.file_name().unwrap_or_default().display()));
                remove_dir(path)?;
            }
            What::Ref(..) => {}
        }
    }
    let changes: Vec<RefChange> = things
        .iter()
        .filter_map(|thing| match thing {
            What::Ref(name, oid) => Some(RefChange::Delete { name: name.clone(), old: Some(oid.clone()) }),
            _ => None,
        })
        .collect();
    crash::point(|| "clear refs before");
    git.update_refs(&changes, "cleared away")?;
    crash::point(|| "clear refs after");
    paths.remove_worktrees_dir();
    Ok(())
}

/// Removes the locks that a killed git left on the feature's refs and on the indexes of its integration. No other
/// program writes there, but an orphaned worker of the previous run may hold a ref lock for a moment.
pub fn remove_stale_locks(project: &Project, paths: &FeaturePaths) {
    let feature = paths.feature();
    let refs = ["refs/heads/mahabharatha", "refs/mahabharatha"].map(|place| project.common_dir().join(place));
    let mut open: Vec<PathBuf> = refs.iter().map(|dir| dir.join(feature.as_str())).collect();
    open.extend(["integration", "bases"].map(|name| paths.dir().join(name)));
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "lock") {
                remove_when_stale(&path);
            }
        }
    }
}

/// Removes the half-created worktrees of a killed `git worktree add`, which make `git worktree list` fail. Worktrees
/// with files are repaired or unregistered; their files stay.
pub fn remove_half_made_worktrees(project: &Project, paths: &FeaturePaths) -> Result<()> {
    let git = Git::repository(project.common_dir());
    let _lock = WorktreesLock::wait(&project.shared_dir())?;
    for path in git.worktrees_in(&paths.worktrees()) {
        let Some(admin) = git.worktree_git_dir(&path) else { continue };
        let is_whole = |name| fs::metadata(admin.join(name)).is_ok_and(|found| found.len() > 0);
        let mut files = fs::read_dir(&path).into_iter().flatten().flatten();
        match (is_whole("commondir"), is_whole("HEAD")) {
            (true, true) => {}
            _ if files.all(|entry| entry.file_name() == ".git") => git.worktree_remove(&path)?,
            (false, true) => write_projected(&admin.join("commondir"), b"../..\n")?,
            (_, false) => remove_dir(&admin)?,
        }
    }
    Ok(())
}

/// Longest time that a live git process of ours holds a lock.
const MAX_LOCK_AGE: Duration = Duration::from_secs(3);

fn remove_when_stale(lock: &Path) {
    let deadline = Instant::now() + MAX_LOCK_AGE;
    let age = |made: SystemTime| SystemTime::now().duration_since(made).unwrap_or_default();
    while let Ok(made) = fs::symlink_metadata(lock).and_then(|found| found.modified()) {
        if age(made) > MAX_LOCK_AGE || Instant::now() > deadline {
            // If this fails, the next git command reports the lock.
            let _ = fs::remove_file(lock);
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn remove_dir(path: &PathBuf) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", path)(error)),
        _ => Ok(()),
    }
}
