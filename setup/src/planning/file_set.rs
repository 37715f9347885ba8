//! Files that are written all together or not at all.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::store::atomic::write_atomic;

/// In the order in which they are written; nothing in place of bytes: the file goes.
#[derive(Debug, Default)]
pub struct FileSet(Vec<(PathBuf, Option<Vec<u8>>)>);

impl FileSet {
    pub fn put(&mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) {
        self.0.push((path.into(), Some(bytes.into())));
    }

    pub fn remove(&mut self, path: impl Into<PathBuf>) {
        self.0.push((path.into(), None));
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Path, Option<&[u8]>)> {
        self.0.iter().map(|(path, bytes)| (path.as_path(), bytes.as_deref()))
    }

    /// What cannot be written takes back what was.
    pub fn write(&self) -> Result<Written> {
        let mut written = Written::default();
        for (path, bytes) in self.iter() {
            if let Err(error) = written.step(path, bytes) {
                written.take_back();
                return Err(error);
            }
        }
        Ok(written)
    }
}

/// What was there before.
#[derive(Debug, Default)]
pub struct Written {
    before: Vec<(PathBuf, Option<Vec<u8>>)>,
    made: Vec<PathBuf>,
}

impl Written {
    fn step(&mut self, path: &Path, bytes: Option<&[u8]>) -> Result<()> {
        let before = match fs::read(path) {
            Ok(before) => Some(before),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(io("read", path)(error)),
        };
        let new = path.ancestors().skip(1).take_while(|dir| !dir.exists()).map(Path::to_owned);
        self.made.extend(new.collect::<Vec<_>>().into_iter().rev());
        self.before.push((path.to_owned(), before));
        match bytes {
            Some(bytes) => write_atomic(path, bytes),
            None => remove(path),
        }
    }

    /// As far as the disk lets us.
    pub fn take_back(self) {
        for (path, before) in self.before.into_iter().rev() {
            let _ = match before {
                Some(bytes) => write_atomic(&path, &bytes),
                None => remove(&path),
            };
        }
        for dir in self.made.iter().rev() {
            // Goes when it is empty, and only then.
            let _ = fs::remove_dir(dir);
        }
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_cannot_be_written_leaves_everything_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("old"), "old").unwrap();
        fs::write(at("gone"), "gone").unwrap();
        let mut set = FileSet::default();
        set.put(at("old"), "new");
        set.remove(at("gone"));
        set.put(at("deep/er/file"), "x");
        set.write().unwrap().take_back();
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["gone", "old"]);
        // A file where a directory has to be.
        set.put(at("old/below"), "y");
        assert!(set.write().is_err());
        assert_eq!(names(), ["gone", "old"]);
        assert_eq!(fs::read_to_string(at("old")).unwrap(), "old");
    }
}
