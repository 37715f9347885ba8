//! Copies of files that share their blocks until one side writes to them.

use std::fs::File;
use std::io;
use std::path::Path;

/// Tells whether a copy of the file can be created in the directory.
#[cfg(target_os = "linux")]
pub fn works(source: &File, dir: &Path) -> bool {
    tempfile::tempfile_in(dir).is_ok_and(|target| rustix::fs::ioctl_ficlone(target, source).is_ok())
}

/// Creates a copy of the file, for the user alone, and opens it.
#[cfg(target_os = "linux")]
pub fn create(source: &File, to: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    let target = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    rustix::fs::ioctl_ficlone(&target, source)?;
    Ok(target)
}

/// Tells whether a copy of the file can be created in the directory.
#[cfg(target_os = "macos")]
pub fn works(source: &File, dir: &Path) -> bool {
    tempfile::tempdir_in(dir).is_ok_and(|dir| create(source, &dir.path().join("copy")).is_ok())
}

/// Creates a copy of the file, for the user alone, and opens it.
#[cfg(target_os = "macos")]
pub fn create(source: &File, to: &Path) -> io::Result<File> {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{CWD, CloneFlags, fclonefileat};

    // It gets the mode of the source, with which it may not be possible to open it.
    fclonefileat(source, CWD, to, CloneFlags::NOFOLLOW | CloneFlags::NOOWNERCOPY)?;
    set_permissions(to, Permissions::from_mode(0o600))?;
    File::options().write(true).open(to)
}
