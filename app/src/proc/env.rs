//! What children may see of our environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const ALWAYS: [&str; 7] = ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "SHELL"];

/// The variables that every child gets, and the named ones, where we have them ourselves.
pub fn base_env(pass: &[String]) -> BTreeMap<OsString, OsString> {
    std::env::vars_os()
        .filter(|(key, _)| {
            ALWAYS.iter().any(|name| key == name)
                || key.as_bytes().starts_with(b"LC_")
                || pass.iter().any(|name| key == name.as_str())
        })
        .collect()
}

/// Where our own PATH has this program.
pub fn find_program(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let name = name.as_ref();
    std::env::split_paths(&std::env::var_os("PATH")?)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|path| is_program(path))
}

/// Whether this is a file that can be run.
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
