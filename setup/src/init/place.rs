//! Writing into the project: all of it or nothing, and nothing of a person's is replaced.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mahabharatha_engine::claude::groups::{Action, Group, Placed};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, ExitCode, Result, io};
use tempfile::{NamedTempFile, TempDir};

use super::judge::{Decision, Judge, parents};
use super::record::{self, Record};
use super::unfinished;

/// What the name begins with of the directory that everything is written in first.
pub const UNFINISHED: &str = ".unfinished-init-";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// From the root, with `/`.
    pub path: String,
    pub text: String,
    pub how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Ours; one that a person has changed stays, and this is put beside it.
    Ours,
    /// Holds everything that stood there.
    Merged,
}

impl NewFile {
    pub fn ours(path: impl Into<String>, text: impl Into<String>) -> NewFile {
        NewFile { path: path.into(), text: text.into(), how: How::Ours }
    }

    pub fn merged(path: impl Into<String>, text: impl Into<String>) -> NewFile {
        NewFile { path: path.into(), text: text.into(), how: How::Merged }
    }
}

/// Held for the whole command. The lock is on the directory itself, so that it leaves nothing behind.
pub fn lock(root: &Path) -> Result<File> {
    let dir = File::open(root).map_err(io("open", root))?;
    match dir.try_lock() {
        Ok(()) => Ok(dir),
        Err(TryLockError::WouldBlock) => {
            Err(Error::new(ExitCode::Held, format!("another init is at work in {}", root.display()))
                .hint("Wait for it to end."))
        }
        Err(TryLockError::Error(error)) => Err(io("lock", root)(error)),
    }
}

/// Whether `init` has been here before, on this machine or on that of whoever committed what it made. One that was
/// interrupted may have made anything but its record.
pub fn is_set_up(root: &Path, interrupted: bool) -> bool {
    let is_there = |path: &str| root.join(path).is_file();
    is_there(record::PATH)
        || !interrupted
            && is_there(".mahabharatha/config.yaml")
            && (is_there(".gsd/INFRASTRUCTURE.md") || is_there(".gsd/PROJECT.md"))
}

/// Files on their way into the project. Dropped without `keep`, it takes back what it did.
#[must_use]
pub struct Placing {
    root: PathBuf,
    record: Record,
    /// In the project, so that files can be moved from there.
    staging: TempDir,
    made: Vec<PathBuf>,
    made_dirs: Vec<PathBuf>,
    /// Those that others made are gone with the last file in them.
    also_dirs: BTreeSet<PathBuf>,
    /// Copies of what stood there, and where.
    replaced: Vec<(PathBuf, PathBuf)>,
    kept: bool,
}

impl Placing {
    /// The caller holds the lock.
    pub fn begin(root: &Path) -> Result<Placing> {
        unfinished::take_back(root)?;
        let staging =
            tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(root).map_err(io("make a directory in", root))?;
        let ignore = staging.path().join(".gitignore");
        fs::write(&ignore, "*\n").map_err(io("write", &ignore))?;
        Ok(Placing {
            root: root.to_owned(),
            record: Record::read(root),
            staging,
            made: Vec::new(),
            made_dirs: Vec::new(),
            also_dirs: BTreeSet::new(),
            replaced: Vec::new(),
            kept: false,
        })
    }

    /// Everything is decided and written elsewhere before the first file is moved into its place.
    pub fn place(mut self, files: Vec<NewFile>) -> Result<(Vec<Placed>, Placing)> {
        let mut staged = Vec::new();
        for file in files {
            let decision = self.decide(&file)?;
            let written = match decision {
                Decision::Leave(..) => None,
                _ => Some(self.stage(&file.text)?),
            };
            staged.push((file, decision, written));
        }
        let new = staged.iter().filter_map(|(file, decision, _)| match decision {
            Decision::Create => Some((file.path.as_str(), file.text.as_bytes())),
            Decision::Beside { path, replaces: false } => Some((path.as_str(), file.text.as_bytes())),
            _ => None,
        });
        unfinished::note(self.staging.path(), new)?;
        let mut placed = Vec::new();
        for (file, decision, written) in staged {
            let (action, beside) = self.carry_out(&file, decision, written)?;
            let group = Group::of_project_file(&file.path);
            placed.push(Placed { group, path: file.path, action, beside });
        }
        Ok((placed, self))
    }

    /// Writes down what was written: the last thing, so that whoever finds it finds all the rest.
    pub fn seal(&mut self) -> Result<()> {
        let record = NewFile::merged(record::PATH, self.record.text());
        match self.decide(&record)? {
            Decision::Leave(Action::Unchanged, _) => {}
            Decision::Create => {
                unfinished::note(self.staging.path(), [(record::PATH, record.text.as_bytes())].into_iter())?;
                self.create(&record.path, self.stage(&record.text)?)?
            }
            _ => self.replace(&record.path, self.stage(&record.text)?)?,
        }
        Ok(())
    }

    /// Files that somebody else made on the way, and that go too where it is taken back.
    pub fn also_made(&mut self, paths: Vec<PathBuf>) {
        for path in &paths {
            let above = path.ancestors().skip(1).take_while(|dir| *dir != self.root);
            self.also_dirs.extend(above.map(Path::to_owned));
        }
        self.made.extend(paths);
    }

    /// It stays as it is now.
    pub fn keep(mut self) {
        self.kept = true;
    }

    fn decide(&self, file: &NewFile) -> Result<Decision> {
        Judge { root: &self.root, record: &self.record }.decide(file)
    }

    fn stage(&self, text: &str) -> Result<NamedTempFile> {
        let mut file = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(self.staging.path())
            .map_err(io("make a file in", self.staging.path()))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.as_file().sync_data())
            .map_err(io("write in", self.staging.path()))?;
        Ok(file)
    }

    fn carry_out(
        &mut self,
        file: &NewFile,
        decision: Decision,
        written: Option<NamedTempFile>,
    ) -> Result<(Action, Option<String>)> {
        let ours = file.text.as_bytes();
        match (decision, written) {
            (Decision::Create, Some(written)) => {
                self.create(&file.path, written)?;
                self.record.note(&file.path, ours);
                Ok((Action::Created, None))
            }
            (Decision::Replace(action), Some(written)) => {
                self.replace(&file.path, written)?;
                // What holds a person's words is never ours to replace.
                if file.how == How::Ours {
                    self.record.note(&file.path, ours);
                }
                Ok((action, None))
            }
            (Decision::Beside { path, replaces }, Some(written)) => {
                if replaces {
                    self.replace(&path, written)?
                } else {
                    self.create(&path, written)?
                }
                self.record.note(&path, ours);
                Ok((Action::Kept, Some(path)))
            }
            (Decision::Leave(action, beside), _) => {
                if action == Action::Unchanged && file.how == How::Ours {
                    self.record.note(&file.path, ours);
                }
                Ok((action, beside))
            }
            (_, None) => unreachable!("what is to be moved was written"),
        }
    }

    fn create(&mut self, path: &str, written: NamedTempFile) -> Result<()> {
        for parent in parents(&self.root, path) {
            match fs::create_dir(&parent) {
                Ok(()) => self.made_dirs.push(parent),
                Err(_) if parent.is_dir() => {}
                Err(error) => return Err(io("make the directory", &parent)(error)),
            }
        }
        let target = self.root.join(path);
        crash::point(|| format!("init {path}"));
        written.persist_noclobber(&target).map_err(|error| io("write", &target)(error.error))?;
        self.made.push(target);
        Ok(())
    }

    fn replace(&mut self, path: &str, written: NamedTempFile) -> Result<()> {
        let target = self.root.join(path);
        let copy = self.staging.path().join(format!("copy-{}", self.replaced.len()));
        fs::copy(&target, &copy).map_err(io("copy", &target))?;
        let permissions = fs::metadata(&target).map_err(io("look at", &target))?.permissions();
        fs::set_permissions(written.path(), permissions).map_err(io("write", written.path()))?;
        written.persist(&target).map_err(|error| io("write", &target)(error.error))?;
        self.replaced.push((copy, target));
        Ok(())
    }
}

impl Drop for Placing {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // What cannot be taken back stays; the error that led here is what the person is told.
        for (copy, target) in self.replaced.drain(..).rev() {
            let _ = fs::rename(copy, target);
        }
        for path in self.made.drain(..) {
            let _ = fs::remove_file(path);
        }
        // Deeper ones come later in both; one that holds something stays.
        let also_dirs = std::mem::take(&mut self.also_dirs);
        for dir in also_dirs.iter().rev().chain(self.made_dirs.iter().rev()) {
            let _ = fs::remove_dir(dir);
        }
    }
}

#[cfg(test)]
mod tests;
