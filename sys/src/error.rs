//! The error type of the program: a message, details, a hint and an exit code. Only the command line prints it, once.

use std::fmt;
use std::io;
use std::path::Path;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Exit code of the program, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    Done = 0,
    /// Any failure without a code of its own.
    Failed = 1,
    Usage = 2,
    /// Only blocked or waiting tasks remain.
    Blocked = 3,
    Gate = 4,
    Conflict = 5,
    /// An invalid spec, task graph, configuration or state.
    Invalid = 6,
    Preflight = 7,
    /// Another run or session holds the feature.
    Held = 8,
    /// Paused by a budget, a quota or the user; resumable.
    Paused = 9,
    /// Stopped by a signal or by `stop`; resumable.
    Stopped = 130,
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    exit: ExitCode,
    message: String,
    details: Vec<String>,
    hint: Option<String>,
}

impl Error {
    pub fn new(exit: ExitCode, message: impl Into<String>) -> Self {
        Error { exit, message: message.into(), details: Vec::new(), hint: None }
    }

    /// Adds a line that says more precisely what failed, or where.
    pub fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }

    /// Sets the hint: what the user can do next.
    pub fn hint(mut self, what_to_do: impl Into<String>) -> Self {
        self.hint = Some(what_to_do.into());
        self
    }

    pub fn exit(&self) -> ExitCode {
        self.exit
    }

    /// Returns the same error with another exit code.
    pub fn with_exit(self, exit: ExitCode) -> Self {
        Error { exit, ..self }
    }

    /// Tells whether the disk was full or the quota exceeded, by the system's error text, which git also prints.
    pub fn is_lack_of_space(&self) -> bool {
        ["No space left on device", "Disk quota exceeded"].iter().any(|words| self.message.contains(words))
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn details(&self) -> &[String] {
        &self.details
    }

    pub fn what_to_do(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for line in &self.details {
            write!(f, "\n  {line}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n{hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Converts an I/O error into one that names the operation and the path: `.map_err(io("read", path))`.
pub fn io<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |cause| {
        let error = Error::new(ExitCode::Failed, format!("cannot {what} {}: {cause}", path.display()));
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                error.hint("The disk is full: free some space, then run the same command again; nothing is lost.")
            }
            io::ErrorKind::FileTooLarge => {
                error.hint("The file exceeds the size limit (ulimit -f, or the file system): raise the limit.")
            }
            io::ErrorKind::PermissionDenied => error.hint("Check its owner and permissions."),
            io::ErrorKind::ReadOnlyFilesystem => {
                error.hint("The file system is read-only: make it writable, or work in another directory.")
            }
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let error = Error::new(ExitCode::Invalid, "the graph is invalid").detail("a.json: no tasks").hint("Add one.");
        assert_eq!(error.to_string(), "the graph is invalid\n  a.json: no tasks\nAdd one.");
        assert_eq!(error.exit() as u8, 6);
    }

    #[test]
    fn a_full_disk_error_has_a_hint() {
        let full = io("write", Path::new("/x"))(io::Error::from(io::ErrorKind::StorageFull));
        assert!(full.message().starts_with("cannot write /x: "), "{full}");
        assert!(full.what_to_do().is_some_and(|hint| hint.contains("space")), "{full}");
    }
}
