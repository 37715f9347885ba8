//! How a process takes part in a run, and how that ended.

use mahabharatha_core::config::{LauncherKind, SandboxMode};
use mahabharatha_core::run::End;
use mahabharatha_core::run::event::{Intent, Schedule};

use crate::lease::Lease;

/// How a process takes part in a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where workers run, if not as configured.
    pub launcher: Option<LauncherKind>,
    pub workers: Option<u32>,
    /// The schedule, if not as configured.
    pub schedule: Option<Schedule>,
    pub intent: Intent,
    pub agent: Option<String>,
    /// The sandbox, if not as configured.
    pub sandbox: Option<SandboxMode>,
    pub max_cost: Option<f64>,
    pub allow_red_base: bool,
    /// Go on with a configuration that changed since the run began.
    pub accept_config: bool,
    /// Start agents even if the API told an earlier process to wait for a limit to reset.
    pub no_wait: bool,
    /// Print every change of the run as a machine-readable event.
    pub streams: bool,
    /// Lease of the calling session, if a session calls.
    pub lease: Option<Lease>,
}

impl Options {
    /// Returns options that leave everything else to the configuration.
    pub fn new(intent: Intent) -> Self {
        Options {
            launcher: None,
            workers: None,
            schedule: None,
            intent,
            agent: None,
            sandbox: None,
            max_cost: None,
            allow_red_base: false,
            accept_config: false,
            no_wait: false,
            streams: false,
            lease: None,
        }
    }
}

/// Result of taking part in a run.
pub enum Outcome {
    /// The feature was already completed, so there was nothing to do.
    AlreadyCompleted,
    Ended(End),
    /// The run is open for the session that called.
    Open,
}
