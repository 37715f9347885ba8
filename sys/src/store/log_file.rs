//! Log files: appended to, rotated when they get too large, removed when they are old.
//!
//! `x.jsonl` is the newest part of a log; `x.jsonl.1`, `x.jsonl.2` and so on are older parts, the highest number the
//! latest of them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::state_file;
use crate::bounded;

const EXTENSION: &str = "jsonl";

pub struct LogFile {
    path: PathBuf,
    file: File,
    max_bytes: u64,
}

impl LogFile {
    pub fn at(path: &Path, max_bytes: u64) -> io::Result<LogFile> {
        Ok(LogFile { path: path.to_owned(), file: state_file::open_to_append(path)?, max_bytes })
    }

    /// Appends a line. Begins a new file before one that would make this one too large.
    pub fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length > 0 && length + line.len() as u64 > self.max_bytes {
            // If that fails, the line goes into the large file: no line may be lost.
            let _ = self.rotate();
        }
        self.file.write_all(line)
    }

    fn rotate(&mut self) -> io::Result<()> {
        let is_same = |found: fs::Metadata| Ok::<bool, io::Error>(found.ino() == self.file.metadata()?.ino());
        // Another process that writes to the same log may have rotated it.
        if fs::symlink_metadata(&self.path).and_then(is_same).unwrap_or(false) {
            let last = older_parts(&self.path).into_iter().map(|(number, _)| number).max().unwrap_or(0);
            renameat_with(CWD, &self.path, CWD, part(&self.path, last + 1), RenameFlags::NOREPLACE)?;
        }
        self.file = state_file::open_to_append(&self.path)?;
        Ok(())
    }
}

fn part(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Returns the older parts of a log with their numbers.
fn older_parts(path: &Path) -> Vec<(u64, PathBuf)> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else { return Vec::new() };
    let number = |found: &Path| found.file_name()?.to_str()?.strip_prefix(name)?.strip_prefix('.')?.parse().ok();
    let found = list(dir).unwrap_or_default().into_iter();
    found.filter_map(|found| number(&found).map(|number| (number, found))).collect()
}

/// Returns the part of a log that was written first, for the path of its newest part; none for that of an older one.
pub fn first_part(path: &Path) -> Option<PathBuf> {
    path.extension().filter(|extension| *extension == EXTENSION)?;
    let first = part(path, 1);
    Some(if first.exists() { first } else { path.to_owned() })
}

/// Lists the logs in a directory with their older parts; none if it does not exist.
pub fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    bounded::check_place(dir)?;
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| is_log(path));
    // By bytes: comparing paths part by part takes longer and orders names the same.
    paths.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    Ok(paths)
}

fn is_log(path: &Path) -> bool {
    let is = |path: &Path, extension: &str| path.extension().is_some_and(|found| found == extension);
    let is_number = |text: &OsStr| text.to_str().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    is(path, EXTENSION) || path.extension().is_some_and(is_number) && is(&path.with_extension(""), EXTENSION)
}

/// Removes a log with its older parts.
pub fn remove(path: &Path) {
    for (_, part) in older_parts(path) {
        let _ = fs::remove_file(part);
    }
    let _ = fs::remove_file(path);
}

/// Removes the logs in a directory that were last written before this time.
pub fn remove_older(dir: &Path, time: SystemTime) -> io::Result<()> {
    for path in list(dir)? {
        let found = fs::symlink_metadata(&path);
        if found.is_ok_and(|found| found.is_file() && found.modified().is_ok_and(|written| written < time)) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_large_log_is_rotated_and_no_line_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("worker-0.jsonl");
        let (mut one, mut other) = (LogFile::at(&path, 25).unwrap(), LogFile::at(&path, 25).unwrap());
        for number in 0..10 {
            one.append(format!("one {number:05}\n").as_bytes()).unwrap();
            other.append(format!("two {number:05}\n").as_bytes()).unwrap();
        }
        one.append(&[b'x'; 100]).unwrap();
        fs::write(dir.path().join("notes.1"), "").unwrap();
        fs::write(dir.path().join("worker-0.jsonl.old"), "").unwrap();
        let files = list(dir.path()).unwrap();
        assert!(files.len() >= 10 && files.contains(&part(&path, 1)), "{files:?}");
        assert_eq!((first_part(&path), first_part(&part(&path, 2))), (Some(part(&path, 1)), None));
        let lines: usize = files.iter().map(|file| fs::read_to_string(file).unwrap().lines().count()).sum();
        assert_eq!(lines, 21);
        remove(&path);
        assert_eq!(list(dir.path()).unwrap(), [] as [PathBuf; 0]);
        assert_eq!(first_part(&path), Some(path));
    }

    #[test]
    fn only_old_logs_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let week = Duration::from_secs(7 * 24 * 60 * 60);
        for name in ["a.jsonl", "a.jsonl.1", "b.jsonl", "c.txt"] {
            let file = File::create(dir.path().join(name)).unwrap();
            let age = if name.starts_with('b') { Duration::ZERO } else { 2 * week };
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        remove_older(dir.path(), SystemTime::now() - week).unwrap();
        remove_older(&dir.path().join("none"), SystemTime::now()).unwrap();
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["b.jsonl", "c.txt"]);
    }
}
