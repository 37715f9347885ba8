//! What an open task or gate shows beyond the run's view: spec, output, diff, log. Read on a thread of its own.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use mahabharatha_core::ids::{Attempt, TaskId};
use mahabharatha_core::run::Run;
use mahabharatha_core::spec::TaskSpec;
use mahabharatha_engine::report::logs::{LogLevel, LogRecord, last_records};
use mahabharatha_engine::session::diff::{self, Selection};
use mahabharatha_engine::session::{self, control};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::proc::shell_word;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::ui::{clean, command_line, escape, one_line};

use super::state::Tab;
use crate::observe::{OutputKind, OutputLine, TAIL_BYTES, cut_line, is_output, leaves_out, output_lines, planned};

/// Most lines of a diff that are shown.
const MAX_DIFF_LINES: usize = 5_000;

/// What is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    Task { task: String, tab: Tab, attempt: Option<u32> },
    Gate { gate: String, log: PathBuf },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    pub of: Wanted,
    pub lines: Vec<Piece>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Dim,
    Strong,
    Good,
    Bad,
    Warn,
    /// The head of a file in a diff.
    File,
}

/// A line without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub tone: Tone,
    pub text: String,
}

fn piece(tone: Tone, text: impl Into<String>) -> Piece {
    Piece { tone, text: text.into() }
}

/// Reads what is wanted; a problem becomes its only line.
pub fn read(place: &Place, of: Wanted) -> Detail {
    let lines = match &of {
        Wanted::Gate { gate, log } => {
            let cut = left_out(log, &format!("mahabharatha logs {} --gate {}", place.feature, shell_word(gate)));
            Ok(cut.into_iter().chain(last_records(log, TAIL_BYTES).iter().flat_map(output_of)).collect())
        }
        Wanted::Task { task, tab, attempt } => of_task(place, task, *tab, *attempt),
    };
    let problem = |error: mahabharatha_sys::error::Error| {
        let hint = error.what_to_do().map(|hint| piece(Tone::Dim, clean(hint)));
        [piece(Tone::Warn, clean(error.message()))].into_iter().chain(hint).collect()
    };
    Detail { of, lines: lines.unwrap_or_else(problem) }
}

fn of_task(place: &Place, task: &str, tab: Tab, attempt: Option<u32>) -> Result<Vec<Piece>> {
    let Some(run) = session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)? else {
        if tab != Tab::Overview {
            return Ok(vec![piece(Tone::Dim, "Nothing has run yet.")]);
        }
        let spec = planned(place)?.spec(task);
        return Ok(spec.map(|spec| spec_lines(&spec)).unwrap_or_default());
    };
    let found = run.graph().tasks().iter().find(|known| known.id.as_str() == task);
    let Some(known) = found else { return Err(control::no_such_task(&run, task)) };
    let attempt = attempt.or_else(|| run.task(&known.id)?.attempts.last().map(|record| record.attempt.0));
    let file = place.paths.task_log(&known.id);
    let log = || last_records(&file, TAIL_BYTES).into_iter();
    let cut = || left_out(&file, &format!("mahabharatha logs {} --task {task}", place.feature)).into_iter();
    let of_attempt = |record: &LogRecord| attempt.is_none() || record.attempt == attempt;
    Ok(match tab {
        Tab::Overview => spec_lines(&known.spec),
        Tab::Output => cut().chain(log().filter(of_attempt).flat_map(|record| output_of(&record))).collect(),
        Tab::Log => cut().chain(log().filter_map(|record| log_line(&record))).collect(),
        Tab::Diff => diff_lines(place, &run, &known.id, attempt)?,
    })
}

/// Says that the beginning of a long log is not shown, and which command prints it.
fn left_out(log: &Path, command: &str) -> Option<Piece> {
    leaves_out(log, 0).then(|| piece(Tone::Warn, format!("… what came before: {command}")))
}

/// Returns what an agent said and did, and what its programs printed.
fn output_of(record: &LogRecord) -> impl Iterator<Item = Piece> + use<> {
    output_lines(record).into_iter().map(|OutputLine { kind, text }| match kind {
        OutputKind::Text | OutputKind::Output => piece(Tone::Plain, text),
        OutputKind::Tool => piece(Tone::Strong, format!("  {text}")),
        OutputKind::Check => piece(Tone::Strong, text),
        OutputKind::CheckOutput => piece(Tone::Dim, format!("  │ {text}")),
        OutputKind::Error => piece(Tone::Warn, format!("  {text}")),
    })
}

/// Returns one line for an event; none for output, which has a page of its own.
fn log_line(record: &LogRecord) -> Option<Piece> {
    if is_output(record) {
        return None;
    }
    let event = record.event.as_deref().unwrap_or_default();
    let time = record.ts.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string();
    let attempt = record.attempt.map(|attempt| attempt.to_string()).unwrap_or_default();
    let tone = match record.level {
        LogLevel::Error => Tone::Bad,
        LogLevel::Warn => Tone::Warn,
        LogLevel::Debug => Tone::Dim,
        LogLevel::Info => Tone::Plain,
    };
    Some(piece(tone, format!("{time}  {attempt:<2} {:<15} {}", one_line(event), command_line(&record.message))))
}

fn diff_lines(place: &Place, run: &Run, task: &TaskId, attempt: Option<u32>) -> Result<Vec<Piece>> {
    let selection = Selection::Task { task: task.clone(), attempt: attempt.map(Attempt), wip: false };
    let found = diff::find(place, run, &selection)?;
    let mut lines: Vec<Piece> = found.notes.iter().map(|note| piece(Tone::Warn, one_line(note))).collect();
    let owned = run.graph().task(task).map_or(&[][..], |task| &task.owned);
    for file in &found.files {
        let path = file.change.path.to_string();
        let whose = if owned.iter().any(|owned| owned.covers(&path)) { "owned" } else { "not owned" };
        let counts = file.lines.map_or("binary".to_string(), |(added, deleted)| format!("+{added} −{deleted}"));
        lines.push(piece(Tone::File, format!("{}  {whose}  {counts}", escape(&path))));
        let patch = String::from_utf8_lossy(&file.patch);
        // The head names the file, which the line above does.
        for line in patch.lines().skip_while(|line| !line.starts_with("@@ ")) {
            let tone = match line.as_bytes().first() {
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                Some(b'@') => Tone::Dim,
                _ => Tone::Plain,
            };
            let (shown, more) = cut_line(line);
            lines.push(piece(tone, escape(shown)));
            lines.extend(more.map(|more| piece(Tone::Warn, more)));
        }
        if lines.len() > MAX_DIFF_LINES {
            lines.truncate(MAX_DIFF_LINES);
            lines.push(piece(Tone::Warn, format!("… all of it: mahabharatha diff -f {} {task}", place.feature)));
            break;
        }
    }
    if found.files.is_empty() {
        lines.push(piece(Tone::Dim, "Nothing is changed."));
    }
    Ok(lines)
}

/// Returns what the spec says beyond title, files and criteria.
fn spec_lines(spec: &TaskSpec) -> Vec<Piece> {
    let parts = [
        ("Description", &spec.description),
        ("Context", &spec.context),
        ("Action", &spec.action),
        ("Done when", &spec.done),
        ("Interface", &spec.interface),
        ("Security", &spec.security),
    ];
    let mut lines = Vec::new();
    for (name, text) in parts {
        if let Some(text) = text.as_deref().filter(|text| !text.trim().is_empty()) {
            lines.push(piece(Tone::Strong, name));
            lines.extend(clean(text).lines().map(|line| piece(Tone::Plain, format!("  {line}"))));
        }
    }
    lines
}
