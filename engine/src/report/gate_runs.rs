//! The runs of gates: when each began and how it ended, from their logs.
//!
//! The journal has only what decisions need. The logs have the rest, and `running_gate` says which one runs now.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::Time;
use mahabharatha_core::view::Stamp;
use mahabharatha_sys::project::FeaturePaths;
use mahabharatha_sys::store::log_file;
use schemars::JsonSchema;
use serde::Serialize;

use super::logs::{GateEnd, LogRecord, first_records, last_records};
use super::running_gate::RunningGate;

/// Most runs of gates that are listed; older ones are left out.
const MAX_LISTED: usize = 500;
/// Bytes at both ends of a log that are searched for its first and its last record.
const PART_BYTES: u64 = 8 << 10;

/// One run of a gate, of a verification on merged work, or of `merge.prepare`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GateRunView {
    pub gate: String,
    /// What it ran on: a level, `base`, or `blame` for a part of a level.
    pub at: String,
    /// Number of its run there, counted from 1.
    pub run: u32,
    /// The task whose verification it is.
    pub task: Option<String>,
    pub command: String,
    /// `running`, `passed`, `failed`, `cancelled`, or `unknown` if the process was killed.
    pub status: &'static str,
    pub started_at: Stamp,
    pub ended_at: Option<Stamp>,
    pub log: PathBuf,
}

/// Remembers the runs that have ended, so that a display can look often.
#[derive(Debug, Default)]
pub struct GateRuns {
    ended: BTreeMap<PathBuf, GateRunView>,
}

impl GateRuns {
    /// Returns the latest runs in the order in which they began.
    pub fn read(&mut self, paths: &FeaturePaths, running: Option<&RunningGate>) -> Vec<GateRunView> {
        let logs = log_file::list(&paths.logs().join("gates")).unwrap_or_default();
        let mut runs = Vec::new();
        for log in logs {
            if let Some(known) = self.ended.get(&log) {
                runs.push(known.clone());
                continue;
            }
            let is_running = running.is_some_and(|running| running.log == log);
            let Some(run) = log_file::first_part(&log).and_then(|first| read_run(&first, &log, is_running)) else {
                continue;
            };
            if run.ended_at.is_some() {
                self.ended.insert(log, run.clone());
            }
            runs.push(run);
        }
        runs.sort_by_key(|run| run.started_at);
        runs.split_off(runs.len().saturating_sub(MAX_LISTED))
    }
}

/// Reads a run from its log, which may have been rotated since it began: `first_part` is where it begins.
fn read_run(first_part: &Path, log: &Path, is_running: bool) -> Option<GateRunView> {
    let mut start = first_records(first_part, PART_BYTES);
    // A short log is read once.
    let ended = start.pop_if(|record| is(record, "gate_ended"));
    let ended = ended.or_else(|| last_records(log, PART_BYTES).into_iter().rfind(|record| is(record, "gate_ended")));
    let first = start.into_iter().next().filter(|record| is(record, "gate_started"))?;
    let status = match ended.as_ref().and_then(|record| record.status) {
        None if is_running => "running",
        None => "unknown",
        Some(GateEnd::Passed) => "passed",
        Some(GateEnd::Failed) => "failed",
        Some(GateEnd::Cancelled) => "cancelled",
    };
    let stamp = |record: &LogRecord| Stamp(Time(record.ts.as_millisecond()));
    Some(GateRunView {
        started_at: stamp(&first),
        ended_at: ended.as_ref().map(stamp),
        status,
        gate: first.gate?,
        at: first.at?,
        run: first.run?,
        task: first.task,
        command: first.message,
        log: log.to_owned(),
    })
}

fn is(record: &LogRecord, event: &str) -> bool {
    record.event.as_deref() == Some(event)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_with_a_rotated_log_is_one_run() {
        let dir = tempfile::tempdir().unwrap();
        let (first, log) = (dir.path().join("1.lint.1.jsonl.1"), dir.path().join("1.lint.1.jsonl"));
        let line = |second: u32, event: &str, status: Option<&str>, message: &str| {
            let record = json!({
                "ts": format!("2026-01-26T10:30:0{second}Z"), "level": "info", "gate": "lint", "at": "1", "run": 1,
                "event": event, "status": status, "message": message,
            });
            format!("{record}\n")
        };
        let begun = line(1, "gate_started", None, "cargo clippy") + &line(2, "output", None, "much");
        fs::write(&first, begun).unwrap();
        let ended = line(3, "output", None, "more") + &line(4, "gate_ended", Some("passed"), "after 3.0 s");
        fs::write(&log, ended).unwrap();
        let part = log_file::first_part(&log).unwrap();
        let run = read_run(&part, &log, false).unwrap();
        assert_eq!((run.status, run.command.as_str(), run.log == log), ("passed", "cargo clippy", true));
        assert_eq!(log_file::first_part(&first), None);
    }
}
