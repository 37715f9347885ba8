//! Changes several files atomically: all or none, even if the process is killed midway.
//!
//! `init`, `install` and `design` plan changes, apply them and `keep` them; changes that are not kept are undone. A
//! journal below the set's root lets `recover` undo them after a kill. Neither a change nor its undo may overwrite a
//! file that another program changed in the meantime.

mod recovery;

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use tempfile::TempDir;

use super::atomic::{create_atomic, sweep_of, write_with_permissions};
use crate::bounded::{self, LARGE_FILE_BYTES};
use crate::crash;
use crate::error::{Error, Kind, Result, io};

use recovery::Journal;
pub use recovery::{JOURNAL_DIR_PREFIX, lock, recover};

/// Planned writes and removals, in the order in which they are applied.
#[derive(Debug)]
pub struct FileSet {
    /// Directories that changes must stay in; anywhere if empty.
    roots: Vec<PathBuf>,
    journal: Option<Journal>,
    planned: Vec<Change>,
}

#[derive(Debug, Clone)]
struct Change {
    path: PathBuf,
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
}

impl Change {
    fn changes_something(&self) -> bool {
        self.old != self.new
    }
}

impl FileSet {
    /// Creates a set that refuses paths outside these directories, through a symbolic link, or into `.git`: the
    /// contents of a repository must not decide where we write.
    pub fn within(roots: &[&Path]) -> FileSet {
        FileSet { roots: roots.iter().map(|root| (*root).to_owned()).collect(), journal: None, planned: Vec::new() }
    }

    /// Creates a set without such limits, for the user's own directories.
    pub fn anywhere() -> FileSet {
        FileSet::within(&[])
    }

    /// Adds a journal below this directory, so that the set survives a kill. `name` is the prefix of its crash points.
    #[must_use]
    pub fn journaled(self, root: &Path, name: &'static str) -> FileSet {
        FileSet { journal: Some(Journal { root: root.to_owned(), name, completed_by: None }), ..self }
    }

    /// Makes `recover` treat the set as complete once this path below the journal's root exists, rather than once the
    /// last change is applied.
    #[must_use]
    pub fn completed_by(mut self, path: &'static str) -> FileSet {
        self.journal.iter_mut().for_each(|journal| journal.completed_by = Some(path));
        self
    }

    pub fn write(&mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Result<()> {
        self.plan(path.into(), Some(bytes.into()))
    }

    pub fn remove(&mut self, path: impl Into<PathBuf>) -> Result<()> {
        self.plan(path.into(), None)
    }

    fn plan(&mut self, path: PathBuf, new: Option<Vec<u8>>) -> Result<()> {
        check_place(&self.roots, &path)?;
        self.planned.push(Change { old: read(&path)?, new, path });
        Ok(())
    }

    /// Adds the planned changes of another set.
    pub fn extend(&mut self, other: &FileSet) -> Result<()> {
        other.planned.iter().try_for_each(|change| check_place(&self.roots, &change.path))?;
        self.planned.extend(other.planned.iter().cloned());
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }

    /// Returns each path with its new contents; none for a removal.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, Option<&[u8]>)> {
        self.planned.iter().map(|change| (change.path.as_path(), change.new.as_deref()))
    }

    /// Returns whether the set removes this file.
    pub fn removes(&self, path: &Path) -> bool {
        self.iter().any(|(planned, new)| new.is_none() && planned == path)
    }

    /// Applies all changes or none.
    pub fn apply(&self) -> Result<Applied> {
        let changes: Vec<&Change> = self.planned.iter().filter(|change| change.changes_something()).collect();
        let mut steps = Vec::new();
        for change in &changes {
            check_place(&self.roots, &change.path)?;
            let old = Contents::read(&change.path)?;
            if old.as_ref().map(|old| &old.bytes) != change.old.as_ref() {
                let message = format!("{} was changed meanwhile; nothing was written", change.path.display());
                return Err(Error::new(Kind::Failed, message).hint("Run the same command again."));
            }
            steps.push(Step { path: change.path.clone(), old, new: change.new.as_deref().map(fingerprint) });
        }
        let above =
            changes.iter().filter(|change| change.new.is_some()).flat_map(|change| change.path.ancestors().skip(1));
        let made: BTreeSet<PathBuf> = above.filter(|dir| !dir.exists()).map(Path::to_owned).collect();
        let made: Vec<PathBuf> = made.into_iter().collect();
        let mut applied = Applied { roots: self.roots.clone(), steps: Vec::new(), made, journal: None };
        if let Some(journal) = self.journal.as_ref().filter(|_| !steps.is_empty()) {
            applied.journal = Some(journal.begin(&steps, &applied.made, !self.roots.is_empty())?);
        }
        for (change, step) in changes.into_iter().zip(steps) {
            crash::point(|| self.crash_point(&change.path));
            let permissions = step.old.as_ref().map(|old| old.permissions.clone());
            // Pushed before the write: even a write that fails may have replaced the file.
            applied.steps.push(step);
            set(&change.path, change.new.as_deref(), permissions)?;
        }
        Ok(applied)
    }

    fn crash_point(&self, path: &Path) -> String {
        let (name, root) =
            self.journal.as_ref().map_or(("place", Path::new("")), |journal| (journal.name, &journal.root));
        format!("{name} {}", path.strip_prefix(root).unwrap_or(path).display())
    }

    /// Removes the directories below `top` that the removals left empty.
    pub fn remove_empty_dirs(&self, top: &Path) {
        self.iter().filter(|(_, new)| new.is_none()).for_each(|(path, _)| remove_empty_above(path, top));
    }
}

/// Applied changes, which are undone on drop unless they are kept.
#[derive(Debug)]
#[must_use = "changes that are not kept are undone"]
pub struct Applied {
    roots: Vec<PathBuf>,
    steps: Vec<Step>,
    /// Created directories, outermost first.
    made: Vec<PathBuf>,
    journal: Option<TempDir>,
}

impl Applied {
    pub fn keep(mut self) {
        self.steps.clear();
        self.made.clear();
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        let is_undone = undo(&self.roots, &self.steps);
        match self.journal.take() {
            // Leave the journal, so that the next command tries again.
            Some(journal) if !is_undone => drop(journal.keep()),
            journal => drop(journal),
        }
        remove_dirs(&self.made);
    }
}

/// What is needed to undo a change: the old contents, and a fingerprint of the new.
#[derive(Debug)]
struct Step {
    path: PathBuf,
    old: Option<Contents>,
    new: Option<String>,
}

impl Step {
    /// Returns whether the file is as the change leaves it.
    fn is_done(&self) -> bool {
        read(&self.path).is_ok_and(|now| now.as_deref().map(fingerprint) == self.new)
    }
}

#[derive(Debug)]
struct Contents {
    bytes: Vec<u8>,
    permissions: Permissions,
}

impl Contents {
    fn read(path: &Path) -> Result<Option<Contents>> {
        let Some(bytes) = read(path)? else { return Ok(None) };
        let permissions = fs::metadata(path).map_err(io("look at", path))?.permissions();
        Ok(Some(Contents { bytes, permissions }))
    }
}

/// Reads a file of limited size; none if there is no such file.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match bounded::read(path, LARGE_FILE_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", path)(error)),
    }
}

/// Returns the length and a 64-bit FNV-1a hash. It is the same in every version and detects changes, but not forgery.
pub fn fingerprint(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{}-{hash:016x}", bytes.len())
}

fn set(path: &Path, content: Option<&[u8]>, permissions: Option<Permissions>) -> Result<()> {
    // A killed process may have left a temporary file behind.
    sweep_of(path);
    match (content, permissions) {
        (Some(bytes), Some(permissions)) => write_with_permissions(path, bytes, permissions),
        (Some(bytes), None) => create_atomic(path, bytes),
        (None, _) => fs::remove_file(path).map_err(io("remove", path)),
    }
}

/// Undoes the changes, last first, in files that have not been changed since. Returns whether that succeeded.
fn undo(roots: &[PathBuf], steps: &[Step]) -> bool {
    let mut is_undone = true;
    for step in steps.iter().rev().filter(|step| check_place(roots, &step.path).is_ok()) {
        sweep_of(&step.path);
        if step.is_done() {
            let old = step.old.as_ref();
            let permissions = old.map(|old| old.permissions.clone());
            is_undone &= set(&step.path, old.map(|old| old.bytes.as_slice()), permissions).is_ok();
        }
    }
    is_undone
}

/// Removes the directories that are empty, innermost first.
fn remove_dirs(made: &[PathBuf]) {
    for dir in made.iter().rev() {
        let _ = fs::remove_dir(dir);
    }
}

fn remove_empty_above(path: &Path, top: &Path) {
    for dir in path.ancestors().skip(1).take_while(|dir| *dir != top && dir.starts_with(top)) {
        if fs::remove_dir(dir).is_err() {
            break;
        }
    }
}

fn check_place(roots: &[PathBuf], path: &Path) -> Result<()> {
    if roots.is_empty() || roots.iter().any(|root| is_plain_below(root, path)) {
        return Ok(());
    }
    let message = format!("{} leads out of the project, through a symbolic link or into .git", path.display());
    Err(Error::new(Kind::Invalid, message)
        .hint("Put a plain file or directory in the place of the link: files are not written through links."))
}

fn is_plain_below(root: &Path, path: &Path) -> bool {
    let canonical = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let Ok(inside) = path.strip_prefix(root).or_else(|_| path.strip_prefix(&canonical)) else { return false };
    let mut place = canonical;
    inside.components().all(|part| {
        place.push(part);
        matches!(part, Component::Normal(name) if name != ".git") && !place.is_symlink()
    })
}

#[cfg(test)]
mod tests;
