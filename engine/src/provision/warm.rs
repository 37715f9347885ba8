//! Warm worktrees: a new worktree gets copies of ignored directories of the main checkout, such as `target`, so that builds
//! do not begin from nothing.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use mahabharatha_core::config::Worktrees;
use mahabharatha_core::ids::Oid;
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::git::{EntryType, Git, RepoPath};
use mahabharatha_sys::store::atomic::write_projected;
use mahabharatha_sys::store::clone::{self, Listing, Method};
use mahabharatha_sys::store::tree;
use serde::{Deserialize, Serialize};

use super::{Directory, read_record};

/// Name of a copy until it is whole. Resetting a worktree removes it.
const UNFINISHED: &str = ".mahabharatha-warm";

/// `worktrees.warm` and its limit, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warm {
    dirs: Vec<String>,
    /// Most bytes that are copied into a worktree where blocks cannot be shared.
    limit: u64,
}

/// A directory of the main checkout and what becomes of it in a new worktree.
pub struct Planned {
    pub dir: String,
    pub plan: Plan,
    listing: Listing,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Plan {
    Take {
        method: Method,
        files: usize,
        bytes: u64,
    },
    /// There is nothing to copy yet.
    Absent,
    Not(String),
}

impl Planned {
    /// Returns the disk space that a copy takes.
    pub fn cost(&self) -> u64 {
        match self.plan {
            Plan::Take { method: Method::Copy, bytes, .. } => bytes,
            _ => 0,
        }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = &self.dir;
        match &self.plan {
            Plan::Take { method, files, bytes } => {
                let how = match method {
                    Method::Reflink => "cloned, which takes no space (reflink)",
                    Method::Copy => "copied",
                };
                write!(f, "worktrees.warm: {dir} is {how} into new worktrees: {files} files, {} MB", bytes >> 20)
            }
            Plan::Absent => {
                write!(f, "worktrees.warm: {dir} is not in the main checkout yet, so new worktrees begin without it")
            }
            Plan::Not(why) => write!(f, "worktrees.warm: {dir} is not copied: {why}"),
        }
    }
}

impl Warm {
    pub fn of(config: &Worktrees) -> Option<Warm> {
        (!config.warm.is_empty()).then(|| Warm { dirs: config.warm.clone(), limit: config.warm_limit })
    }

    /// Plans the copies from the main checkout `root` to a worktree on the file system of `into`. `same_path` tells whether
    /// programs see the worktree at the path of the main checkout.
    pub fn plan(&self, root: &Path, into: &Path, same_path: bool) -> Vec<Planned> {
        let mut left = self.limit;
        let mut planned: Vec<Planned> = Vec::new();
        for dir in &self.dirs {
            let (plan, listing) = plan_one(&root.join(dir), root, into, left);
            let plan = match plan {
                Plan::Take { .. } if !same_path && root.join(dir).join("pyvenv.cfg").exists() => Plan::Not(
                    "a virtual environment holds its path, and without bubblewrap or containers a worktree has another"
                        .to_owned(),
                ),
                plan => plan,
            };
            let planned_one = Planned { dir: dir.clone(), plan, listing };
            left = left.saturating_sub(planned_one.cost());
            planned.push(planned_one);
        }
        planned
    }

    /// Copies the directories into a new worktree, whose files are set to `tree` and in the index of `git`. Files that are as
    /// in the main checkout get their modification times, by which builds know what is up to date. `record` is a file of ours
    /// that tells whether the worktree is new. Returns what was done.
    pub fn fill(&self, place: &Place<'_>, git: &Git, tree: &Oid, record: &Path) -> Result<Vec<Planned>> {
        let Place { root, worktree, same_path } = *place;
        let directory = Directory::of(worktree)?;
        if read_record::<Directory>(record).as_ref() == Some(&directory) {
            return Ok(Vec::new());
        }
        let mut planned = self.plan(root, worktree, same_path);
        for one in &mut planned {
            if let Plan::Take { method, .. } = one.plan
                && let Err(why) = take(place, git, one, method)?
            {
                one.plan = Plan::Not(why);
            }
        }
        if planned.iter().any(|one| matches!(one.plan, Plan::Take { .. })) {
            let entries = git.ls_tree(tree)?.into_iter().filter(|entry| entry.kind != EntryType::Submodule);
            let paths: Vec<PathBuf> = entries.map(|entry| entry.path.as_path().to_owned()).collect();
            if clone::take_times(root, worktree, &paths) > 0 {
                git.refresh_index()?;
            }
        }
        write_projected(record, &serde_json::to_vec(&directory).unwrap_or_default())?;
        Ok(planned)
    }
}

/// A worktree and the main checkout.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub root: &'a Path,
    pub worktree: &'a Path,
    /// Whether programs see the worktree at the path of the main checkout.
    pub same_path: bool,
}

fn plan_one(source: &Path, root: &Path, into: &Path, left: u64) -> (Plan, Listing) {
    let not = |why: &str| (Plan::Not(why.to_owned()), Listing::default());
    let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if source.ancestors().take_while(|part| *part != root).any(is_link) {
        return not("it is, or lies behind, a symbolic link, which may lead out of the checkout");
    }
    match fs::symlink_metadata(source) {
        Err(_) => return (Plan::Absent, Listing::default()),
        Ok(found) if !found.is_dir() => return not("it is no directory"),
        Ok(_) => {}
    }
    let listing = match Listing::of(source) {
        Ok(listing) => listing,
        Err(error) => return not(&error.to_string()),
    };
    let (files, bytes) = (listing.file_count(), listing.bytes());
    let method = if clone::can_reflink(source, &listing, into) { Method::Reflink } else { Method::Copy };
    if method == Method::Copy && bytes > left {
        let why = format!(
            "it has {} MB, of worktrees.warm_limit {} MB are left, and this file system cannot share blocks (reflink)",
            bytes >> 20,
            left >> 20
        );
        return not(&why);
    }
    (Plan::Take { method, files, bytes }, listing)
}

/// Copies one directory; returns why not.
fn take(place: &Place<'_>, git: &Git, one: &Planned, method: Method) -> Result<Result<(), String>> {
    let (source, target) = (place.root.join(&one.dir), place.worktree.join(&one.dir));
    let parent = target.parent().unwrap_or(place.worktree);
    let reached = parent.ancestors().take_while(|part| *part != place.worktree);
    if reached.into_iter().any(|part| !fs::symlink_metadata(part).is_ok_and(|found| found.is_dir())) {
        return Ok(Err("the commit has no directory to put it in".to_owned()));
    }
    if fs::symlink_metadata(&target).is_ok() {
        return Ok(Err("the worktree has one already".to_owned()));
    }
    // Git tells whether it ignores a directory only if there is one.
    fs::create_dir(&target).map_err(io("make", &target))?;
    if git.ignored(&[RepoPath::from(one.dir.as_str())])?.is_empty() {
        fs::remove_dir(&target).map_err(io("remove", &target))?;
        return Ok(Err("git does not ignore it; add it to .gitignore".to_owned()));
    }
    let unfinished = place.worktree.join(UNFINISHED);
    tree::remove(&unfinished)?;
    let copied =
        clone::copy(&source, &one.listing, &unfinished, method).and_then(|()| fs::rename(&unfinished, &target));
    if let Err(error) = copied {
        tree::remove(&unfinished)?;
        tree::remove(&target)?;
        return Ok(Err(error.to_string()));
    }
    Ok(Ok(()))
}
