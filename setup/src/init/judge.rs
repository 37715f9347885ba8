//! Decides what happens to each file: create it, replace it, or put the new version beside the user's file.

use std::fs;
use std::path::{Path, PathBuf};

use mahabharatha_engine::claude::groups::Action;
use mahabharatha_sys::bounded;
use mahabharatha_sys::error::{Error, Kind, Result, io};

use super::place::{How, NewFile};
use super::record::Record;

/// Maximum size in bytes of a file that `init` could have written; a longer one is the user's.
const MAX_OWN_BYTES: u64 = 4 << 20;

pub struct Decision {
    pub action: Action,
    /// Where the new version goes if the user's stays.
    pub beside: Option<String>,
    pub is_written: bool,
}

impl Decision {
    fn write(action: Action) -> Decision {
        Decision { action, beside: None, is_written: true }
    }
}

/// Decides by what is in the project and what `init` wrote there before. Changes nothing.
pub struct Judge<'a> {
    pub root: &'a Path,
    pub record: &'a Record,
}

impl Judge<'_> {
    pub fn decide(&self, file: &NewFile) -> Result<Decision> {
        self.check_parents(&file.path)?;
        let Some(now) = self.contents(&file.path)? else { return Ok(Decision::write(Action::Created)) };
        let ours = file.text.as_bytes();
        Ok(match now {
            Some(now) if now == ours => Decision { action: Action::Unchanged, beside: None, is_written: false },
            Some(_) if file.how == How::Merged => Decision::write(Action::Merged),
            Some(now) if self.record.wrote(&file.path, &now) => Decision::write(Action::Updated),
            _ => self.beside(&file.path, ours)?,
        })
    }

    /// Picks the first name beside the file that is free, or that we wrote ourselves.
    fn beside(&self, path: &str, ours: &[u8]) -> Result<Decision> {
        for number in 1.. {
            let name = if number == 1 { format!("{path}.new") } else { format!("{path}.new-{number}") };
            let is_written = match self.contents(&name)? {
                None => true,
                Some(Some(now)) if now == ours => false,
                Some(Some(now)) if self.record.wrote(&name, &now) => true,
                Some(_) => continue,
            };
            return Ok(Decision { action: Action::Kept, beside: Some(name), is_written });
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
                Kind::Failed,
                format!("{} is a directory, but init needs a file there", target.display()),
            )
            .hint("Move it away.")),
            Ok(found) if found.is_file() && found.len() <= MAX_OWN_BYTES => {
                bounded::read(&target, MAX_OWN_BYTES).map(|bytes| Some(Some(bytes))).map_err(io("read", &target))
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
                        Kind::Failed,
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
fn parents(root: &Path, path: &str) -> Vec<PathBuf> {
    let parts: Vec<&str> = path.split('/').collect();
    (1..parts.len()).map(|length| root.join(parts[..length].join("/"))).collect()
}
