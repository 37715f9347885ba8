//! The error type of the program: a kind, a message, details, a hint and its cause. Only the command line prints it, once.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of problem an error is. The command line maps it to an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any failure without a kind of its own.
    Failed,
    Usage,
    /// Only blocked or waiting tasks remain.
    Blocked,
    Gate,
    Conflict,
    /// An invalid spec, task graph, configuration or state.
    Invalid,
    Preflight,
    /// Another run or session holds the feature.
    Held,
    /// Paused by a budget, a quota or the user; resumable.
    Paused,
    /// Stopped by a signal or by `stop`; resumable.
    Stopped,
    /// The disk is full or a quota is exceeded.
    OutOfSpace,
}

/// A message with details and a hint, of one kind, and the error that caused it.
#[derive(Debug, Clone)]
pub struct Error {
    kind: Kind,
    message: String,
    details: Vec<String>,
    hint: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), details: Vec::new(), hint: None, source: None }
    }

    /// Makes an error of a failed operation: `.map_err(Error::caused("cannot start the agent"))`. The message names the
    /// cause.
    pub fn caused<E>(what: impl fmt::Display) -> impl FnOnce(E) -> Error
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        move |cause| {
            let kind = if is_out_of_space(&cause) { Kind::OutOfSpace } else { Kind::Failed };
            Error::new(kind, format!("{what}: {cause}")).source(cause)
        }
    }

    /// Sets the error that caused this one.
    pub fn source(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(cause));
        self
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

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the same error as another kind.
    pub fn with_kind(self, kind: Kind) -> Self {
        Error { kind, ..self }
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

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Whether an error, or one that caused it, is the system's error for a full disk or quota.
fn is_out_of_space(error: &(dyn std::error::Error + 'static)) -> bool {
    let full = |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref().is_some_and(full) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Converts an I/O error into one that names the operation and the path: `.map_err(io("read", path))`.
pub fn io<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |cause: io::Error| {
        let kind = cause.kind();
        let error = Error::caused(format_args!("cannot {what} {}", path.display()))(cause);
        match kind {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                error.hint("The disk is full: free some space, then run the same command again; nothing is lost.")
            }
            io::ErrorKind::FileTooLarge if what != "read" => {
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
        let error = Error::new(Kind::Invalid, "the graph is invalid").detail("a.json: no tasks").hint("Add one.");
        assert_eq!(error.to_string(), "the graph is invalid\n  a.json: no tasks\nAdd one.");
        assert_eq!(error.kind(), Kind::Invalid);
    }

    #[test]
    fn a_full_disk_error_has_a_hint() {
        let full = io("write", Path::new("/x"))(io::Error::from(io::ErrorKind::StorageFull));
        assert!(full.message().starts_with("cannot write /x: "), "{full}");
        assert!(full.what_to_do().is_some_and(|hint| hint.contains("space")), "{full}");
        assert_eq!(full.kind(), Kind::OutOfSpace);
        let again = Error::caused("the agent")(full);
        assert_eq!(again.kind(), Kind::OutOfSpace, "an error keeps its cause");
    }
}
