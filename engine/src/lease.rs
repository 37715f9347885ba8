//! Leases of sessions that hold tasks without a worker process of ours: a coding agent's session, or a user.
//!
//! Each lease is a file whose modification time every call of the session renews. A lease expires when its session has
//! been silent for too long or its client has exited; from then on the session holds nothing.
//!
//! Sessions that plan a feature have leases too, in a directory of their own (`planning`): they hold no tasks.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mahabharatha_sys::bounded;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc::{self, ProcessId};
use mahabharatha_sys::store::atomic::{make_dir, write_projected};
use mahabharatha_sys::store::tree::remove_file;
use serde::{Deserialize, Serialize};

/// Lease of a session that plans a feature or claims single tasks: long enough for the user to come back to a question.
pub const IDLE_LEASE: Duration = Duration::from_secs(12 * 60 * 60);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub session: String,
    /// Whether the session runs the feature level by level; otherwise it holds only the tasks that it claimed.
    pub drives: bool,
    /// Number of tasks that the session runs at once.
    pub workers: Option<u32>,
    pub allow_red_base: bool,
    /// Time without a call after which the lease expires.
    pub patience_ms: u64,
    /// Process of the client that the session runs in, if known.
    pub client: Option<ProcessId>,
}

impl Lease {
    /// Returns a lease of a session that the calling process belongs to, which drives no run.
    pub fn new(session: String, patience: Duration) -> Lease {
        Lease {
            session,
            drives: false,
            workers: None,
            allow_red_base: false,
            patience_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
            client: client_variable().and_then(proc::ancestor_without),
        }
    }

    /// Creates or updates the session's lease file.
    pub fn write(&self, feature_dir: &Path) -> Result<()> {
        make_dir(&sessions(feature_dir))?;
        let text = serde_json::to_vec_pretty(self).expect("a lease has string keys only");
        write_projected(&file(feature_dir, &self.session)?, &text)
    }

    /// Returns the session's lease unless it has expired.
    pub fn of(feature_dir: &Path, session: &str) -> Option<Lease> {
        read(&file(feature_dir, session).ok()?)
            .filter(|(lease, silent)| lease.is_alive(*silent))
            .map(|(lease, _)| lease)
    }

    /// Returns all leases of the feature that have not expired.
    pub fn all_alive(feature_dir: &Path) -> Vec<Lease> {
        let entries = fs::read_dir(sessions(feature_dir)).into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| own(feature_dir, &entry.path()));
        found.filter(|(lease, silent)| lease.is_alive(*silent)).map(|(lease, _)| lease).collect()
    }

    /// Returns the live lease of the session that runs the feature, if there is one.
    pub fn driving(feature_dir: &Path) -> Option<Lease> {
        Self::all_alive(feature_dir).into_iter().find(|lease| lease.drives)
    }

    /// Returns the error for another caller that wants the feature while this lease lasts.
    pub fn refusal(&self, feature: &impl std::fmt::Display) -> Error {
        Error::new(Kind::Held, format!("{feature} is held by another session ({})", self.session))
            .hint("Wait for that session to end, or end it with `mahabharatha stop`, which keeps its work.")
    }

    fn is_alive(&self, silent: Duration) -> bool {
        silent < Duration::from_millis(self.patience_ms) && self.client.is_none_or(|client| client.alive())
    }
}

/// Variable by which `mcp` tells the commands that it runs which session they belong to.
pub const MCP_SESSION: &str = "MAHABHARATHA_MCP_SESSION";
const CLAUDE_SESSION: &str = "CLAUDE_CODE_SESSION_ID";

/// Returns the session of an MCP server or of Claude Code that the calling process belongs to, if there is one.
pub fn client_session() -> Option<String> {
    variable(MCP_SESSION).or_else(|| variable(CLAUDE_SESSION))
}

/// Returns the variable that the client of the session gives to all processes that it starts, and does not have itself.
fn client_variable() -> Option<&'static str> {
    let of_claude = || variable(CLAUDE_SESSION).map(|_| "CLAUDECODE");
    variable(MCP_SESSION).map(|_| MCP_SESSION).or_else(of_claude)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Returns the name of the session that this process opens as an MCP server. None if Claude Code started it: then it belongs
/// to that session, which has a lease of its own.
pub fn mcp_session() -> Option<String> {
    let ProcessId { pid, start, .. } = ProcessId::own();
    variable(CLAUDE_SESSION).is_none().then(|| format!("mcp-{pid}-{start}"))
}

/// Returns the directory with the leases of sessions that plan a feature, to use in place of the feature's directory.
pub fn planning(feature_dir: &Path) -> PathBuf {
    feature_dir.join("planning")
}

/// Fails unless `session` is a valid session name.
pub fn check_name(session: &str) -> Result<()> {
    file(Path::new(""), session).map(drop)
}

/// Renews the session's lease; does nothing if the session has no lease.
pub fn renew(feature_dir: &Path, session: &str) {
    let touched = file(feature_dir, session).ok().and_then(|path| File::options().write(true).open(path).ok());
    if let Some(file) = touched {
        let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
    }
}

/// Returns the time until the session's lease expires if the session stays silent; `None` if it has expired.
pub fn time_left(feature_dir: &Path, session: &str) -> Option<Duration> {
    let (lease, silent) = read(&file(feature_dir, session).ok()?)?;
    if !lease.is_alive(silent) {
        return None;
    }
    Duration::from_millis(lease.patience_ms).checked_sub(silent)
}

/// Removes expired leases, so that a session that calls late cannot take back tasks that others continue.
pub fn end_expired(feature_dir: &Path) -> Result<()> {
    let entries = fs::read_dir(sessions(feature_dir)).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| own(feature_dir, &entry.path()));
    let mut expired = found.filter(|(lease, silent)| !lease.is_alive(*silent));
    expired.try_for_each(|(lease, _)| end(feature_dir, &lease.session))
}

/// Removes the session's lease.
pub fn end(feature_dir: &Path, session: &str) -> Result<()> {
    remove_file(&file(feature_dir, session)?)
}

/// Reads a lease file; `None` if its name does not match its session, as in a copy or an unfinished write.
fn own(feature_dir: &Path, path: &Path) -> Option<(Lease, Duration)> {
    read(path).filter(|(lease, _)| file(feature_dir, &lease.session).is_ok_and(|expected| expected == path))
}

fn read(path: &Path) -> Option<(Lease, Duration)> {
    let lease = serde_json::from_slice(&bounded::read(path, bounded::SMALL_FILE_BYTES).ok()?).ok()?;
    // A modification time in the future (the clock was set back) counts as a call just now.
    let silent = fs::metadata(path).ok()?.modified().ok()?.elapsed().unwrap_or_default();
    Some((lease, silent))
}

fn sessions(feature_dir: &Path) -> PathBuf {
    feature_dir.join("sessions")
}

fn file(feature_dir: &Path, session: &str) -> Result<PathBuf> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = (1..=128).contains(&session.len()) && session.chars().all(is_plain) && !session.starts_with('.');
    if !good {
        let message = format!("{session:?} is not a valid session name");
        return Err(Error::new(Kind::Usage, message)
            .hint("Use at most 128 letters, digits, `-`, `_` and `.`, not starting with `.`."));
    }
    Ok(sessions(feature_dir).join(format!("{session}.json")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(session: &str) -> Lease {
        Lease {
            session: session.to_string(),
            drives: true,
            workers: None,
            allow_red_base: false,
            patience_ms: 60_000,
            client: None,
        }
    }

    #[test]
    fn a_lease_expires_after_too_long_a_silence() {
        let dir = tempfile::tempdir().unwrap();
        lease("one").write(dir.path()).unwrap();
        assert_eq!(Lease::driving(dir.path()).unwrap().session, "one");
        let path = file(dir.path(), "one").unwrap();
        let long_ago = FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(61));
        File::options().write(true).open(path).unwrap().set_times(long_ago).unwrap();
        assert_eq!(Lease::driving(dir.path()), None);
        assert_eq!(time_left(dir.path(), "one"), None);
        renew(dir.path(), "one");
        assert!(Lease::of(dir.path(), "one").is_some());
        end(dir.path(), "one").unwrap();
        assert_eq!(Lease::of(dir.path(), "one"), None);
    }

    #[test]
    fn an_expired_lease_cannot_be_renewed_once_removed() {
        let dir = tempfile::tempdir().unwrap();
        lease("alive").write(dir.path()).unwrap();
        Lease { patience_ms: 0, ..lease("silent") }.write(dir.path()).unwrap();
        end_expired(dir.path()).unwrap();
        renew(dir.path(), "silent");
        let files: Vec<_> =
            fs::read_dir(sessions(dir.path())).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(files, ["alive.json"]);
    }

    #[test]
    fn an_unfinished_write_is_not_a_lease() {
        let dir = tempfile::tempdir().unwrap();
        lease("one").write(dir.path()).unwrap();
        fs::rename(file(dir.path(), "one").unwrap(), sessions(dir.path()).join(".unfinished-one.json-1")).unwrap();
        assert_eq!(Lease::driving(dir.path()), None);
    }

    #[test]
    fn a_lease_ends_when_its_client_has_exited() {
        let dir = tempfile::tempdir().unwrap();
        let alive = Lease { client: Some(ProcessId::own()), ..lease("alive") };
        let gone = Lease { client: Some(ProcessId { pid: u32::MAX - 1, start: 1, boot: 1 }), ..lease("gone") };
        alive.write(dir.path()).unwrap();
        gone.write(dir.path()).unwrap();
        let names: Vec<String> = Lease::all_alive(dir.path()).into_iter().map(|lease| lease.session).collect();
        assert_eq!(names, ["alive"]);
    }

    #[test]
    fn a_session_name_cannot_leave_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        for bad in ["", "..", "../x", "a/b", ".hidden", &"x".repeat(129)] {
            assert_eq!(lease(bad).write(dir.path()).unwrap_err().kind(), Kind::Usage, "{bad}");
        }
        assert!(!dir.path().join("x.json").exists());
    }
}
