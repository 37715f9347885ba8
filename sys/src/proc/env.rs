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

/// The directory of the person who runs us.
pub fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Whether we have this variable, and something in it.
pub fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Where our own PATH has this program.
pub fn find_program(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let name = name.as_ref();
    std::env::split_paths(&std::env::var_os("PATH")?)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|path| is_program(path))
}

/// What a shell knows without looking for a program.
const BUILT_IN: [&str; 26] = [
    "alias", "break", "case", "cd", "command", "continue", "eval", "exec", "exit", "export", "for", "getopts", "hash",
    "if", "local", "read", "readonly", "set", "shift", "times", "trap", "type", "ulimit", "umask", "unset", "wait",
];

/// The program that a command for the shell begins with, after `cd … &&`; none where the first word does not tell.
pub fn called_by(command: &str) -> Option<&str> {
    let call = match command.strip_prefix("cd ") {
        Some(elsewhere) => elsewhere.split_once(" && ")?.1,
        None => command,
    };
    let word = call.split_whitespace().next()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
    (word.chars().all(is_name) && !BUILT_IN.contains(&word) && word != ".").then_some(word)
}

/// Whether this is a file that can be run.
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
