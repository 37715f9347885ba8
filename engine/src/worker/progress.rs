//! What an attempt is doing now, in a slot file. Read by `status`, and to cost an attempt that left no result.

use std::path::Path;

use jiff::Timestamp;
use mahabharatha_core::ids::{Attempt, TaskId, Time, WorkerId};
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
    pub phase: Phase,
    /// When the phase began.
    pub since: Time,
    /// The agent's name in the configuration.
    pub agent: String,
    /// The model that the agent was asked to use; none for its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Current activity of the agent, such as `editing src/x.rs`; empty if it reports none.
    pub doing: String,
    /// Tokens used so far.
    pub tokens: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The agent works.
    Agent,
    /// The task's verification runs.
    Verifying,
}

impl Progress {
    /// Returns the attempt's progress, if it has come that far.
    pub fn read(feature_dir: &Path, worker: WorkerId, task: &TaskId, attempt: Attempt) -> Option<Progress> {
        let bytes = bounded::read(&slot_file(feature_dir, worker, EXTENSION), SMALL_FILE_BYTES).ok()?;
        let progress: Progress = serde_json::from_slice(&bytes).ok()?;
        (progress.task == *task && progress.attempt == attempt).then_some(progress)
    }

    fn begin(spec: &JobSpec, phase: Phase) -> Progress {
        Progress {
            task: spec.job.task.clone(),
            attempt: spec.job.attempt,
            phase,
            since: Time(Timestamp::now().as_millisecond()),
            agent: spec.agent.name.clone(),
            model: spec.agent.model(&spec.task).map(str::to_owned),
            doing: String::new(),
            tokens: 0,
        }
    }

    fn write(&self, path: &Path) {
        // Only for display: other writes report a full disk.
        let _ = serde_json::to_vec(self).map(|bytes| write_projected(path, &bytes));
    }
}

/// Shows that the verification begins. The tokens that the agent used stay.
pub fn begin_verification(spec: &JobSpec) {
    let path = spec.slot_file(EXTENSION);
    let before: Option<Progress> =
        bounded::read(&path, SMALL_FILE_BYTES).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let before = before.filter(|before| before.task == spec.job.task && before.attempt == spec.job.attempt);
    let tokens = before.map_or(0, |before| before.tokens);
    Progress { tokens, ..Progress::begin(spec, Phase::Verifying) }.write(&path);
}

/// Shows that the agent begins. Returns a sink that logs its events and writes its current activity into its slot.
pub fn event_sink(log: &Log, spec: &JobSpec) -> EventSink {
    let (log, path) = (log.clone(), spec.slot_file(EXTENSION));
    let mut progress = Progress::begin(spec, Phase::Agent);
    progress.write(&path);
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
