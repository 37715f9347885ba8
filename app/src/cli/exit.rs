//! Exit codes of the program: the one place that maps kinds of errors to them.

use mahabharatha_engine::report::stream::Failure;
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

const KINDS: [Kind; 10] = [
    Kind::Failed,
    Kind::Usage,
    Kind::Blocked,
    Kind::Gate,
    Kind::Conflict,
    Kind::Invalid,
    Kind::Preflight,
    Kind::Held,
    Kind::Paused,
    Kind::Stopped,
];

/// Returns the kind of problem that an exit code of this program stands for.
pub fn kind_of(code: i32) -> Kind {
    KINDS.into_iter().find(|kind| ExitCode::from(*kind) as i32 == code).unwrap_or(Kind::Failed)
}

/// Returns the error that another process of this program printed with `--json`.
pub fn error_from_json(value: &Value) -> Option<Error> {
    let kind = KINDS.into_iter().find(|kind| value["kind"] == ExitCode::from(*kind).word())?;
    let details = value["details"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let error = details.fold(Error::new(kind, value["message"].as_str()?), Error::detail);
    Some(match value["hint"].as_str() {
        Some(hint) => error.hint(hint),
        None => error,
    })
}

/// Returns the error as `--json` prints it.
pub fn error_json(error: &Error) -> Value {
    json!(failure(error))
}

pub fn failure(error: &Error) -> Failure {
    let code = ExitCode::from(error.kind());
    Failure {
        code: code as u8,
        kind: code.word(),
        message: error.message().to_owned(),
        details: error.details().to_vec(),
        hint: error.what_to_do().map(str::to_owned),
    }
}
