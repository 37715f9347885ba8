//! The gate that runs now, in a file for those who look.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use mahabharatha_core::ids::Time;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::FeaturePaths;
use mahabharatha_sys::store::atomic::write_projected;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::one_line;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::human_duration;
use super::logs::LogRecord;

/// Bytes at the end of a log that hold its last line.
const TAIL: u64 = 16 << 10;
/// The event of a log record that holds a line of output.
pub const OUTPUT: &str = "gate_output";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningGate {
    pub gate: String,
    pub command: String,
    /// The level, or what else it runs on.
    pub at: String,
    pub started_at: Time,
    /// The process that runs it.
    pub pid: u32,
    pub log: PathBuf,
}

/// How far a gate is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateProgress {
    pub running: RunningGate,
    pub elapsed: std::time::Duration,
    pub last_line: Option<String>,
}

impl RunningGate {
    /// For people: where it cannot be written the gate runs all the same.
    pub fn show(&self, paths: &FeaturePaths) {
        let path = paths.running_gate();
        let _ = path.parent().map(fs::create_dir_all);
        let _ = serde_json::to_vec(self).map(|bytes| write_projected(&path, &bytes));
    }

    /// Returns the gate that the process `pid` runs. What a killed process left says nothing.
    pub fn of_process(paths: &FeaturePaths, pid: u32) -> Option<RunningGate> {
        let shown: RunningGate = serde_json::from_slice(&fs::read(paths.running_gate()).ok()?).ok()?;
        (shown.pid == pid).then_some(shown)
    }

    /// Returns the gate that runs now, if any.
    pub fn find(paths: &FeaturePaths) -> Result<Option<RunningGate>> {
        let holder = FeatureLock::holder(paths.dir())?.and_then(|holder| holder.pid);
        Ok(holder.and_then(|pid| RunningGate::of_process(paths, pid)))
    }

    pub fn progress(self, now: Time) -> GateProgress {
        GateProgress { elapsed: now.since(self.started_at), last_line: self.last_line(), running: self }
    }

    fn last_line(&self) -> Option<String> {
        let mut file = File::open(&self.log).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
        let mut tail = Vec::new();
        file.take(TAIL).read_to_end(&mut tail).ok()?;
        let records =
            tail.split(|&byte| byte == b'\n').rev().filter_map(|line| serde_json::from_slice::<LogRecord>(line).ok());
        let mut output = records.filter(|record| record.event.as_deref() == Some(OUTPUT));
        output.next().map(|record| record.message)
    }
}

impl GateProgress {
    pub fn to_json(&self) -> Value {
        let RunningGate { gate, command, at, started_at, .. } = &self.running;
        json!({
            "gate": gate, "command": command, "at": at, "started_at": started_at.to_string(),
            "elapsed_seconds": self.elapsed.as_secs(), "last_line": self.last_line,
        })
    }

    /// `gate test has been running for 2m 10s: what it printed last`
    pub fn text(&self) -> String {
        let last = self.last_line.as_deref().map(one_line).unwrap_or_else(|| "it has printed nothing".to_string());
        format!("gate {} has been running for {}: {last}", one_line(&self.running.gate), human_duration(self.elapsed))
    }
}
