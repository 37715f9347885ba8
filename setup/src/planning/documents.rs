//! Documents of people: read within bounds, and never written over.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use mahabharatha_sys::error::{Error, ExitCode, Result, io};

use super::LONGEST_DOCUMENT;

/// Nothing where there is no such file.
pub fn read_document(path: &Path) -> Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("read", path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(LONGEST_DOCUMENT + 1).read_to_end(&mut bytes).map_err(io("read", path))?;
    text_of(bytes, &path.display().to_string()).map(Some)
}

/// The bytes as text, or what is wrong with them.
pub fn text_of(bytes: Vec<u8>, source: &str) -> Result<String> {
    if bytes.len() as u64 > LONGEST_DOCUMENT {
        return Err(Error::new(ExitCode::Invalid, format!("{source} is longer than {} MB", LONGEST_DOCUMENT >> 20))
            .hint("Say it in fewer words."));
    }
    String::from_utf8(bytes).map_err(|_| Error::new(ExitCode::Invalid, format!("{source} is not UTF-8 text")))
}

/// A free name beside a file that is about to be replaced by something else, and what is to be kept there.
pub fn aside(path: &Path, replacement: &[u8]) -> Result<Option<(PathBuf, Vec<u8>)>> {
    match fs::read(path) {
        Ok(found) if found != replacement => Ok(Some((free_name(path), found))),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", path)(error)),
    }
}

/// `requirements.1.md` beside `requirements.md`, or the first number that is free.
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
    fn what_would_be_replaced_is_kept_under_a_name_of_its_own() {
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
    fn a_document_is_text_of_a_length_that_somebody_can_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d.md");
        assert_eq!(read_document(&path).unwrap(), None);
        fs::write(&path, [0xff]).unwrap();
        assert!(read_document(&path).unwrap_err().message().contains("UTF-8"));
        fs::write(&path, vec![b'x'; LONGEST_DOCUMENT as usize + 1]).unwrap();
        assert!(read_document(&path).unwrap_err().message().contains("longer"));
    }
}
