//! What an agent says and does, and what its programs print, from the logs of tasks and gates.

use std::fs;
use std::path::Path;

use mahabharatha_engine::report::logs::{LogLevel, LogRecord};
use mahabharatha_sys::store::log_file;
use mahabharatha_sys::ui::clean;
use serde::Serialize;

/// Bytes at the end of a log that are shown.
pub const TAIL_BYTES: u64 = 512 << 10;

/// Longest part of a line of a diff that is shown.
const MAX_LINE_CHARS: usize = 2_000;

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

/// Tells whether reading the end of a log leaves out something after this many bytes.
pub fn leaves_out(log: &Path, read: u64) -> bool {
    let length = fs::metadata(log).map_or(0, |found| found.len());
    length.saturating_sub(TAIL_BYTES) > read || read == 0 && log_file::first_part(log).is_some_and(|first| first != log)
}

/// Returns the part of a line that is shown, and a mark that says how much is not.
pub fn cut_line(line: &str) -> (&str, Option<String>) {
    let Some((end, _)) = line.char_indices().nth(MAX_LINE_CHARS) else { return (line, None) };
    let more = line[end..].chars().count();
    (&line[..end], Some(format!("… {more} more characters")))
}

/// Tells whether a record of a task is shown as its output, and not as part of its log.
pub fn is_output(record: &LogRecord) -> bool {
    matches!(record.event.as_deref(), Some("output" | "verification_output" | "text" | "usage"))
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
