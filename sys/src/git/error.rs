//! Errors of git calls.

use std::ffi::OsString;

use crate::error::{Error, Kind};
use crate::proc::{Exit, Kept};

pub type Result<T> = std::result::Result<T, GitError>;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git was not found on PATH")]
    Missing,
    #[error("cannot run git: {0}")]
    Start(String),
    #[error("`git {command}` failed with {status}{}{stderr}", if stderr.is_empty() { "" } else { ": " })]
    Failed { command: String, status: Exit, stderr: String },
    #[error("`git {command}` printed unexpected output: {output}")]
    Unexpected { command: String, output: String },
    #[error("this repository is not supported: {0}")]
    Unsupported(String),
    #[error("{0} is a symbolic link, and refs are not written through links")]
    Link(String),
    #[error("{what} {path}: {error}")]
    File { what: &'static str, path: String, error: std::io::Error },
}

impl GitError {
    pub(super) fn failed(args: &[OsString], status: Exit, stderr: &[u8]) -> Self {
        let stderr = String::from_utf8_lossy(&Kept::of(stderr, 2000, 2000)).trim().to_owned();
        GitError::Failed { command: shown(args), status, stderr }
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
            GitError::Unsupported(_) => Error::new(Kind::Preflight, text),
            GitError::File { what, path, error } => Error::caused(format_args!("{what} {path}"))(error),
            _ if FULL_DISK.iter().any(|words| text.contains(words)) => Error::new(Kind::OutOfSpace, text).source(error),
            _ => Error::new(Kind::Failed, text).source(error),
        }
    }
}

/// Git reports a full disk only in the system's words.
const FULL_DISK: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

fn shown(args: &[OsString]) -> String {
    let mut text = args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = text.char_indices().nth(200) {
        text.truncate(end);
        text.push('…');
    }
    text
}
