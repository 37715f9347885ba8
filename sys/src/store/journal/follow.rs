//! Reads a journal that another process writes, each record once.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Record;
use super::read::{read_all, read_more};
use crate::bounded;
use crate::error::{Result, io};

/// A place in a journal up to which it was read.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// The file that was read; another one may have been put in its place.
    inode: u64,
    records: u64,
    /// Where the last record ends.
    length: u64,
}

/// What a journal has gained.
#[derive(Debug, PartialEq)]
pub enum News {
    Records(Vec<Record>),
    /// All records of another journal, which was put in the place of the one that was read.
    Replaced(Vec<Record>),
}

impl Follower {
    /// Returns all records, and the place after them.
    pub fn start(path: &Path) -> Result<(Follower, Vec<Record>)> {
        let mut follower = Follower { path: path.to_owned(), inode: 0, records: 0, length: 0 };
        match follower.read()? {
            News::Records(records) | News::Replaced(records) => Ok((follower, records)),
        }
    }

    /// Returns the records since the last call.
    pub fn read(&mut self) -> Result<News> {
        let path = &self.path;
        let file = match bounded::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(News::Records(Vec::new())),
            Err(error) => return Err(io("open", path)(error)),
        };
        let found = file.metadata().map_err(io("read", path))?;
        let is_same = found.ino() == self.inode && found.len() >= self.length;
        let content = match is_same {
            true => read_more(&file, path, self.records, self.length)?.validated(path)?,
            false => read_all(&file, path)?.validated(path)?,
        };
        let before = if is_same { self.records } else { 0 };
        (self.inode, self.records, self.length) = (found.ino(), before + content.records.len() as u64, content.length);
        Ok(if is_same { News::Records(content.records) } else { News::Replaced(content.records) })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mahabharatha_core::ids::{Feature, Time};
    use mahabharatha_core::run::event::Event;

    use super::super::{FILE_NAME, Journal};
    use super::*;
    use crate::store::locks::FeatureLock;

    fn numbers(news: News) -> (bool, Vec<u64>) {
        let (is_replaced, records) = match news {
            News::Records(records) => (false, records),
            News::Replaced(records) => (true, records),
        };
        (is_replaced, records.iter().map(|record| record.seq).collect())
    }

    #[test]
    fn each_record_is_read_once_and_another_journal_from_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let lock = FeatureLock::wait(&dir.path().join("x"), &dir.path().join("none/.lock")).unwrap();
        let path = dir.path().join("x").join(FILE_NAME);
        assert_eq!(Follower::start(&path).unwrap().1, [], "there is none yet");
        let (mut journal, _) = Journal::open_for_append(&lock, &Feature::new("x").unwrap()).unwrap();
        journal.append(Time(1), &Event::Woke).unwrap();
        let (mut follower, records) = Follower::start(&path).unwrap();
        assert_eq!(records.len(), 1);
        journal.append(Time(2), &Event::Woke).unwrap();
        journal.append(Time(3), &Event::Woke).unwrap();
        assert_eq!(numbers(follower.read().unwrap()), (false, vec![2, 3]));
        assert_eq!(numbers(follower.read().unwrap()), (false, vec![]));

        let whole = fs::read(&path).unwrap();
        journal.append(Time(4), &Event::Woke).unwrap();
        let longer = fs::read(&path).unwrap();
        // Half of a record that is being written.
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(longer.len() as u64 - 5).unwrap();
        assert_eq!(numbers(follower.read().unwrap()), (false, vec![]));
        fs::write(&path, &longer).unwrap();
        assert_eq!(numbers(follower.read().unwrap()), (false, vec![4]));

        fs::write(dir.path().join("other"), &whole).unwrap();
        fs::rename(dir.path().join("other"), &path).unwrap();
        assert_eq!(numbers(follower.read().unwrap()), (true, vec![1, 2, 3]));
        fs::write(&path, [&whole[..], b"nonsense\n"].concat()).unwrap();
        let error = follower.read().unwrap_err().to_string();
        assert!(error.contains("line 5"), "{error}");
    }
}
