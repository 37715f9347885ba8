//! Step 4: every difference from the base commit is the task's, a tool's, or a stray.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mahabharatha_core::config::Generated;
use mahabharatha_core::graph::OwnedPath;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::{EntryType, Found, Git, RepoPath};

use super::files;
use super::job_spec::JobSpec;

/// A repository inside the repository is kept as files up to so many.
const MAX_NESTED_FILES: usize = 10_000;

/// What the attempt changed.
#[derive(Debug, Default)]
pub struct Changes {
    pub owned: BTreeSet<RepoPath>,
    pub strays: Vec<Stray>,
    /// Made by tools inside the task's own directories: left out, and worth telling.
    pub left_out: Vec<RepoPath>,
    /// Files in repositories inside the repository.
    nested_files: Vec<RepoPath>,
    /// The `.git` of each.
    nested: Vec<PathBuf>,
    /// Ignored by an ignore file that is itself ignored: a tool's cache, or something that means to stay unseen.
    hidden: Vec<PathBuf>,
}

#[derive(Debug)]
pub struct Stray {
    pub path: RepoPath,
    pub why: &'static str,
}

impl Changes {
    /// What is not the task's, to be kept beside it.
    pub fn others(&self) -> impl Iterator<Item = &RepoPath> {
        self.strays.iter().map(|stray| &stray.path).chain(&self.nested_files)
    }

    pub fn everything(&self) -> impl Iterator<Item = &RepoPath> {
        self.owned.iter().chain(self.others())
    }

    /// Takes out what `git clean` does not see and the next attempt would find.
    pub fn take_out(&self, spec: &JobSpec, job_dir: &Path) -> Result<()> {
        for path in &self.nested {
            files::displace(&spec.worktree.join(path), &job_dir.join("quarantine"), &path.to_string_lossy())?;
        }
        self.hidden.iter().try_for_each(|path| files::remove(&spec.worktree.join(path)))
    }
}

/// Whose path this is. By bytes: a name that differs only in case or in its Unicode form is another name.
pub fn owner<'a>(owned: &'a [OwnedPath], path: &RepoPath) -> Option<&'a OwnedPath> {
    owned.iter().find(|owned| {
        let exact = path.as_bytes() == owned.path.as_bytes();
        if owned.directory { !exact && path.is_within(owned.path.as_bytes()) } else { exact }
    })
}

/// Tells what tools make.
pub fn generated(spec: &JobSpec) -> Result<impl Fn(&RepoPath) -> bool> {
    let generated = Generated::new(spec.generated.clone())
        .map_err(|error| Error::new(Kind::Invalid, format!("ownership.generated: {error}")))?;
    Ok(move |path: &RepoPath| path.as_str().is_some_and(|text| generated.is_generated(text)))
}

/// Compares the worktree with the base commit, which the index of `git` must hold.
pub fn look(git: &Git, spec: &JobSpec) -> Result<Changes> {
    let root = &spec.worktree;
    let is_generated = generated(spec)?;
    let mut changes = Changes::default();
    let mut ignored = BTreeSet::new();
    for entry in git.status()? {
        let owner = owner(&spec.owned, &entry.path);
        match (entry.found, owner) {
            (Found::Ignored, _) => {
                ignored.insert(entry.path.as_path().to_owned());
            }
            (Found::Untracked | Found::UntrackedDirectory, Some(owner))
                if owner.directory && is_generated(&entry.path) =>
            {
                changes.left_out.push(entry.path);
            }
            (_, None) if is_generated(&entry.path) => {}
            (Found::UntrackedDirectory, _) => changes.strays.push(Stray { path: entry.path, why: REPOSITORY }),
            (_, None) => changes.strays.push(Stray { path: entry.path, why: "" }),
            (_, Some(_)) => {
                changes.owned.insert(entry.path);
            }
        }
    }
    // A file that is owned by name counts even where git ignores it.
    let named = spec.owned.iter().filter(|owned| !owned.directory).map(|owned| RepoPath::from(owned.path.as_str()));
    changes.owned.extend(named.filter(|path| {
        let unseen = path.as_path().ancestors().any(|part| ignored.contains(part));
        unseen && fs::symlink_metadata(path.under(root)).is_ok()
    }));
    reject_unfit(root, &mut changes);
    find_nested(git, spec, |path| ignored.contains(path) || is_generated(&repo_path(path)), &mut changes)?;
    changes.hidden = hidden(&ignored);
    changes.strays.sort_by(|a, b| a.path.cmp(&b.path));
    changes.strays.dedup_by(|a, b| a.path == b.path);
    Ok(changes)
}

const REPOSITORY: &str = "a repository inside the repository";

/// Owned by name, but nothing that may go into a commit.
fn reject_unfit(root: &Path, changes: &mut Changes) {
    let owned = std::mem::take(&mut changes.owned);
    for path in owned {
        match unfit(root, &path) {
            Some(why) => changes.strays.push(Stray { path, why }),
            None => {
                changes.owned.insert(path);
            }
        }
    }
}

fn unfit(root: &Path, path: &RepoPath) -> Option<&'static str> {
    let place = path.under(root);
    let found = fs::symlink_metadata(&place).ok()?;
    if path.as_path().iter().any(files::is_dot_git) {
        return Some("named like a git directory");
    }
    if let Some(link) = files::link_on_the_way(root, path.as_path()) {
        let target = fs::read_link(root.join(&link)).unwrap_or_default();
        return files::bad_link(root, &link, &target).or(Some("behind a symbolic link"));
    }
    if found.is_symlink() {
        return files::bad_link(root, path.as_path(), &fs::read_link(&place).unwrap_or_default());
    }
    // A directory in place of an owned file: what is in it is listed on its own.
    (!found.is_file() && !found.is_dir()).then_some("not a file")
}

/// Looks for `.git` wherever git itself would not tell: in directories with tracked files.
fn find_nested(git: &Git, spec: &JobSpec, passed_over: impl Fn(&Path) -> bool, changes: &mut Changes) -> Result<()> {
    let root = &spec.worktree;
    let mut found = Vec::new();
    files::walk(root, |path, entry| {
        if files::is_dot_git(&entry.file_name()) {
            found.extend((path != Path::new(".git")).then(|| path.to_owned()));
            return false;
        }
        !passed_over(path)
    });
    if found.is_empty() {
        return Ok(());
    }
    let submodules: BTreeSet<RepoPath> = git
        .ls_tree(&spec.job.base)?
        .into_iter()
        .filter(|entry| entry.kind == EntryType::Submodule)
        .map(|entry| entry.path)
        .collect();
    for dot_git in found {
        let dir = repo_path(dot_git.parent().unwrap_or(Path::new("")));
        if submodules.iter().any(|submodule| dir.is_within(submodule.as_bytes())) {
            continue;
        }
        files::walk(&dir.under(root), |path, entry| {
            let keep = !files::is_dot_git(&entry.file_name());
            if keep
                && !entry.file_type().is_ok_and(|kind| kind.is_dir())
                && changes.nested_files.len() < MAX_NESTED_FILES
            {
                changes.nested_files.push(repo_path(&dir.as_path().join(path)));
            }
            keep
        });
        changes.strays.push(Stray { path: dir, why: REPOSITORY });
        changes.nested.push(dot_git);
    }
    Ok(())
}

fn hidden(ignored: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let hiding = |path: &&PathBuf| path.file_name().is_some_and(|name| name == ".gitignore");
    let places: Vec<&Path> = ignored
        .iter()
        .filter(hiding)
        .filter_map(|path| path.parent())
        .filter(|dir| !dir.as_os_str().is_empty())
        .collect();
    ignored.iter().filter(|path| places.iter().any(|place| path.starts_with(place))).cloned().collect()
}

fn repo_path(path: &Path) -> RepoPath {
    RepoPath::new(path.as_os_str().as_bytes())
}

/// Takes changed files into the index. What lies behind a symbolic link goes when the link takes its place.
pub fn stage<'a>(git: &Git, root: &Path, paths: impl IntoIterator<Item = &'a RepoPath>) -> Result<()> {
    let paths = paths.into_iter().filter(|path| files::link_on_the_way(root, path.as_path()).is_none());
    Ok(git.update_index(paths.filter(|path| !path.under(root).is_dir() || path.under(root).is_symlink()))?)
}
