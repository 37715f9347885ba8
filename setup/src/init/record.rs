//! Record of what `init` wrote, to tell later whether the user has changed a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mahabharatha_sys::bounded;
use mahabharatha_sys::store::file_set::fingerprint;
use serde::{Deserialize, Serialize};

pub const PATH: &str = ".mahabharatha/init.json";
/// Maximum size in bytes: far more than a real record has.
const MAX_BYTES: u64 = 4 << 20;

/// Fingerprints of the written contents, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    files: BTreeMap<String, String>,
}

impl Record {
    /// Reads the record. If it is missing or unreadable, every existing file counts as the user's.
    pub fn read(root: &Path) -> Record {
        let path = root.join(PATH);
        let is_plain = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        let text = if is_plain { bounded::read(&path, MAX_BYTES).unwrap_or_default() } else { Vec::new() };
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("a record is plain data") + "\n"
    }

    pub fn wrote(&self, path: &str, contents: &[u8]) -> bool {
        self.files.get(path).is_some_and(|known| *known == fingerprint(contents))
    }

    /// Returns true if `init` ever wrote this path.
    pub fn knows(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Returns the paths of all files that `init` ever wrote.
    pub fn paths(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    pub fn forget(&mut self, path: &str) {
        self.files.remove(path);
    }

    pub fn note(&mut self, path: &str, contents: &[u8]) {
        self.files.insert(path.to_owned(), fingerprint(contents));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_detected() {
        let mut record = Record::default();
        record.note("a", b"text");
        assert!(record.wrote("a", b"text"));
        assert!(!record.wrote("a", b"test") && !record.wrote("a", b"") && !record.wrote("b", b"text"));
    }

    #[test]
    fn a_record_round_trips_and_a_broken_one_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(PATH);
        assert_eq!(Record::read(dir.path()), Record::default());
        let mut record = Record::default();
        record.note("a", b"text");
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(&path, record.text()).unwrap();
        assert_eq!(Record::read(dir.path()), record);
        fs::write(&path, "{").unwrap();
        assert_eq!(Record::read(dir.path()), Record::default());
    }
}
