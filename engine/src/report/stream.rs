//! A run as lines of JSON (`run`, `attach` and `merge --json`): one object per change, in the words of `status --json`.
//!
//! `docs/json.md` describes them. A change that breaks a reader raises `VERSION`.

use std::mem::{Discriminant, discriminant};

use mahabharatha_core::ids::{Level, TaskId, Time};
use mahabharatha_core::run::event::{GateFailure, Note};
use mahabharatha_core::run::{Event, LevelState, LevelStatus, Run, TaskState, TaskStatus};
use mahabharatha_core::view::{RunView, Stamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::extended;
use super::log_lines::{Line, Severity};

const VERSION: u32 = 1;

/// Returns one line of the stream, without the line break.
pub fn event_line(at: Time, event: &str, fields: impl Serialize) -> String {
    extended(json!({ "version": VERSION, "at": Stamp(at), "event": event }), fields).to_string()
}

/// Returns a log line as an event.
pub fn log_event(line: &Line) -> String {
    let severity = match line.severity {
        Severity::Info => "info",
        Severity::Warn => "warn",
        Severity::Error => "error",
    };
    event_line(line.at, "log", Log { severity, message: &line.text })
}

/// Something that people are told.
#[derive(Serialize, JsonSchema)]
pub(super) struct Log<'a> {
    /// `info`, `warn` or `error`.
    severity: &'static str,
    message: &'a str,
}

/// The end of the command that prints the events.
#[derive(Serialize, JsonSchema)]
pub struct Ended {
    /// The exit code.
    pub code: u8,
    /// The exit code as a word.
    pub kind: &'static str,
    pub error: Option<Failure>,
}

/// An error, as every command prints it under `--json`.
#[derive(Serialize, JsonSchema)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// The exit code as a word.
    pub kind: &'static str,
    /// What went wrong.
    pub message: String,
    /// More lines: where, or what exactly.
    pub details: Vec<String>,
    /// What to do.
    pub hint: Option<String>,
}

/// A gate or verification that failed on the merged work.
#[derive(Serialize, JsonSchema)]
pub(super) struct FailedGate<'a> {
    /// Null on the base.
    level: Option<Level>,
    gate: &'a str,
    required: bool,
    /// The task whose verification it is.
    task: Option<&'a TaskId>,
    command: &'a str,
    /// Whether it ran in a clean checkout.
    clean: bool,
    output: &'a str,
    /// The likely cause.
    cause: Option<&'a str>,
}

/// Finds out what each event changed. Remembers only the part of the run that this needs.
#[derive(Debug)]
pub struct Stream {
    tasks: Vec<TaskMark>,
    levels: Vec<Discriminant<LevelStatus>>,
    /// Each level as it was printed last.
    printed_levels: Vec<Value>,
    ended: bool,
}

#[derive(Debug, PartialEq)]
struct TaskMark {
    status: Discriminant<TaskStatus>,
    attempts: usize,
    is_latest_over: bool,
}

impl TaskMark {
    fn of(task: &TaskState) -> TaskMark {
        TaskMark {
            status: discriminant(&task.status),
            attempts: task.attempts.len(),
            is_latest_over: task.attempts.last().is_some_and(|attempt| attempt.ended.is_some()),
        }
    }
}

impl Stream {
    /// Returns the stream and its first line, which has the whole run.
    pub fn open(run: &Run) -> (Stream, String) {
        (Stream::of(run), whole_run(run))
    }

    fn of(run: &Run) -> Stream {
        Stream {
            tasks: run.tasks().iter().map(TaskMark::of).collect(),
            levels: run.levels().iter().map(mark_of).collect(),
            printed_levels: Vec::new(),
            ended: run.ended().is_some(),
        }
    }

    /// Returns the lines for what the event changed, with its number; `run` is the state after the event.
    pub fn lines(&mut self, event: &Event, run: &Run) -> Vec<String> {
        let mut before = std::mem::replace(self, Stream::of(run));
        self.printed_levels = std::mem::take(&mut before.printed_levels);
        self.printed_levels.resize(self.levels.len(), Value::Null);
        let at = run.updated_at();
        let seq = run.seq();
        let numbered = |fields: Value| extended(json!({ "seq": seq }), fields);
        let mut lines: Vec<String> =
            failed_gate(event).map(|gate| event_line(at, "gate_failed", numbered(json!(gate)))).collect();
        if before.tasks.len() != self.tasks.len() || before.levels.len() != self.levels.len() {
            lines.push(whole_run(run));
            return lines;
        }
        if before.tasks != self.tasks || before.levels != self.levels {
            let view = RunView::of(run);
            let tasks = before.tasks.iter().zip(&self.tasks).zip(&view.tasks);
            lines.extend(
                tasks
                    .filter(|((old, new), _)| old != new)
                    .map(|(_, task)| event_line(at, "task", numbered(json!(task)))),
            );
            // Several statuses of a level look alike from outside.
            let is_changed = |index: &usize| before.levels[*index] != self.levels[*index];
            for index in (0..self.levels.len()).filter(is_changed) {
                let level = json!(view.levels[index]);
                if self.printed_levels[index] != level {
                    lines.push(event_line(at, "level", numbered(level.clone())));
                    self.printed_levels[index] = level;
                }
            }
        }
        if self.ended && !before.ended {
            lines.push(whole_run(run));
        }
        lines
    }
}

fn mark_of(level: &LevelState) -> Discriminant<LevelStatus> {
    discriminant(&level.status)
}

fn whole_run(run: &Run) -> String {
    event_line(run.updated_at(), "run", RunView::of(run))
}

fn failed_gate(event: &Event) -> impl Iterator<Item = FailedGate<'_>> {
    let (level, failures, required): (Option<Level>, &[GateFailure], bool) = match event {
        Event::BaseChecked { red, .. } => (None, red, true),
        Event::GateFailed { level, failure, .. } => (Some(*level), std::slice::from_ref(failure), true),
        Event::Noted { level, note: Note::OnlyReported { failure } } => (*level, std::slice::from_ref(failure), false),
        _ => (None, &[], true),
    };
    failures.iter().map(move |failure| {
        let GateFailure { gate, command, output, cause, task, clean, denied: _, staging: _ } = failure;
        let (task, cause, clean) = (task.as_ref(), cause.as_deref(), *clean);
        FailedGate { level, gate, required, task, command, clean, output, cause }
    })
}

#[cfg(test)]
mod tests {
    use super::super::support::{Story, failure};
    use super::*;

    /// Returns the event, its subject and its status for each line.
    fn gist(story: &Story) -> String {
        let one = |line: &String| {
            let event: Value = serde_json::from_str(line).unwrap();
            assert_eq!(event["version"], VERSION, "{line}");
            let of = event.get("id").or(event.get("level")).unwrap_or(&Value::Null);
            format!("{} {of} {}", event["event"].as_str().unwrap(), event["status"].as_str().unwrap_or("-"))
        };
        story.streamed.iter().map(one).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_change_is_one_line() {
        insta::assert_snapshot!(gist(&Story::eventful()));
    }

    #[test]
    fn an_event_that_changes_nothing_is_no_line() {
        let mut story = Story::new();
        let before = story.base_is_green().starts("TASK-001").streamed.len();
        assert_eq!(story.happens(Event::Woke).streamed.len(), before);
    }

    #[test]
    fn a_failed_gate_is_reported_with_its_output() {
        let mut story = Story::new();
        story.answers(|effect| Event::BaseChecked { effect, red: vec![failure("lint")] });
        let event: Value = serde_json::from_str(&story.streamed[1]).unwrap();
        assert_eq!(
            (&event["event"], &event["gate"], &event["level"]),
            (&json!("gate_failed"), &json!("lint"), &json!(null))
        );
        assert_eq!(event["output"], "error: unused variable `x`");
    }
}
