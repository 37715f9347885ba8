//! Several file changes that happen all or not at all.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, ExitCode, Result, io};
use crate::store::atomic::{sweep_of, write_atomic};

/// Planned writes and removals. Where one fails, those before it are undone.
#[derive(Debug)]
pub struct Changes {
    /// The project that no symbolic link may lead a write out of.
    project: Option<PathBuf>,
    planned: Vec<Change>,
}

#[derive(Debug)]
struct Change {
    path: PathBuf,
    old: Option<Vec<u8>>,
    new: Option<String>,
}

impl Changes {
    pub fn new(project: Option<&Path>) -> Changes {
        Changes { project: project.map(Path::to_owned), planned: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }

    pub fn write(&mut self, path: PathBuf, text: String) -> Result<()> {
        self.plan(path, Some(text))
    }

    pub fn remove(&mut self, path: PathBuf) -> Result<()> {
        self.plan(path, None)
    }

    fn plan(&mut self, path: PathBuf, new: Option<String>) -> Result<()> {
        self.check_place(&path)?;
        self.planned.push(Change { old: read(&path)?, new, path });
        Ok(())
    }

    /// Refuses a path that a symbolic link in the repository leads out of the project.
    fn check_place(&self, path: &Path) -> Result<()> {
        let Some(root) = &self.project else { return Ok(()) };
        let root = root.canonicalize().map_err(io("follow", root))?;
        let dir = path.ancestors().skip(1).find_map(|dir| dir.canonicalize().ok());
        if dir.is_some_and(|dir| dir.starts_with(root)) {
            return Ok(());
        }
        let message = format!("{} leads out of the project, through a symbolic link", path.display());
        Err(Error::new(ExitCode::Invalid, message)
            .hint("Remove the link, or install for yourself: mahabharatha install --user."))
    }

    /// The files that will be created.
    pub fn created(&self) -> Vec<PathBuf> {
        let created = self.planned.iter().filter(|change| change.old.is_none() && change.new.is_some());
        created.map(|change| change.path.clone()).collect()
    }

    /// Whether a file is among those to be removed.
    pub fn removes(&self, path: &Path) -> bool {
        self.planned.iter().any(|change| change.new.is_none() && change.path == path)
    }

    pub fn carry_out(&self) -> Result<()> {
        let created = self.created();
        let missing: BTreeSet<&Path> =
            created.iter().flat_map(|path| path.ancestors().skip(1)).filter(|dir| !dir.exists()).collect();
        for (at, change) in self.planned.iter().enumerate() {
            if let Err(error) = set(&change.path, change.new.as_ref().map(String::as_bytes)) {
                for done in self.planned[..at].iter().rev() {
                    // What cannot be put back is still whole, and a second try goes on from there.
                    let _ = set(&done.path, done.old.as_deref());
                }
                for dir in missing.iter().rev() {
                    let _ = fs::remove_dir(dir);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes the directories below `top` that the removals left empty.
    pub fn remove_empty_dirs(&self, top: &Path) {
        for change in self.planned.iter().filter(|change| change.new.is_none()) {
            let above = change.path.ancestors().skip(1).take_while(|dir| *dir != top && dir.starts_with(top));
            for dir in above {
                if fs::remove_dir(dir).is_err() {
                    break;
                }
            }
        }
    }
}

pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", path)(error)),
    }
}

fn set(path: &Path, content: Option<&[u8]>) -> Result<()> {
    match content {
        Some(bytes) => {
            // A killed process may have left its unfinished file behind.
            sweep_of(path);
            write_atomic(path, bytes)
        }
        None => fs::remove_file(path).map_err(io("remove", path)),
    }
}
