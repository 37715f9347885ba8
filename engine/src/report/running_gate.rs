//! The gate that is running now, in a file that `status` and the run's display read.

use std::path::PathBuf;

use mahabharatha_core::ids::Time;
use mahabharatha_sys::bounded::{self, SMALL_FILE_BYTES};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::FeaturePaths;
use mahabharatha_sys::store::atomic::write_projected;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::{command_line, one_line};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::human_duration;
use super::logs::last_records;

/// Bytes at the end of a log that are searched for its last line.
const TAIL_BYTES: u64 = 16 << 10;
/// Where a gate runs before the first level: the base branch.
pub const BASE: &str = "base";
/// Event name of log records that hold a line of output.
pub const OUTPUT: &str = "gate_output";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningGate {
    pub gate: String,
    pub command: String,
    /// What it runs on: a level, `base` or `blame`.
    pub at: String,
    pub started_at: Time,
    /// The process that runs it.
    pub pid: u32,
    pub log: PathBuf,
}

/// Progress of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateProgress {
    pub running: RunningGate,
    pub elapsed: std::time::Duration,
    pub last_line: Option<String>,
}

impl RunningGate {
    /// Writes the file. Errors are ignored, because it is only for display.
    pub fn show(&self, paths: &FeaturePaths) {
        let path = paths.running_gate();
        let _ = serde_json::to_vec(self).map(|bytes| write_projected(&path, &bytes));
    }

    /// Returns the gate that the process `pid` runs. Ignores a file that a killed process left.
    pub fn of_process(paths: &FeaturePaths, pid: u32) -> Option<RunningGate> {
        let shown: RunningGate =
            serde_json::from_slice(&bounded::read(&paths.running_gate(), SMALL_FILE_BYTES).ok()?).ok()?;
        (shown.pid == pid).then_some(shown)
    }

    /// Returns the gate that is running now, if any.
    pub fn find(paths: &FeaturePaths) -> Result<Option<RunningGate>> {
        let holder = FeatureLock::holder(paths.dir())?.and_then(|holder| holder.pid);
        Ok(holder.and_then(|pid| RunningGate::of_process(paths, pid)))
    }

    pub fn progress(self, now: Time) -> GateProgress {
        GateProgress { elapsed: now.since(self.started_at), last_line: self.last_line(), running: self }
    }

    fn last_line(&self) -> Option<String> {
        let records = last_records(&self.log, TAIL_BYTES).into_iter().rev();
        let mut output = records.filter(|record| record.event.as_deref() == Some(OUTPUT));
        output.next().map(|record| record.message)
    }
}

impl GateProgress {
    /// Returns the last line that the gate has printed, or else its command.
    pub fn last_line_or_command(&self) -> String {
        self.last_line.as_deref().map_or_else(|| command_line(&self.running.command), one_line)
    }

    pub fn to_json(&self) -> Value {
        let RunningGate { gate, command, at, started_at, .. } = &self.running;
        json!({
            "gate": gate, "command": command, "at": at, "started_at": started_at.to_string(),
            "elapsed_seconds": self.elapsed.as_secs(), "last_line": self.last_line,
        })
    }

    /// Formats the progress: `gate test has been running for 2m 10s: its last line`.
    pub fn text(&self) -> String {
        let last = self.last_line.as_deref().map(one_line).unwrap_or_else(|| "it has printed nothing".to_string());
        format!("gate {} has been running for {}: {last}", one_line(&self.running.gate), human_duration(self.elapsed))
    }
}
