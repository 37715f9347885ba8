//! Journal of a file set, for recovery after a kill: a list of the changes and copies of the replaced files.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::{Contents, Step, read, remove_dirs, remove_empty_above, undo};
use crate::bounded;
use crate::error::{Error, Kind, Result, io};
use crate::store::atomic::{make_dir, sync_dir, write_atomic, write_with_permissions};

/// Prefix of the name of a journal's directory.
pub const JOURNAL_DIR_PREFIX: &str = ".unfinished-changes-";
/// Name of the file that lists the changes.
const LIST: &str = "list.json";

#[derive(Debug)]
pub struct Journal {
    pub root: PathBuf,
    pub name: &'static str,
    pub completed_by: Option<&'static str>,
}

#[derive(Serialize, Deserialize)]
struct List {
    /// Identity of the directory that the list was written in: a list that came with a clone or a copy is ignored.
    directory: String,
    /// Whether paths must stay below the root.
    confined: bool,
    completed_by: Option<PathBuf>,
    made: Vec<PathBuf>,
    changes: Vec<Listed>,
}

#[derive(Serialize, Deserialize)]
struct Listed {
    /// Relative to the root, or absolute if outside.
    path: PathBuf,
    /// Name of the copy of the old file.
    old: Option<String>,
    /// Fingerprint of the new contents.
    new: Option<String>,
}

impl Journal {
    /// Writes the planned changes and the old contents to a new directory, which is removed when the result is dropped.
    pub fn begin(&self, steps: &[Step], made: &[PathBuf], confined: bool) -> Result<TempDir> {
        let root = &self.root;
        make_dir(root)?;
        let dir = tempfile::Builder::new().prefix(JOURNAL_DIR_PREFIX).tempdir_in(root);
        let dir = dir.map_err(io("make a directory in", root))?;
        write_atomic(&dir.path().join(".gitignore"), b"*\n")?;
        let mut changes = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let old = step.old.as_ref().map(|old| (format!("copy-{number}"), old));
            if let Some((name, old)) = &old {
                write_with_permissions(&dir.path().join(name), &old.bytes, old.permissions.clone())?;
            }
            let path = step.path.strip_prefix(root).unwrap_or(&step.path).to_owned();
            changes.push(Listed { path, old: old.map(|(name, _)| name), new: step.new.clone() });
        }
        let made = made.iter().filter_map(|dir| dir.strip_prefix(root).ok()).map(Path::to_owned).collect();
        let (directory, completed_by) = (identity(dir.path())?, self.completed_by.map(PathBuf::from));
        let list = serde_json::to_vec(&List { directory, confined, completed_by, made, changes });
        let list = list.map_err(Error::caused(format_args!("cannot note which files change in {}", root.display())))?;
        write_atomic(&dir.path().join(LIST), &list)?;
        sync_dir(root)?;
        Ok(dir)
    }
}

/// Undoes the incomplete changes of killed processes below a directory and removes their journals. Returns whether
/// there were any journals. The caller holds the lock.
pub fn recover(root: &Path) -> Result<bool> {
    let mut is_found = false;
    for entry in fs::read_dir(root).map_err(io("read", root))?.flatten() {
        let is_journal = entry.file_name().to_string_lossy().starts_with(JOURNAL_DIR_PREFIX);
        if !is_journal || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        is_found = true;
        let dir = entry.path();
        if let Some(list) = read_list(&dir)? {
            list.finish_or_undo(root, &dir)?;
        }
        fs::remove_dir_all(&dir).map_err(io("remove", &dir))?;
    }
    Ok(is_found)
}

/// Reads a journal's list; none if the process was killed before writing it, or if it was written in another directory.
fn read_list(dir: &Path) -> Result<Option<List>> {
    let list = read(&dir.join(LIST)).ok().flatten();
    let list: Option<List> = list.and_then(|list| serde_json::from_slice(&list).ok());
    let identity = identity(dir)?;
    Ok(list.filter(|list| list.directory == identity))
}

impl List {
    fn finish_or_undo(&self, root: &Path, dir: &Path) -> Result<()> {
        let mut steps = Vec::new();
        for change in &self.changes {
            let old = change.old.as_ref().map(|name| Contents::read(&dir.join(name))).transpose()?.flatten();
            // Without its copy a change cannot be undone; copies are only removed after the changes are done or undone.
            if old.is_some() == change.old.is_some() {
                steps.push(Step { path: root.join(&change.path), old, new: change.new.clone() });
            }
        }
        let is_complete = match &self.completed_by {
            Some(path) => root.join(path).exists(),
            None => steps.last().is_some_and(Step::is_done),
        };
        if is_complete {
            let removed = steps.iter().filter(|step| step.new.is_none());
            removed.for_each(|step| remove_empty_above(&step.path, root));
            return Ok(());
        }
        let roots = if self.confined { vec![root.to_owned()] } else { Vec::new() };
        if !undo(&roots, &steps) {
            let message = format!("cannot undo what an interrupted command left in {}", root.display());
            return Err(Error::new(Kind::Failed, message)
                .detail(format!("the old contents are in {}", dir.display()))
                .hint("Make room on the disk and check the permissions, then run the same command again."));
        }
        let made: Vec<PathBuf> = self.made.iter().map(|dir| root.join(dir)).collect();
        remove_dirs(&made);
        Ok(())
    }
}

/// Returns an identity that no copy of the directory shares: its inode and, if known, its creation time.
fn identity(dir: &Path) -> Result<String> {
    let found = fs::symlink_metadata(dir).map_err(io("look at", dir))?;
    let made = found.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Ok(format!("{}-{}", found.ino(), made.as_nanos()))
}

/// Locks a directory for changes with a journal. The lock is on the directory itself, so it leaves no file behind.
pub fn lock(root: &Path) -> Result<File> {
    let dir = bounded::open_dir(root).map_err(io("open", root))?;
    match dir.try_lock() {
        Ok(()) => Ok(dir),
        Err(TryLockError::WouldBlock) => {
            let message = format!("another init or install is at work in {}", root.display());
            Err(Error::new(Kind::Held, message).hint("Wait for it to end."))
        }
        Err(TryLockError::Error(error)) => Err(io("lock", root)(error)),
    }
}
