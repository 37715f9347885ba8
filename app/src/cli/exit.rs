//! Exit codes of the program: the one place that maps kinds of errors to them.

use mahabharatha_sys::error::{Error, Kind};
use serde_json::{Value, json};

/// Exit code of the program, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Blocked = 3,
    Gate = 4,
    Conflict = 5,
    Invalid = 6,
    Preflight = 7,
    Held = 8,
    Paused = 9,
    Stopped = 130,
}

impl From<Kind> for ExitCode {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Failed | Kind::OutOfSpace => ExitCode::Failed,
            Kind::Usage => ExitCode::Usage,
            Kind::Blocked => ExitCode::Blocked,
            Kind::Gate => ExitCode::Gate,
            Kind::Conflict => ExitCode::Conflict,
            Kind::Invalid => ExitCode::Invalid,
            Kind::Preflight => ExitCode::Preflight,
            Kind::Held => ExitCode::Held,
            Kind::Paused => ExitCode::Paused,
            Kind::Stopped => ExitCode::Stopped,
        }
    }
}

impl ExitCode {
    /// One word for programs.
    pub fn word(self) -> &'static str {
        match self {
            ExitCode::Done => "done",
            ExitCode::Failed => "failed",
            ExitCode::Usage => "usage",
            ExitCode::Blocked => "blocked",
            ExitCode::Gate => "gate",
            ExitCode::Conflict => "conflict",
            ExitCode::Invalid => "invalid",
            ExitCode::Preflight => "preflight",
            ExitCode::Held => "held",
            ExitCode::Paused => "paused",
            ExitCode::Stopped => "stopped",
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

/// Returns the error as `--json` prints it.
pub fn error_json(error: &Error) -> Value {
    let code = ExitCode::from(error.kind());
    json!({
        "code": code as u8,
        "kind": code.word(),
        "message": error.message(),
        "details": error.details(),
        "hint": error.what_to_do(),
    })
}
