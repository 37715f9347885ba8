//! A private copy of what a process has written to its journal. Agents may be able to write to the journal, too; then it is
//! restored from here.

use std::fs::File;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// On disk, because the journal of a long run is large. The file has no name, and the hash is keyed, so that a program that
/// reaches the file nevertheless cannot change it unnoticed.
#[derive(Debug)]
pub(super) struct PrivateCopy {
    file: File,
    length: u64,
    keys: RandomState,
    hash: DefaultHasher,
}

impl PrivateCopy {
    /// Creates a copy of this text in an unnamed file on the same disk as the directory.
    pub fn new(dir: &Path, text: &[u8]) -> io::Result<PrivateCopy> {
        let (file, keys) = (tempfile::tempfile_in(dir)?, RandomState::new());
        let hash = keys.build_hasher();
        let mut copy = PrivateCopy { file, length: 0, keys, hash };
        copy.write(text)?;
        copy.keep(text);
        Ok(copy)
    }

    /// Returns the length of what is kept.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes behind what is kept. It counts only once `keep` is called.
    pub fn write(&self, text: &[u8]) -> io::Result<()> {
        self.file.write_all_at(text, self.length)
    }

    /// Keeps what was just written.
    pub fn keep(&mut self, text: &[u8]) {
        self.length += text.len() as u64;
        hash_lines(&mut self.hash, text);
    }

    /// Returns everything that is kept. Fails if another program has changed it.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut text = vec![0; usize::try_from(self.length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut text, 0)?;
        let mut hash = self.keys.build_hasher();
        hash_lines(&mut hash, &text);
        match hash.finish() == self.hash.finish() {
            true => Ok(text),
            false => Err(io::Error::new(ErrorKind::InvalidData, "another program changed the private copy")),
        }
    }
}

/// Adds each line by itself, so that the hash does not depend on how many were added at once.
fn hash_lines(hash: &mut DefaultHasher, text: &[u8]) {
    text.split_inclusive(|&byte| byte == b'\n').for_each(|line| hash.write(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_kept_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut copy = PrivateCopy::new(dir.path(), b"one\ntwo\n").unwrap();
        copy.write(b"a long line that does not get into the journal\n").unwrap();
        copy.write(b"three\n").unwrap();
        copy.keep(b"three\n");
        assert_eq!(copy.read().unwrap(), b"one\ntwo\nthree\n");
        assert_eq!(copy.length(), 14);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file has no name");
    }

    #[test]
    fn a_changed_copy_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let copy = PrivateCopy::new(dir.path(), b"one\ntwo\n").unwrap();
        copy.file.write_all_at(b"x", 0).unwrap();
        assert_eq!(copy.read().unwrap_err().kind(), ErrorKind::InvalidData);
        copy.file.write_all_at(b"o", 0).unwrap();
        assert_eq!(copy.read().unwrap(), b"one\ntwo\n");
        copy.file.set_len(3).unwrap();
        copy.read().unwrap_err();
    }
}
