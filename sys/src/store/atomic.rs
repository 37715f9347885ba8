//! The only module that writes state files: a reader sees the old content or the new, never a part.

use std::fs::{self, File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use super::fault;
use super::state_file::{PRIVATE_DIR, PRIVATE_FILE, is_private};
use crate::bounded;
use crate::crash;
use crate::error::{Error, Kind, Result, io};

/// Replaces the file durably: once this has returned, the new content survives a power failure.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, &How { durable: true, ..How::default() }, |file| file.write_all(bytes))
}

/// Replaces the file as `write_atomic` does, and gives it these permissions.
pub fn write_with_permissions(path: &Path, bytes: &[u8], permissions: Permissions) -> Result<()> {
    let how = How { durable: true, permissions: Some(permissions), ..How::default() };
    replace(path, &how, |file| file.write_all(bytes))
}

/// Creates a file as `write_atomic` does; fails if something has that name.
pub fn create_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, &How { durable: true, creates: true, ..How::default() }, |file| file.write_all(bytes))
}

/// Replaces a file that can be rebuilt from others, so that it need not survive a power failure.
pub fn write_projected(path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, &How::default(), |file| file.write_all(bytes))
}

/// Like `write_projected`, for content that is made while it is written.
pub fn write_projected_by(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut File>) -> std::io::Result<()>,
) -> Result<()> {
    replace(path, &How::default(), |file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()
    })
}

#[derive(Default)]
struct How {
    durable: bool,
    /// Whether the file must not be there yet.
    creates: bool,
    permissions: Option<Permissions>,
}

/// Creates the directory and its missing parents durably. Refuses one that a symbolic link puts out of the project.
pub fn make_dir(path: &Path) -> Result<()> {
    check_place(path)?;
    make_missing(path, true)
}

/// Creates the directory and its missing parents, for files that need not survive a power failure.
pub fn make_projected_dir(path: &Path) -> Result<()> {
    check_place(path)?;
    make_missing(path, false)
}

fn check_place(path: &Path) -> Result<()> {
    bounded::check_place(path).map_err(|error| {
        Error::new(Kind::Invalid, format!("cannot use {}: {error}", path.display()))
            .hint("Put a plain directory in the place of the link.")
    })
}

fn make_missing(path: &Path, durable: bool) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_missing(parent, durable)?;
    }
    let mode = if is_private(path) { PRIVATE_DIR } else { 0o777 };
    match fault::disk().and_then(|()| fs::DirBuilder::new().mode(mode).create(path)) {
        Ok(()) if !durable => Ok(()),
        Ok(()) => path.parent().map_or(Ok(()), sync_dir),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(io("create the directory", path)(error)),
    }
}

/// Syncs the directory, so that what was created, renamed or removed in it survives a power failure.
pub fn sync_dir(path: &Path) -> Result<()> {
    bounded::open_dir(path).and_then(|directory| directory.sync_all()).map_err(io("sync the directory", path))
}

fn replace(path: &Path, how: &How, write: impl FnOnce(&mut File) -> std::io::Result<()>) -> Result<()> {
    let Some(parent) = path.parent() else {
        return Err(Error::new(Kind::Failed, format!("{} has no parent directory", path.display())));
    };
    make_dir(parent)?;
    let usual = || Permissions::from_mode(if is_private(path) { PRIVATE_FILE } else { 0o644 });
    let mut file = tempfile::Builder::new()
        .prefix(&temporary_prefix(path))
        // From the beginning: what is written may be secret.
        .permissions(how.permissions.clone().unwrap_or_else(usual))
        .tempfile_in(parent)
        .map_err(io("create a file in", parent))?;
    fault::disk().and_then(|()| write(file.as_file_mut())).map_err(io("write", path))?;
    if let Some(permissions) = &how.permissions {
        // The umask may have taken some away.
        file.as_file().set_permissions(permissions.clone()).map_err(io("write", path))?;
    }
    if how.durable {
        file.as_file().sync_all().map_err(io("write", path))?;
    }
    crash::point(|| format!("write {}", path.file_name().unwrap_or_default().display()));
    let persisted = if how.creates { file.persist_noclobber(path) } else { file.persist(path) };
    persisted.map_err(|error| io("write", path)(error.error))?;
    if how.durable { sync_dir(parent) } else { Ok(()) }
}

/// Removes temporary files left by killed processes. No other process may be writing in the directory.
pub fn sweep(dir: &Path) {
    remove_all(dir, TEMPORARY);
}

/// Removes the temporary files of one file. No other process may be writing it.
pub fn sweep_of(path: &Path) {
    if let Some(dir) = path.parent() {
        remove_all(dir, &temporary_prefix(path));
    }
}

fn remove_all(dir: &Path, prefix: &str) {
    if bounded::check_place(dir).is_err() {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the name prefix of the temporary files for this path.
fn temporary_prefix(path: &Path) -> String {
    format!("{TEMPORARY}{}-", path.file_name().unwrap_or_default().display())
}

/// Name prefix of all temporary files.
pub const TEMPORARY: &str = ".unfinished-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_replaces_the_whole_file_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/state.json");
        write_atomic(&path, b"a long first content").unwrap();
        write_projected(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_secret_is_never_readable_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let how = How { permissions: Some(Permissions::from_mode(0o600)), ..How::default() };
        let mut while_written = 0;
        replace(&dir.path().join("token"), &how, |file| {
            while_written = file.metadata()?.permissions().mode();
            file.write_all(b"secret")
        })
        .unwrap();
        assert_eq!(while_written & 0o777, 0o600);
    }

    #[test]
    fn a_failed_write_leaves_the_old_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        fs::create_dir_all(path.join("full")).unwrap();
        let error = write_atomic(&path, b"x").unwrap_err();
        assert!(error.message().contains("taken"), "{error}");
        assert!(path.join("full").is_dir());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the temporary file is gone");
    }

    #[test]
    fn a_file_is_created_only_where_none_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        create_atomic(&path, b"first").unwrap();
        create_atomic(&path, b"second").unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the unfinished file is gone");
    }

    #[test]
    fn sweep_removes_the_temporary_files_of_all_files_or_of_one() {
        let dir = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect::<Vec<_>>();
        for name in ["a.json", "b.json"] {
            fs::write(dir.path().join(format!("{}x", temporary_prefix(Path::new(name)))), "").unwrap();
        }
        sweep_of(&dir.path().join("a.json"));
        assert_eq!(names(), [".unfinished-b.json-x"]);
        sweep(dir.path());
        assert!(names().is_empty());
    }

    #[test]
    fn a_symlink_is_replaced_and_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let (outside, path) = (dir.path().join("outside"), dir.path().join("inside"));
        fs::write(&outside, "precious").unwrap();
        std::os::unix::fs::symlink(&outside, &path).unwrap();
        write_atomic(&path, b"new").unwrap();
        assert_eq!(fs::read(&outside).unwrap(), b"precious");
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
