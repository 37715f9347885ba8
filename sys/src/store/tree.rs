//! Walks and removes directory trees that hostile code may have written to, without following symbolic links.

use std::fs::{self, DirEntry, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Result, io};

/// Visits everything below `dir`, with the path relative to it; enters a directory if `visit` returns `true`.
/// Skips what cannot be read.
pub fn walk(dir: &Path, mut visit: impl FnMut(&Path, &DirEntry) -> bool) {
    let mut open = vec![PathBuf::new()];
    while let Some(place) = open.pop() {
        for entry in fs::read_dir(dir.join(&place)).into_iter().flatten().flatten() {
            let path = place.join(entry.file_name());
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if visit(&path, &entry) && is_dir {
                open.push(path);
            }
        }
    }
}

/// Returns the disk space of everything below `dir`, as far as it can be read.
pub fn disk_bytes(dir: &Path) -> u64 {
    let mut bytes = 0;
    walk(dir, |_, entry| {
        bytes += entry.metadata().map_or(0, |found| found.blocks() * 512);
        true
    });
    bytes
}

/// Removes a file, link or directory, even one without write permission.
pub fn remove(path: &Path) -> Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.is_dir() {
        return fs::remove_file(path).map_err(io("remove", path));
    }
    if fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
    make_writable(path);
    fs::remove_dir_all(path).map_err(io("remove", path))
}

/// Makes every directory below `dir` readable and writable for its owner.
pub fn make_writable(dir: &Path) {
    walk(dir, |path, entry| {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = fs::set_permissions(dir.join(path), Permissions::from_mode(0o700));
        }
        true
    });
}
