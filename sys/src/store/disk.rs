//! Whether there is room left to write.

use std::io::{self, Write};
use std::path::Path;

use super::fault;
use crate::error::io as told;

/// What a run writes within a moment; a disk without room for it counts as full.
const ROOM: usize = 64 << 10;

/// What keeps us from writing into the directory, where that is a lack of room.
pub fn lack_of_space(dir: &Path) -> Option<String> {
    let error = fault::disk().and_then(|()| try_to_write(dir)).err()?;
    let error = told("write in", dir)(error);
    error.is_lack_of_space().then(|| error.message().to_owned())
}

fn try_to_write(dir: &Path) -> io::Result<()> {
    // Without a name, so that nothing is left should we be killed.
    let mut file = tempfile::tempfile_in(dir)?;
    file.write_all(&vec![0x5a; ROOM])?;
    // Some file systems find out only now.
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_room_lacks_none_and_one_that_is_gone_is_another_trouble() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(lack_of_space(dir.path()), None);
        assert_eq!(lack_of_space(&dir.path().join("gone")), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
