//! The environment that child programs get, and lookups in our own environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const ALWAYS_PASSED: [&str; 7] = ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "SHELL"];

/// Variables by which programs that act for the user, git and `gh`, reach the network, the user's logins and keyring.
pub const NETWORK_VARIABLES: [&str; 22] = [
    "ALL_PROXY",
    "DBUS_SESSION_BUS_ADDRESS",
    "GH_CONFIG_DIR",
    "GH_ENTERPRISE_TOKEN",
    "GH_HOST",
    "GH_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GITHUB_TOKEN",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Returns the variables that every child gets plus those named in `pass`, as far as they are set.
pub fn base_env(pass: &[String]) -> BTreeMap<OsString, OsString> {
    std::env::vars_os()
        .filter(|(key, _)| {
            ALWAYS_PASSED.iter().any(|name| key == name)
                || key.as_bytes().starts_with(b"LC_")
                || pass.iter().any(|name| key == name.as_str())
        })
        .collect()
}

/// Returns the names of the variables that are set here and that `base_env` leaves out, without those that every shell sets
/// for itself.
pub fn hidden_names(pass: &[String]) -> Vec<String> {
    let given = base_env(pass);
    let of_shells = ["PWD", "OLDPWD", "SHLVL"];
    let set = std::env::vars_os().filter(|(key, value)| !value.is_empty() && !given.contains_key(key));
    let names = set.filter_map(|(key, _)| key.into_string().ok());
    names.filter(|name| !of_shells.contains(&name.as_str())).collect()
}

/// Returns the user's home directory.
pub fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Expands a `~/` at the beginning of a path to the user's home directory.
pub fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), home()) {
        (Some(below), Some(home)) => home.join(below),
        _ => PathBuf::from(path),
    }
}

/// Returns the user's shell.
pub fn shell() -> PathBuf {
    let named = std::env::var_os("SHELL").map(PathBuf::from).filter(|path| path.is_absolute() && is_program(path));
    named.unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

/// Tells whether the variable is set and not empty.
pub fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Returns our own PATH without relative directories, in which an agent could have put programs.
pub fn absolute_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::env::split_paths(&path).filter(|dir| dir.is_absolute())).unwrap_or_default()
}

/// Finds a program in our own PATH, ignoring relative directories.
pub fn find_program(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let name = name.as_ref();
    std::env::split_paths(&std::env::var_os("PATH")?)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|path| is_program(path))
}

/// Formats the version of a program.
pub fn dotted(version: [u32; 3]) -> String {
    version.map(|number| number.to_string()).join(".")
}

/// Keywords and builtins of the shell: no program is looked up for them.
const SHELL_BUILTINS: [&str; 26] = [
    "alias", "break", "case", "cd", "command", "continue", "eval", "exec", "exit", "export", "for", "getopts", "hash",
    "if", "local", "read", "readonly", "set", "shift", "times", "trap", "type", "ulimit", "umask", "unset", "wait",
];

/// Returns the program that a shell command starts with, skipping `cd … &&`; `None` if the first word is no plain name.
pub fn leading_program(command: &str) -> Option<&str> {
    let call = match command.strip_prefix("cd ") {
        Some(rest) => rest.split_once(" && ")?.1,
        None => command,
    };
    let word = call.split_whitespace().next()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
    (word.chars().all(is_name) && !SHELL_BUILTINS.contains(&word) && word != ".").then_some(word)
}

/// Tells whether the path is an executable file.
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
