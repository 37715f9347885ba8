//! Notes to a task's later attempts: what the user answered with `retry --note`, and what other tasks' agents ask of it.

use serde::{Deserialize, Serialize};

use super::event::JobEnd;
use super::state::{Run, TaskState, TaskStatus};
use crate::ids::TaskId;

/// Most characters of one note.
pub const MAX_NOTE_CHARS: usize = 4_000;
/// Most characters of the user's notes to one task, and of those of agents: each of its prompts has all of them.
const MAX_TASK_CHARS: usize = 16_000;
/// Most characters kept of the question that a note answers.
const MAX_QUESTION_CHARS: usize = 2_000;

/// A note to a task, for every later attempt at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskNote {
    pub task: TaskId,
    /// The task whose agent asks for something; none if the user wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<TaskId>,
    pub text: String,
    /// What the agent asked, if the note answers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// Returns the note as it is kept, or why it is refused.
pub fn checked_note(text: &str) -> Result<String, String> {
    let text = text.replace("\r\n", "\n").trim().to_string();
    if text.is_empty() {
        return Err("the note is empty".to_string());
    }
    if text.chars().count() > MAX_NOTE_CHARS {
        return Err(format!("the note has more than {MAX_NOTE_CHARS} characters"));
    }
    match text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        Some(control) => Err(format!("the note has the control character {}", control.escape_unicode())),
        None => Ok(text),
    }
}

impl Run {
    /// Returns the notes to all tasks, in order, also to tasks that are no longer in the graph.
    pub fn notes(&self) -> &[TaskNote] {
        &self.notes
    }

    /// Returns the notes to a task, in order.
    pub fn notes_to<'a>(&'a self, task: &'a TaskId) -> impl Iterator<Item = &'a TaskNote> {
        self.notes.iter().filter(move |note| note.task == *task)
    }

    /// Returns the user's note to a task as it will be kept, or why it is refused.
    pub(super) fn note_to(&self, task: usize, text: &str) -> Result<TaskNote, String> {
        let text = checked_note(text)?;
        let id = self.graph.tasks()[task].id.clone();
        let question = self.tasks[task].question().map(|question| question.chars().take(MAX_QUESTION_CHARS).collect());
        if !self.has_room(&id, &text, None) {
            return Err(format!(
                "its notes have more than {MAX_TASK_CHARS} characters together; put what it must know into its description"
            ));
        }
        Ok(TaskNote { task: id, from: None, text, question })
    }

    /// Tells whether the notes to a task are within their limit with this one: the user's, or those of agents.
    fn has_room(&self, task: &TaskId, text: &str, from: Option<&TaskId>) -> bool {
        let alike = self.notes_to(task).filter(|note| note.from.is_some() == from.is_some());
        alike.map(|note| note.text.chars().count()).sum::<usize>() + text.chars().count() <= MAX_TASK_CHARS
    }

    /// Keeps a note, unless the task has it already or agents have sent it too many.
    pub(super) fn keep_note(&mut self, note: TaskNote) {
        if !self.notes.contains(&note) && self.has_room(&note.task, &note.text, note.from.as_ref()) {
            self.notes.push(note);
        }
    }
}

impl TaskState {
    /// Returns the last words of the agent that blocked the task; none if something else blocked it.
    pub fn question(&self) -> Option<&str> {
        let TaskStatus::Blocked { reason, over_budget: false, .. } = &self.status else { return None };
        let asked = self.attempts.iter().rev().filter(|record| !record.fix).find_map(|record| {
            let (_, report) = record.ended.as_ref()?;
            match &report.end {
                JobEnd::Blocked { reason } | JobEnd::Escalated { reason } => Some(reason.as_str()),
                _ => None,
            }
        });
        // Later attempts may have blocked it for another reason.
        asked.filter(|asked| !asked.trim().is_empty() && reason.ends_with(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_bounded_and_has_no_control_characters() {
        assert_eq!(checked_note(" use\r\n\tsqlite \n"), Ok("use\n\tsqlite".to_string()));
        assert_eq!(checked_note(&"ü".repeat(MAX_NOTE_CHARS)).map(|note| note.len()), Ok(2 * MAX_NOTE_CHARS));
        for (bad, why) in [
            (" \n".to_string(), "the note is empty".to_string()),
            ("x".repeat(MAX_NOTE_CHARS + 1), "the note has more than 4000 characters".to_string()),
            ("a\u{1b}[2J".to_string(), "the note has the control character \\u{1b}".to_string()),
            ("a\rb".to_string(), "the note has the control character \\u{d}".to_string()),
        ] {
            assert_eq!(checked_note(&bad), Err(why));
        }
    }
}
