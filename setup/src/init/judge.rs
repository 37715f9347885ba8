//! Decides what happens to each file: create it, replace it, or put the new version beside the user's file.

use std::fs;
use std::path::{Path, PathBuf};

use mahabharatha_engine::claude::groups::{Action, Group, Placed};
use mahabharatha_sys::error::{Error, ExitCode, Result, io};

use super::place::{How, NewFile};
use super::record::Record;

/// Maximum size in bytes of a file that `init` could have written; a longer one is the user's.
const MAX_OWN_BYTES: u64 = 4 << 20;

pub enum Decision {
    Create,
    Replace(Action),
    Leave(Action, Option<String>),
    Beside { path: String, replaces: bool },
}

/// Decides by what is in the project and what `init` wrote there before. Changes nothing.
pub struct Judge<'a> {
    pub root: &'a Path,
    pub record: &'a Record,
}

impl Judge<'_> {
    /// Returns what writing these files would do.
    pub fn preview(&self, files: &[NewFile]) -> Result<Vec<Placed>> {
        let mut placed = Vec::new();
        for file in files {
            let (action, beside) = match self.decide(file)? {
                Decision::Create => (Action::Created, None),
                Decision::Replace(action) => (action, None),
                Decision::Leave(action, beside) => (action, beside),
                Decision::Beside { path, .. } => (Action::Kept, Some(path)),
            };
            placed.push(Placed { group: Group::of_project_file(&file.path), path: file.path.clone(), action, beside });
        }
        Ok(placed)
    }

    pub fn decide(&self, file: &NewFile) -> Result<Decision> {
        self.check_parents(&file.path)?;
        let Some(now) = self.contents(&file.path)? else { return Ok(Decision::Create) };
        let ours = file.text.as_bytes();
        Ok(match now {
            Some(now) if now == ours => Decision::Leave(Action::Unchanged, None),
            Some(_) if file.how == How::Merged => Decision::Replace(Action::Merged),
            Some(now) if self.record.wrote(&file.path, &now) => Decision::Replace(Action::Updated),
            _ => self.beside(&file.path, ours)?,
        })
    }

    /// Picks the first name beside the file that is free, or that we wrote ourselves.
    fn beside(&self, path: &str, ours: &[u8]) -> Result<Decision> {
        for number in 1.. {
            let name = if number == 1 { format!("{path}.new") } else { format!("{path}.new-{number}") };
            match self.contents(&name)? {
                None => return Ok(Decision::Beside { path: name, replaces: false }),
                Some(Some(now)) if now == ours => return Ok(Decision::Leave(Action::Kept, Some(name))),
                Some(Some(now)) if self.record.wrote(&name, &now) => {
                    return Ok(Decision::Beside { path: name, replaces: true });
                }
                Some(_) => {}
            }
        }
        unreachable!("some number is free")
    }

    /// Returns None if nothing is there, and `Some(None)` for something that we cannot have written, by its kind or its
    /// size.
    fn contents(&self, path: &str) -> Result<Option<Option<Vec<u8>>>> {
        let target = self.root.join(path);
        match fs::symlink_metadata(&target) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io("inspect", &target)(error)),
            Ok(found) if found.is_dir() => Err(Error::new(
                ExitCode::Failed,
                format!("{} is a directory, but init needs a file there", target.display()),
            )
            .hint("Move it away.")),
            Ok(found) if found.is_file() && found.len() <= MAX_OWN_BYTES => {
                fs::read(&target).map(|bytes| Some(Some(bytes))).map_err(io("read", &target))
            }
            Ok(_) => Ok(Some(None)),
        }
    }

    /// Refuses to write through a symlink or below a file.
    fn check_parents(&self, path: &str) -> Result<()> {
        for parent in parents(self.root, path) {
            match fs::symlink_metadata(&parent) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => {
                    return Err(Error::new(
                        ExitCode::Failed,
                        format!(
                            "{} is not a directory of this project, but init needs one for {path}",
                            parent.display()
                        ),
                    )
                    .hint("Replace it with a directory: init does not write through symlinks."));
                }
                Err(_) => break,
            }
        }
        Ok(())
    }
}

/// Returns the directories between the root and the file, outermost first.
pub fn parents(root: &Path, path: &str) -> Vec<PathBuf> {
    let parts: Vec<&str> = path.split('/').collect();
    (1..parts.len()).map(|length| root.join(parts[..length].join("/"))).collect()
}
