//! What an agent says and does, and what its programs print, from the logs of tasks and gates.

use mahabharatha_engine::report::logs::{LogLevel, LogRecord};
use mahabharatha_sys::ui::clean;
use serde::Serialize;

/// Bytes at the end of a log that are shown.
pub const TAIL_BYTES: u64 = 512 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputKind {
    /// What the agent said.
    Text,
    /// What it did.
    Tool,
    /// What a program printed.
    Output,
    /// A verification or gate, and how it ended.
    Check,
    /// What a verification printed.
    CheckOutput,
    Error,
}

/// A line without control characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputLine {
    pub kind: OutputKind,
    pub text: String,
}

/// Returns the lines of a record; none if it is for the log only.
pub fn output_lines(record: &LogRecord) -> Vec<OutputLine> {
    let (kind, before) = match record.event.as_deref().unwrap_or_default() {
        "text" | "finished" => (OutputKind::Text, ""),
        "tool_use" => (OutputKind::Tool, ""),
        "output" | "gate_output" => (OutputKind::Output, ""),
        "verification_output" => (OutputKind::CheckOutput, ""),
        "verification" => (OutputKind::Check, "verification: "),
        "gate_started" => (OutputKind::Check, "$ "),
        "gate_ended" => (OutputKind::Check, ""),
        "usage" | "session" | "started" | "ended" | "agent_started" | "agent_ended" | "prompt" | "kept"
        | "committed" => return Vec::new(),
        _ if record.level >= LogLevel::Warn => (OutputKind::Error, ""),
        _ => return Vec::new(),
    };
    let line = |text: &str| OutputLine { kind, text: format!("{before}{text}") };
    clean(&record.message).lines().map(line).collect()
}
