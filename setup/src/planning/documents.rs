//! Reads documents that the user wrote, up to a maximum length. Such a document is never overwritten without a backup.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use mahabharatha_sys::bounded;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::store::file_set;

use super::MAX_DOCUMENT_BYTES;

/// Returns None if there is no such file.
pub fn read_document(path: &Path) -> Result<Option<String>> {
    let file = match bounded::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("read", path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes).map_err(io("read", path))?;
    text_of(bytes, &path.display().to_string()).map(Some)
}

/// Converts the bytes to text, or reports that they are too long or not UTF-8.
pub fn text_of(bytes: Vec<u8>, source: &str) -> Result<String> {
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(Error::new(Kind::Invalid, format!("{source} is longer than {} MB", MAX_DOCUMENT_BYTES >> 20))
            .hint("Shorten it."));
    }
    String::from_utf8(bytes).map_err(|_| Error::new(Kind::Invalid, format!("{source} is not UTF-8 text")))
}

/// Returns a free name beside a file that is about to be replaced, and the content to save there. Returns None if
/// nothing would be lost.
pub fn aside(path: &Path, replacement: &[u8]) -> Result<Option<(PathBuf, Vec<u8>)>> {
    let found = file_set::read(path)?.filter(|found| found != replacement);
    Ok(found.map(|found| (free_name(path), found)))
}

/// Returns `requirements.1.md` beside `requirements.md`, or the first number that is free.
fn free_name(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let end = path.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
    let names = (1_u32..).map(|number| path.with_file_name(format!("{stem}.{number}{end}")));
    names.into_iter().find(|name| fs::symlink_metadata(name).is_err()).unwrap_or_else(|| path.with_extension("old"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_document_is_kept_under_a_free_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("requirements.md");
        assert_eq!(aside(&path, b"new").unwrap(), None);
        fs::write(&path, "one").unwrap();
        assert_eq!(aside(&path, b"one").unwrap(), None);
        let beside = |number: u32| dir.path().join(format!("requirements.{number}.md"));
        assert_eq!(aside(&path, b"two").unwrap(), Some((beside(1), b"one".to_vec())));
        fs::write(beside(1), "").unwrap();
        assert_eq!(aside(&path, b"two").unwrap(), Some((beside(2), b"one".to_vec())));
    }

    #[test]
    fn a_document_must_be_utf8_and_within_the_length_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d.md");
        assert_eq!(read_document(&path).unwrap(), None);
        fs::write(&path, [0xff]).unwrap();
        assert!(read_document(&path).unwrap_err().message().contains("UTF-8"));
        fs::write(&path, vec![b'x'; MAX_DOCUMENT_BYTES as usize + 1]).unwrap();
        assert!(read_document(&path).unwrap_err().message().contains("longer"));
    }
}
