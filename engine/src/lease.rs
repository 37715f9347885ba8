//! Sessions that hold tasks though no process of ours is at them: a coding agent's session, or a person.
//!
//! Each has a file, which every call of the session touches. A session that has not called for long, or whose client is
//! gone, holds nothing any more.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mahabharatha_sys::error::{Error, ExitCode, Result, io};
use mahabharatha_sys::proc::ProcessId;
use mahabharatha_sys::store::atomic::{make_dir, write_projected};
use mahabharatha_sys::store::bounded;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub session: String,
    /// Whether it runs the feature's tasks level by level; else it only holds what it claimed.
    pub drives: bool,
    /// How many tasks it does at once.
    pub workers: Option<u32>,
    pub allow_red_base: bool,
    /// How long it may be silent.
    pub patience_ms: u64,
    /// The program that the session runs in, where that is known.
    pub client: Option<ProcessId>,
}

impl Lease {
    /// Takes a lease, or changes what it says.
    pub fn write(&self, feature_dir: &Path) -> Result<()> {
        make_dir(&sessions(feature_dir))?;
        let text = serde_json::to_vec_pretty(self).expect("a lease has string keys only");
        write_projected(&file(feature_dir, &self.session)?, &text)
    }

    /// The lease of a session that is alive.
    pub fn of(feature_dir: &Path, session: &str) -> Option<Lease> {
        read(&file(feature_dir, session).ok()?).filter(|(lease, silent)| lease.lives(*silent)).map(|(lease, _)| lease)
    }

    pub fn all_alive(feature_dir: &Path) -> Vec<Lease> {
        let entries = fs::read_dir(sessions(feature_dir)).into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| own(feature_dir, &entry.path()));
        found.filter(|(lease, silent)| lease.lives(*silent)).map(|(lease, _)| lease).collect()
    }

    /// The session that runs the feature now, if one does.
    pub fn driving(feature_dir: &Path) -> Option<Lease> {
        Self::all_alive(feature_dir).into_iter().find(|lease| lease.drives)
    }

    pub fn refusal(&self, feature: &impl std::fmt::Display) -> Error {
        Error::new(ExitCode::Held, format!("{feature} is held by another session ({})", self.session))
            .hint("Wait for it, or end it with `mahabharatha stop`; its work is kept.")
    }

    fn lives(&self, silent: Duration) -> bool {
        silent < Duration::from_millis(self.patience_ms) && self.client.is_none_or(|client| client.alive())
    }
}

/// Whether a session may be called so.
pub fn check_name(session: &str) -> Result<()> {
    file(Path::new(""), session).map(drop)
}

/// Says that the session is alive; nothing where it holds nothing.
pub fn renew(feature_dir: &Path, session: &str) {
    let touched = file(feature_dir, session).ok().and_then(|path| File::options().write(true).open(path).ok());
    if let Some(file) = touched {
        let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
    }
}

/// How long it will be until the session has been silent for too long, if nothing is heard of it; none: it has.
pub fn time_left(feature_dir: &Path, session: &str) -> Option<Duration> {
    let (lease, silent) = read(&file(feature_dir, session).ok()?)?;
    if !lease.lives(silent) {
        return None;
    }
    Duration::from_millis(lease.patience_ms).checked_sub(silent)
}

/// Ends for good what has run out, so that nobody who calls late takes back what others go on with.
pub fn end_expired(feature_dir: &Path) -> Result<()> {
    let entries = fs::read_dir(sessions(feature_dir)).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| own(feature_dir, &entry.path()));
    let mut expired = found.filter(|(lease, silent)| !lease.lives(*silent));
    expired.try_for_each(|(lease, _)| end(feature_dir, &lease.session))
}

/// The session holds nothing any more.
pub fn end(feature_dir: &Path, session: &str) -> Result<()> {
    let path = file(feature_dir, session)?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", &path)(error)),
        _ => Ok(()),
    }
}

/// The lease that a file is of; none of a copy, or of one that was not written to its end.
fn own(feature_dir: &Path, path: &Path) -> Option<(Lease, Duration)> {
    read(path).filter(|(lease, _)| file(feature_dir, &lease.session).is_ok_and(|its| its == path))
}

fn read(path: &Path) -> Option<(Lease, Duration)> {
    let lease = serde_json::from_slice(&bounded::read(path, bounded::SMALL_FILE_BYTES).ok()?).ok()?;
    // A clock that was set back must not let it live for ever: it counts from now.
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
        let message = format!("{session:?} is no name of a session");
        return Err(Error::new(ExitCode::Usage, message).hint("Letters, digits, `-`, `_` and `.`, at most 128."));
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
    fn a_session_lives_until_it_has_been_silent_for_too_long() {
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
    fn a_lease_that_ran_out_is_not_renewed_once_others_have_gone_on() {
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
    fn what_was_not_written_to_its_end_is_no_lease() {
        let dir = tempfile::tempdir().unwrap();
        lease("one").write(dir.path()).unwrap();
        fs::rename(file(dir.path(), "one").unwrap(), sessions(dir.path()).join(".unfinished-one.json-1")).unwrap();
        assert_eq!(Lease::driving(dir.path()), None);
    }

    #[test]
    fn a_session_whose_client_is_gone_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let alive = Lease { client: Some(ProcessId::own()), ..lease("alive") };
        let gone = Lease { client: Some(ProcessId { pid: u32::MAX - 1, start: 1, boot: 1 }), ..lease("gone") };
        alive.write(dir.path()).unwrap();
        gone.write(dir.path()).unwrap();
        let names: Vec<String> = Lease::all_alive(dir.path()).into_iter().map(|lease| lease.session).collect();
        assert_eq!(names, ["alive"]);
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        for bad in ["", "..", "../x", "a/b", ".hidden", &"x".repeat(129)] {
            assert_eq!(lease(bad).write(dir.path()).unwrap_err().exit(), ExitCode::Usage, "{bad}");
        }
        assert!(!dir.path().join("x.json").exists());
    }
}
