//! `review`: a completed task with what the user needs to judge it.

use mahabharatha_core::ids::{Level, TaskId};
use mahabharatha_sys::git::FilePatch;
use mahabharatha_sys::ui::{Paint, Style, clean, command_line, one_line};
use serde::Serialize;

use super::diff::{patch_text, stat_text};
use super::text::count;

#[derive(Debug, Serialize)]
pub struct Item {
    pub task: TaskId,
    pub title: String,
    pub level: Level,
    pub merged: bool,
    pub acceptance_criteria: Vec<String>,
    pub verification: Verification,
    pub attempts: usize,
    /// `accepted` or `sent_back`; none if this work was not reviewed yet.
    pub verdict: Option<&'static str>,
    pub comment: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Verification {
    pub command: String,
    /// None without a command.
    pub passed: Option<bool>,
    /// None if it was not measured.
    pub seconds: Option<f64>,
}

/// Returns the item and its changes as text.
pub fn item_text(item: &Item, files: &[FilePatch], paint: Paint) -> String {
    let mut text = paint.apply(Style::Strong, &format!("{}: {}", item.task, one_line(&item.title)));
    let state = if item.merged { "merged" } else { "not merged yet" };
    text.push_str(&format!("\nLevel {}, {state}, {}", item.level, count(item.attempts, "attempt")));
    if let Some(verdict) = item.verdict {
        text.push_str(&format!(", {}", verdict.replace('_', " ")));
    }
    text.push('\n');
    let Verification { command, passed, seconds } = &item.verification;
    let took = seconds.map(|seconds| format!(" after {seconds:.1} s")).unwrap_or_default();
    text.push_str(&match passed {
        Some(_) => format!("Verification passed{took}: {}\n", command_line(command)),
        None => paint.apply(Style::Warn, "There is no verification command") + "\n",
    });
    if !item.acceptance_criteria.is_empty() {
        text.push_str("Acceptance criteria:\n");
        for criterion in &item.acceptance_criteria {
            text.push_str(&format!("  - {}\n", clean(criterion).replace('\n', "\n    ")));
        }
    }
    format!("{text}\n{}\n{}", stat_text(files, paint), patch_text(files, paint))
}
