//! Files of ours, which only the user may read, whatever the umask. Opening one never follows a symbolic link, and fails
//! for a pipe or a device.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::bounded;

/// Permissions of files and directories of ours.
pub const PRIVATE_FILE: u32 = 0o600;
pub const PRIVATE_DIR: u32 = 0o700;

/// Returns whether a path is where we keep what others must not read: state and logs below `.mahabharatha`, and
/// everything in our directory below the git directory.
pub fn is_private(path: &Path) -> bool {
    path.ancestors().any(|dir| match (dir.file_name().and_then(OsStr::to_str), dir.parent()) {
        (Some("state" | "logs"), Some(parent)) => parent.ends_with(".mahabharatha"),
        (Some("mahabharatha"), Some(parent)) => parent.join("HEAD").exists(),
        _ => false,
    })
}

/// Removes the permissions of other users from a directory; does nothing if it is missing.
pub fn make_private(dir: &Path) -> Result<()> {
    match fs::symlink_metadata(dir) {
        Ok(found) if found.is_dir() && found.mode() & 0o077 != 0 => {
            fs::set_permissions(dir, Permissions::from_mode(PRIVATE_DIR))
        }
        _ => Ok(()),
    }
}

/// Opens a file for reading and writing, or creates it.
pub fn open(path: &Path) -> Result<File> {
    checked(OpenOptions::new().read(true).write(true).create(true), path)
}

/// Opens a file for reading and appending, or creates it.
pub fn open_to_append(path: &Path) -> Result<File> {
    checked(OpenOptions::new().read(true).append(true).create(true), path)
}

/// Creates a file; fails if something has that name.
pub fn create_new(path: &Path) -> Result<File> {
    checked(OpenOptions::new().write(true).create_new(true), path)
}

fn checked(options: &mut OpenOptions, path: &Path) -> Result<File> {
    bounded::check_place(path.parent().unwrap_or(path))?;
    // A pipe without a reader fails at once, instead of blocking.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.mode(PRIVATE_FILE).custom_flags(flags.bits().cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(Error::new(ErrorKind::InvalidInput, "not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn state_and_logs_are_private_and_files_of_the_repository_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let (git, root) = (dir.path().join("mahabharatha/gits"), dir.path().join("mahabharatha"));
        fs::create_dir_all(&git).unwrap();
        fs::write(git.join("HEAD"), "").unwrap();
        for path in [git.join("mahabharatha"), git.join("mahabharatha/x/lock"), root.join(".mahabharatha/state/x.json")]
        {
            assert!(is_private(&path), "{}", path.display());
        }
        for path in [
            git.join("config"),
            root.join(".gsd/STATE.md"),
            root.join(".mahabharatha/config.yaml"),
            root.join("logs/x"),
        ] {
            assert!(!is_private(&path), "{}", path.display());
        }
        fs::set_permissions(&git, Permissions::from_mode(0o755)).unwrap();
        make_private(&git).unwrap();
        make_private(&git.join("missing")).unwrap();
        assert_eq!(fs::metadata(&git).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn links_pipes_and_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("precious"), "precious").unwrap();
        symlink(at("precious"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        fs::create_dir(at("dir")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).unwrap();
        for name in ["link", "dangling", "dir", "pipe"] {
            for open in [open, open_to_append, create_new] {
                assert!(open(&at(name)).is_err(), "{name}");
            }
        }
        assert_eq!(fs::read(at("precious")).unwrap(), b"precious");
        assert!(!at("nowhere").exists());
    }

    #[test]
    fn a_new_file_is_private() {
        let dir = tempfile::tempdir().unwrap();
        for (name, open) in [("one", open as fn(&Path) -> Result<File>), ("two", open_to_append), ("three", create_new)]
        {
            let file = open(&dir.path().join(name)).unwrap();
            assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "{name}");
        }
    }
}
