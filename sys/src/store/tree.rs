//! Walks and removes directory trees that hostile code may have written to, without following symbolic links.

use std::fs::{self, DirEntry, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Result, io};

/// Levels and length of a path up to which directories are left where they are before they are removed.
const MAX_DEPTH: u32 = 32;
const MAX_PATH_BYTES: usize = 2048;

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

/// Returns the parent directory of a relative path that is a symbolic link, if any.
pub fn link_on_the_way(root: &Path, path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    parent
        .ancestors()
        .filter(|part| !part.as_os_str().is_empty())
        .find(|part| fs::symlink_metadata(root.join(part)).is_ok_and(|found| found.is_symlink()))
        .map(Path::to_owned)
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

/// Removes a file unless it is missing.
pub fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io("remove", path)(error)),
        _ => Ok(()),
    }
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
    // The standard library keeps a directory open for each level, and deep ones have a path that is too long to make
    // them writable.
    fs::remove_dir_all(path)
        .or_else(|_| flatten(path).and_then(|()| fs::remove_dir_all(path)))
        .map_err(io("remove", path))
}

/// Moves directories that are nested deeply to the top, so that none of them is, and makes all accessible.
fn flatten(top: &Path) -> std::io::Result<()> {
    make_accessible(top);
    let moved = tempfile::tempdir_in(top)?.keep();
    let mut open = vec![(top.to_owned(), 0)];
    let mut number = 0;
    while let Some((dir, depth)) = open.pop() {
        for entry in fs::read_dir(&dir)?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            // Moving a directory also changes its link to the one above.
            make_accessible(&entry.path());
            if depth < MAX_DEPTH && dir.as_os_str().len() < MAX_PATH_BYTES {
                open.push((entry.path(), depth + 1));
                continue;
            }
            number += 1;
            let place = moved.join(number.to_string());
            fs::rename(entry.path(), &place)?;
            open.push((place, 2));
        }
    }
    Ok(())
}

/// Removes everything below `dir` that is neither a file, a directory nor a link, makes `dir` accessible and all
/// directories below it readable. Git and others would wait for ever for the other end of a named pipe, also in a
/// directory that cannot be listed. Call it only while no program can add one.
pub fn remove_special_files(dir: &Path) -> Result<()> {
    make_accessible(dir);
    let mut special = Vec::new();
    walk(dir, |path, entry| {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => require(&dir.join(path), 0o500),
            Ok(kind) if !kind.is_file() && !kind.is_symlink() => special.push(dir.join(path)),
            _ => {}
        }
        true
    });
    for path in special {
        path.parent().into_iter().for_each(make_accessible);
        remove_file(&path)?;
    }
    Ok(())
}

/// Removes everything in `dir` but these directories, which are emptied, these files, and the directories that lead to
/// them. Returns whether something else was in their place or in one of these directories.
pub fn empty_except(dir: &Path, dirs: &[&Path], files: &[&Path]) -> Result<bool> {
    remove_attributes(dir)?;
    empty_below(dir, Path::new(""), &Kept { dirs, files })
}

struct Kept<'a> {
    dirs: &'a [&'a Path],
    files: &'a [&'a Path],
}

fn empty_below(dir: &Path, below: &Path, kept: &Kept<'_>) -> Result<bool> {
    let place = dir.join(below);
    make_accessible(&place);
    let mut was_changed = false;
    for entry in fs::read_dir(&place).map_err(io("read", &place))?.flatten() {
        let path = below.join(entry.file_name());
        let kind = entry.file_type().map_err(io("read", &entry.path()))?;
        let is_on_the_way = kept.dirs.iter().chain(kept.files).any(|kept| kept.starts_with(&path));
        let is_kept_file = kept.files.contains(&path.as_path());
        let is_ours = is_on_the_way && !has_attributes(&entry.path());
        if is_ours && kind.is_dir() && !is_kept_file {
            was_changed |= empty_below(dir, &path, kept)?;
        } else if !(is_ours && kind.is_file() && is_kept_file) {
            was_changed |= is_on_the_way || kept.dirs.contains(&below);
            remove(&dir.join(&path))?;
        }
    }
    Ok(was_changed)
}

/// Lets us list and change a directory, whatever a program made of its permissions.
pub fn make_accessible(dir: &Path) {
    require(dir, 0o700);
}

/// Gives us all permissions of a directory if we lack one of these.
fn require(dir: &Path, permissions: u32) {
    if fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir() && found.mode() & permissions != permissions) {
        // What cannot be changed is reported when it is read.
        let _ = fs::set_permissions(dir, Permissions::from_mode(0o700));
    }
}

/// Returns the names of the attributes, such as permissions for all that is created in a directory, but those that only
/// the system sets; `None` if they cannot be listed.
pub fn attributes(path: &Path) -> Option<Vec<Vec<u8>>> {
    let mut names = vec![0; 1 << 16];
    let length = match rustix::fs::llistxattr(path, &mut names) {
        Ok(length) => length,
        Err(rustix::io::Errno::NOTSUP) => 0,
        Err(_) => return None,
    };
    let names = names[..length].split(|byte| *byte == 0);
    Some(names.filter(|name| !name.is_empty() && !name.starts_with(b"security.")).map(<[u8]>::to_vec).collect())
}

fn has_attributes(path: &Path) -> bool {
    attributes(path).is_none_or(|names| !names.is_empty())
}

/// Removes what attributes a program gave to a directory.
fn remove_attributes(dir: &Path) -> Result<()> {
    for name in attributes(dir).unwrap_or_default() {
        rustix::fs::lremovexattr(dir, &*name).map_err(|error| io("remove the attributes of", dir)(error.into()))?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::*;

    /// Makes permissions of files apply to this test even if root runs it.
    fn respect_permissions() {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
    }

    #[test]
    fn directories_nested_deeper_than_a_process_may_open_are_removed() {
        respect_permissions();
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("deep");
        // Made from the inside out: their path is longer than the system allows.
        fs::create_dir(&deep).unwrap();
        for _ in 0..3000 {
            let outer = dir.path().join("outer");
            fs::create_dir(&outer).unwrap();
            let inner = outer.join("inner");
            fs::rename(&deep, &inner).unwrap();
            fs::set_permissions(&inner, Permissions::from_mode(0o500)).unwrap();
            fs::rename(&outer, &deep).unwrap();
        }
        fs::set_permissions(&deep, Permissions::from_mode(0o500)).unwrap();
        flatten(&deep).unwrap();
        let levels = all_below(&deep).iter().map(|path| path.components().count()).max();
        assert!(levels < Some(50), "{levels:?}");
        remove(&deep).unwrap();
        assert!(!deep.exists());
    }

    #[test]
    fn deep_directories_without_permissions_are_removed() {
        respect_permissions();
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("deep");
        fs::create_dir(&deep).unwrap();
        // Few enough to be open at once, and too long for a path.
        for _ in 0..60 {
            let outer = dir.path().join("outer");
            let inner = outer.join("i".repeat(200));
            fs::create_dir(&outer).unwrap();
            fs::rename(&deep, &inner).unwrap();
            fs::set_permissions(&inner, Permissions::from_mode(0o000)).unwrap();
            fs::rename(&outer, &deep).unwrap();
        }
        remove(&deep).unwrap();
        assert!(!deep.exists());
    }

    #[test]
    fn named_pipes_in_directories_without_permissions_are_removed() {
        respect_permissions();
        let dir = tempfile::tempdir().unwrap();
        let modes = [0o000, 0o300, 0o500];
        let names = modes.map(|mode| format!("d{mode:o}"));
        for (name, mode) in names.iter().zip(modes) {
            let place = dir.path().join(name);
            fs::create_dir(&place).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(place.join("pipe")).status().unwrap().success());
            fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
        }
        let read_only = dir.path().join("read-only");
        fs::create_dir(&read_only).unwrap();
        fs::set_permissions(&read_only, Permissions::from_mode(0o555)).unwrap();
        remove_special_files(dir.path()).unwrap();
        for name in &names {
            make_accessible(&dir.path().join(name));
        }
        let left = [&names[..], &["read-only".to_owned()]].concat();
        assert_eq!(all_below(dir.path()), left.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(fs::metadata(&read_only).unwrap().mode() & 0o777, 0o555);
    }

    #[test]
    fn named_pipes_and_sockets_are_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        fs::write(dir.path().join("d/file"), "").unwrap();
        std::os::unix::fs::symlink("d", dir.path().join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(dir.path().join("d/.gitignore")).status().unwrap();
        assert!(made.success());
        remove_special_files(dir.path()).unwrap();
        assert_eq!(all_below(dir.path()), ["d", "d/file", "link"].map(PathBuf::from));
    }

    fn all_below(dir: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(dir, |path, _| {
            found.push(path.to_owned());
            true
        });
        found.sort();
        found
    }

    #[test]
    fn a_directory_is_emptied_around_what_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["project/.git", "project/left", "project-2", "other"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        for path in ["file", "project/kept", "project/other"] {
            fs::write(dir.path().join(path), "").unwrap();
        }
        let empty = || empty_except(dir.path(), &[Path::new("project/.git")], &[Path::new("project/kept")]).unwrap();
        assert!(!empty());
        assert_eq!(all_below(dir.path()), ["project", "project/.git", "project/kept"].map(PathBuf::from));

        // A program moved a kept directory away, or made it inaccessible.
        fs::write(dir.path().join("project/.git/planted"), "").unwrap();
        fs::set_permissions(dir.path().join("project"), Permissions::from_mode(0o300)).unwrap();
        assert!(empty() && !dir.path().join("project/.git/planted").exists());
        fs::remove_dir_all(dir.path().join("project")).unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("project")).unwrap();
        assert!(empty() && all_below(dir.path()).is_empty());
    }

    #[test]
    fn what_a_program_put_in_place_of_something_kept_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("hooks"), "").unwrap();
        fs::create_dir(dir.path().join("file")).unwrap();
        assert!(empty_except(dir.path(), &[Path::new("hooks")], &[Path::new("file")]).unwrap());
        assert!(all_below(dir.path()).is_empty());

        let tmp = dir.path().join("tmp");
        fs::create_dir(&tmp).unwrap();
        match rustix::fs::setxattr(&tmp, "user.left", b"x", rustix::fs::XattrFlags::empty()) {
            Err(rustix::io::Errno::NOTSUP) => eprintln!("no extended attributes here"),
            result => {
                result.unwrap();
                assert!(!empty_except(&tmp, &[], &[]).unwrap() && !has_attributes(&tmp));
                rustix::fs::setxattr(&tmp, "user.overlay.left", b"x", rustix::fs::XattrFlags::empty()).unwrap();
                assert!(empty_except(dir.path(), &[Path::new("tmp")], &[]).unwrap());
                assert!(!tmp.exists());
            }
        }
    }
}
