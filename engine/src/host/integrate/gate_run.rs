//! Makes one gate run visible to the user: its own log, and a status file that exists while the gate runs.

use std::fmt::Display;
use std::fs;
use std::io::Write;

use jiff::Timestamp;
use mahabharatha_core::ids::Time;
use mahabharatha_sys::bounded;
use mahabharatha_sys::proc::Ended;
use mahabharatha_sys::project::FeaturePaths;
use mahabharatha_sys::store::log_file;
use serde_json::json;

use super::Integration;
use super::command::Check;
use crate::report::logs::GateEnd;
use crate::report::running_gate::{OUTPUT, RunningGate};
use crate::worker::{Log, Severity};

/// Number of runs per gate and level whose logs are kept.
const MAX_KEPT_RUNS: u32 = 20;

pub(super) struct GateRun<'a> {
    paths: &'a FeaturePaths,
    log: Log,
}

impl<'a> GateRun<'a> {
    pub fn start(integration: &'a Integration, at: &impl Display, check: &Check) -> GateRun<'a> {
        let paths = &integration.paths;
        let run = next_run(paths, at, &check.name);
        let path = paths.gate_log(at, &check.name, run);
        let mut origin = json!({ "gate": check.name, "at": at.to_string(), "run": run });
        if let Some(task) = &check.task {
            origin["task"] = json!(task);
        }
        let log = Log::to(&[&path], origin, integration.max_log_bytes, integration.redactor.clone());
        log.info("gate_started", &check.command);
        let (gate, command, at) = (check.name.clone(), check.command.clone(), at.to_string());
        let started_at = Time(Timestamp::now().as_millisecond());
        RunningGate { gate, command, at, started_at, pid: std::process::id(), log: path }.show(paths);
        GateRun { paths, log }
    }

    /// Returns a writer that copies the gate's output to the log.
    pub fn output(&self) -> impl Write + Send + 'static {
        self.log.lines(OUTPUT)
    }

    pub fn ended(self, ended: &Ended) {
        let after = format!("after {:.1} s", ended.duration.as_secs_f64());
        let (level, status, message) = if ended.cancelled {
            (Severity::Warn, GateEnd::Cancelled, format!("cancelled {after}"))
        } else if ended.timed_out {
            (Severity::Warn, GateEnd::Failed, format!("failed: its time limit was reached {after}"))
        } else if ended.success() {
            (Severity::Info, GateEnd::Passed, format!("passed {after}"))
        } else {
            (Severity::Warn, GateEnd::Failed, format!("failed with {} {after}", ended.status))
        };
        self.log.write_with(level, "gate_ended", &message, [("status", json!(status))]);
    }
}

impl Drop for GateRun<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.paths.running_gate());
    }
}

/// Returns the number of the next run and removes the logs of the oldest ones.
fn next_run(paths: &FeaturePaths, at: &impl Display, gate: &str) -> u32 {
    let first = paths.gate_log(at, gate, 1);
    let prefix = |name: &str| {
        name.strip_suffix(".jsonl")
            .and_then(|name| name.rsplit_once('.'))
            .map(|(stem, run)| (stem.to_owned(), run.parse::<u32>().ok()))
    };
    let stem = first.file_name().and_then(|name| prefix(&name.to_string_lossy())).map(|(stem, _)| stem);
    let dir = first.parent().filter(|dir| bounded::check_place(dir).is_ok());
    let entries = dir.and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    let runs: Vec<u32> = entries
        .filter_map(|entry| prefix(&entry.file_name().to_string_lossy()))
        .filter(|(found, _)| Some(found) == stem.as_ref())
        .filter_map(|(_, run)| run)
        .collect();
    let next = runs.iter().max().map_or(1, |latest| latest.saturating_add(1));
    for run in runs.into_iter().filter(|run| run.saturating_add(MAX_KEPT_RUNS) <= next) {
        log_file::remove(&paths.gate_log(at, gate, run));
    }
    next
}
