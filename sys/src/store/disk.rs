//! Checks for a full disk.

use std::io::{self, Write};
use std::path::Path;

use super::fault;
use crate::error::Kind;
use crate::error::io as io_error;

/// Bytes that a run writes at once; a disk without space for them counts as full.
const PROBE_BYTES: usize = 64 << 10;

/// Returns the error message if the directory cannot be written to because the disk is full; `None` otherwise.
pub fn lack_of_space(dir: &Path) -> Option<String> {
    let error = fault::disk().and_then(|()| try_to_write(dir)).err()?;
    let error = io_error("write in", dir)(error);
    (error.kind() == Kind::OutOfSpace).then(|| error.message().to_owned())
}

fn try_to_write(dir: &Path) -> io::Result<()> {
    // An unnamed file, so that nothing is left if we are killed.
    let mut file = tempfile::tempfile_in(dir)?;
    file.write_all(&vec![0x5a; PROBE_BYTES])?;
    // Some file systems report a full disk only on sync.
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_free_space_nor_a_missing_directory_is_a_full_disk() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(lack_of_space(dir.path()), None);
        assert_eq!(lack_of_space(&dir.path().join("gone")), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
