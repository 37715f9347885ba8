//! What an attempt's agent does now, in a file for those who look.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::log::{Log, Severity};
use crate::agent::{AgentEvent, Tell};
use crate::store::atomic::write_projected;

const FILE: &str = "progress.json";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Such as `editing src/x.rs`.
    #[serde(default)]
    pub doing: String,
    /// So far.
    #[serde(default)]
    pub tokens: u64,
}

impl Progress {
    /// Of an attempt that has told of any.
    pub fn read(job_dir: &Path) -> Option<Progress> {
        serde_json::from_slice(&fs::read(job_dir.join(FILE)).ok()?).ok()
    }

    pub fn write(&self, job_dir: &Path) {
        // For people; a full disk shows where something depends on it.
        let _ = serde_json::to_vec(self).map(|bytes| write_projected(&job_dir.join(FILE), &bytes));
    }
}

/// Writes what happens in the agent into the log, and what it does now into the job directory.
pub fn teller(log: &Log, job_dir: &Path) -> Tell {
    let (log, job_dir) = (log.clone(), job_dir.to_owned());
    let mut progress = Progress::default();
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
        progress.doing = event.doing().unwrap_or(progress.doing.clone());
        if progress != before {
            progress.write(&job_dir);
        }
    })
}
