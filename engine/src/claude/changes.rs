//! Several file changes that happen all or not at all.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use mahabharatha_sys::error::{Error, ExitCode, Result, io};
use mahabharatha_sys::store::atomic::{sweep_of, write_atomic};
use mahabharatha_sys::store::bounded::{self, LARGE_FILE_BYTES};

/// Planned writes and removals. Where one fails, those before it are undone.
#[derive(Debug)]
pub struct Changes {
    /// The directory that writes must stay in.
    root: Option<PathBuf>,
    planned: Vec<Change>,
}

#[derive(Debug)]
struct Change {
    path: PathBuf,
    old: Option<Vec<u8>>,
    new: Option<String>,
}

impl Changes {
    pub fn new(root: Option<&Path>) -> Changes {
        Changes { root: root.map(Path::to_owned), planned: Vec::new() }
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

    /// Refuses a path that goes through a symbolic link or into `.git`: what a repository contains must not choose where
    /// we write.
    fn check_place(&self, path: &Path) -> Result<()> {
        let Some(root) = &self.root else { return Ok(()) };
        let canonical = root.canonicalize().unwrap_or_else(|_| root.clone());
        let inside = path.strip_prefix(root).or_else(|_| path.strip_prefix(&canonical)).unwrap_or(Path::new(".git"));
        let mut place = canonical;
        let is_safe = inside.components().all(|part| {
            place.push(part);
            matches!(part, Component::Normal(name) if name != ".git") && !place.is_symlink()
        });
        if is_safe {
            return Ok(());
        }
        let message = format!("{} leads out of the project, through a symbolic link or into .git", path.display());
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
        for change in &self.planned {
            self.check_place(&change.path)?;
            if read(&change.path)? != change.old {
                let message = format!("{} was changed meanwhile; nothing was written", change.path.display());
                return Err(Error::new(ExitCode::Failed, message).hint("Run the same command again."));
            }
        }
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
    match bounded::read(path, LARGE_FILE_BYTES) {
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_changed_through_a_link_or_in_a_git_directory() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        symlink(".git", root.join("agents")).unwrap();
        symlink("../home", root.join("z")).unwrap();
        symlink("../home/file", root.join("link")).unwrap();
        for path in ["agents/HEAD", "z/x", "link", ".git/HEAD", "../home/x", "a/../../home/x"] {
            let mut changes = Changes::new(Some(&root));
            let refused = changes.write(root.join(path), "x".to_owned()).unwrap_err();
            assert_eq!(refused.exit(), ExitCode::Invalid, "{path}");
            assert_eq!(changes.remove(root.join(path)).unwrap_err().exit(), ExitCode::Invalid, "{path}");
        }
        let mut changes = Changes::new(Some(&root));
        changes.write(root.join("new/file"), "x".to_owned()).unwrap();
        changes.carry_out().unwrap();
        assert_eq!(fs::read(root.join("new/file")).unwrap(), b"x");
    }

    #[test]
    fn what_changed_after_the_plan_was_made_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        fs::write(&second, "old").unwrap();
        let mut changes = Changes::new(None);
        changes.write(first.clone(), "new".to_owned()).unwrap();
        changes.write(second.clone(), "new".to_owned()).unwrap();
        fs::write(&second, "changed by the user").unwrap();
        assert!(changes.carry_out().unwrap_err().message().contains("was changed meanwhile"));
        assert_eq!(fs::read(&second).unwrap(), b"changed by the user");
        assert!(!first.exists());
    }
}
