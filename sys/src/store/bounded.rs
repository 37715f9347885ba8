//! Reads files that agents or other programs may have written: never a device or a pipe, never more than a limit.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Maximum size of files that hold a name or a path.
pub const SMALL_FILE_BYTES: u64 = 64 << 10;
/// Maximum size of documents and settings.
pub const LARGE_FILE_BYTES: u64 = 64 << 20;

/// Opens a regular file for reading. Fails at once on a pipe without a writer, instead of blocking.
pub fn open(path: &Path) -> Result<File> {
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    match () {
        () if kind.is_file() => Ok(file),
        () if kind.is_dir() => Err(ErrorKind::IsADirectory.into()),
        () => Err(Error::new(ErrorKind::InvalidInput, "not a regular file")),
    }
}

pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("larger than {limit} bytes")));
    }
    Ok(bytes)
}

pub fn read_to_string(path: &Path, limit: u64) -> Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|error| Error::new(ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let (file, pipe) = (dir.path().join("file"), dir.path().join("pipe"));
        std::fs::write(&file, "12345").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        assert_eq!(read(&file, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read(&pipe, 4).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(read(Path::new("/dev/zero"), 4).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(read(dir.path(), 4).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(read(&dir.path().join("none"), 4).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
