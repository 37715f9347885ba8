//! Paths as git stores them: bytes separated by `/`, not necessarily UTF-8.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path inside the repository.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(Vec<u8>);

impl RepoPath {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        RepoPath(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path as text if it is UTF-8, as paths in specs are.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    pub fn under(&self, root: &Path) -> PathBuf {
        root.join(self.as_path())
    }

    /// Tells whether the path is `directory` or below it.
    pub fn is_within(&self, directory: &[u8]) -> bool {
        self.0.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }
}

impl From<&str> for RepoPath {
    fn from(text: &str) -> Self {
        RepoPath(text.as_bytes().to_vec())
    }
}

/// Escapes control characters and bytes that are not UTF-8.
impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
