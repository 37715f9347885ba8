//! What an attempt's agent is doing now, in a slot file. Read by `status`, and to cost an attempt that left no result.

use std::path::Path;

use mahabharatha_core::ids::{Attempt, TaskId, WorkerId};
use mahabharatha_sys::bounded::{self, SMALL_FILE_BYTES};
use mahabharatha_sys::store::atomic::write_projected;
use serde::{Deserialize, Serialize};

use super::job_spec::{JobSpec, slot_file};
use super::log::{Log, Severity};
use crate::agent::{AgentEvent, EventSink};

const EXTENSION: &str = "doing";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    task: TaskId,
    attempt: Attempt,
    /// Current activity, such as `editing src/x.rs`.
    pub doing: String,
    /// Tokens used so far.
    pub tokens: u64,
}

impl Progress {
    /// Returns the attempt's progress, if its agent has reported any.
    pub fn read(feature_dir: &Path, worker: WorkerId, task: &TaskId, attempt: Attempt) -> Option<Progress> {
        let bytes = bounded::read(&slot_file(feature_dir, worker, EXTENSION), SMALL_FILE_BYTES).ok()?;
        let progress: Progress = serde_json::from_slice(&bytes).ok()?;
        (progress.task == *task && progress.attempt == attempt).then_some(progress)
    }

    fn write(&self, path: &Path) {
        // Only for display: other writes report a full disk.
        let _ = serde_json::to_vec(self).map(|bytes| write_projected(path, &bytes));
    }
}

/// Returns a sink that logs the agent's events and writes its current activity into its slot.
pub fn event_sink(log: &Log, spec: &JobSpec) -> EventSink {
    let (log, path) = (log.clone(), spec.slot_file(EXTENSION));
    let (task, attempt) = (spec.job.task.clone(), spec.job.attempt);
    let mut progress = Progress { task, attempt, doing: String::new(), tokens: 0 };
    Box::new(move |event| {
        let severity = match &event {
            AgentEvent::Usage { .. } => Severity::Debug,
            event if event.is_warning() => Severity::Warn,
            _ => Severity::Info,
        };
        log.write(severity, event.name(), &event.to_string());
        let before = progress.clone();
        if let AgentEvent::Usage { tokens, .. } = event {
            progress.tokens = tokens;
        }
        if let Some(doing) = event.doing() {
            progress.doing = doing;
        }
        if progress != before {
            progress.write(&path);
        }
    })
}
