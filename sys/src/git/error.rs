//! Errors of git calls.

use std::ffi::OsString;
use std::time::Duration;

use crate::error::{Error, Kind};
use crate::proc::{Exit, Kept};

pub type Result<T> = std::result::Result<T, GitError>;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git was not found on PATH")]
    Missing,
    #[error("cannot run git: {0}")]
    Start(std::io::Error),
    #[error("{url} did not answer within {seconds} s")]
    NoAnswer { url: String, seconds: u64 },
    #[error("the push to {url} was interrupted")]
    Interrupted { url: String },
    #[error("`git {command}` failed with {status}{}{stderr}", if stderr.is_empty() { "" } else { ": " })]
    Failed { command: String, status: Exit, stderr: String, cause: Cause },
    #[error("`git {command}` did not end within {seconds} s")]
    TimedOut { command: String, seconds: u64 },
    #[error("`git {command}` printed unexpected output: {output}")]
    Unexpected { command: String, output: String },
    #[error("this repository is not supported: {0}")]
    Unsupported(String),
    #[error("{0} is a symbolic link, and refs are not written through links")]
    Link(String),
    #[error("{what} {path}: {error}")]
    File { what: &'static str, path: String, error: std::io::Error },
}

/// Why git failed, as far as its message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    NoRepository,
    /// In a bare repository, or inside a git directory.
    NoWorkTree,
    /// The repository belongs to another user.
    NotTrusted,
    /// Another process holds git's lock on the file.
    Locked,
    OutOfSpace,
    Other,
}

impl Cause {
    /// Classifies what git printed to stderr under `LC_ALL=C`.
    fn of(stderr: &str) -> Cause {
        let has = |words: &str| stderr.contains(words);
        let begins = |words: &str| stderr.lines().any(|line| line.starts_with(words));
        match () {
            () if begins("fatal: not a git repository") => Cause::NoRepository,
            () if begins("fatal: this operation must be run in a work tree") => Cause::NoWorkTree,
            () if begins("fatal: detected dubious ownership") => Cause::NotTrusted,
            () if begins("error: could not lock config file") || has(".lock': File exists") => Cause::Locked,
            () if has("No space left on device") || has("Disk quota exceeded") => Cause::OutOfSpace,
            () => Cause::Other,
        }
    }
}

impl GitError {
    /// Returns why git failed, if it ran.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            GitError::Failed { cause, .. } => Some(*cause),
            _ => None,
        }
    }

    pub(super) fn failed(args: &[OsString], status: Exit, stderr: &[u8]) -> Self {
        let stderr = String::from_utf8_lossy(&Kept::of(stderr, 2000, 2000)).trim().to_owned();
        GitError::Failed { command: shown(args), status, cause: Cause::of(&stderr), stderr }
    }

    pub(super) fn timed_out(args: &[OsString], after: Duration) -> Self {
        GitError::TimedOut { command: shown(args), seconds: after.as_secs() }
    }

    pub(super) fn unexpected(args: &[OsString], output: &str) -> Self {
        GitError::Unexpected { command: shown(args), output: output.chars().take(200).collect() }
    }

    pub(super) fn file(what: &'static str, path: &std::path::Path, error: std::io::Error) -> Self {
        GitError::File { what, path: path.display().to_string(), error }
    }
}

impl From<GitError> for Error {
    fn from(error: GitError) -> Self {
        let text = error.to_string();
        match error {
            GitError::Missing => Error::new(Kind::Preflight, text).hint("Install git and put it on PATH."),
            GitError::Link(_) => {
                Error::new(Kind::Failed, text).hint("Remove the link, then run the same command again.")
            }
            GitError::Interrupted { .. } => Error::new(Kind::Stopped, text),
            GitError::Unsupported(_) => Error::new(Kind::Preflight, text),
            GitError::File { what, path, error } => Error::caused(format_args!("{what} {path}"))(error),
            GitError::Start(error) => Error::caused("cannot run git")(error),
            GitError::Failed { cause: Cause::OutOfSpace, .. } => Error::new(Kind::OutOfSpace, text).source(error),
            _ => Error::new(Kind::Failed, text).source(error),
        }
    }
}

fn shown(args: &[OsString]) -> String {
    let mut text = args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = text.char_indices().nth(200) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_git_prints_tells_the_cause() {
        let failed = |args: &[&str], stderr: &str| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            GitError::failed(&args, Exit::Code(128), stderr.as_bytes())
        };
        for (stderr, cause) in [
            ("fatal: not a git repository (or any of the parent directories): .git", Cause::NoRepository),
            ("fatal: this operation must be run in a work tree", Cause::NoWorkTree),
            ("fatal: detected dubious ownership in repository at '/x'", Cause::NotTrusted),
            ("error: could not lock config file .git/config: File exists", Cause::Locked),
            ("fatal: Unable to create '/x/.git/index.lock': File exists.", Cause::Locked),
            ("error: file write error: No space left on device\nfatal: failed", Cause::OutOfSpace),
            ("error: pathspec 'not a git repository' did not match", Cause::Other),
            ("", Cause::Other),
        ] {
            assert_eq!(failed(&["x"], stderr).cause(), Some(cause), "{stderr}");
        }
        let error = Error::from(failed(&["add", "No space left on device"], "fatal: bad"));
        assert_eq!(error.kind(), Kind::Failed, "a file's name is not an error");
    }
}
