//! Small pieces of text that several reports share.

use std::collections::BTreeSet;
use std::time::Duration;

use mahabharatha_core::ids::{TaskId, Time};
use mahabharatha_core::run::event::FailCause;
use mahabharatha_core::view::{AttemptView, RunView, TaskView};

use crate::ui::{clean, fit, one_line};

/// No line that is made from the text of others is longer, in columns.
const LONGEST: usize = 200;
/// Of a long list so many are named.
const NAMED: usize = 5;

/// `1 task`, `2 tasks`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

pub fn usd(amount: f64) -> String {
    format!("{amount:.2} USD")
}

/// A branch as people call it.
pub fn branch_name(full_ref: &str) -> &str {
    full_ref.strip_prefix("refs/heads/").unwrap_or(full_ref)
}

/// How an attempt ended, as the end of a sentence that begins with its task.
pub fn outcome(outcome: &str, cause: Option<FailCause>) -> &'static str {
    match (outcome, cause) {
        ("running", _) => "is under way",
        ("done", _) => "was done",
        ("checkpoint", _) => "stopped at a checkpoint",
        ("blocked", _) => "cannot be done, says its agent",
        ("escalated", _) => "asks a person to decide",
        ("died", _) => "ended without a result: its worker died",
        ("interrupted", _) => "was interrupted",
        (_, Some(FailCause::Strays)) => "changed what it does not own",
        (_, Some(FailCause::Missing)) => "did not make a file that it should have made",
        (_, Some(FailCause::Verification)) => "failed its verification",
        (_, Some(FailCause::Timeout)) => "ran out of time",
        (_, Some(FailCause::Stalled)) => "stalled: no output and no change",
        (_, Some(FailCause::Setup)) => "could not begin: its worktree could not be made ready",
        (_, Some(FailCause::Agent) | None) => "failed: its agent ended with an error",
    }
}

/// The first line that says something.
pub fn headline(text: &str) -> String {
    let cleaned = clean(text);
    let line = cleaned.lines().map(str::trim).find(|line| !line.is_empty());
    fit(&one_line(line.unwrap_or("no reason was given")), LONGEST)
}

/// The last line that says something: where commands sum up what went wrong.
pub fn last_line(output: &str) -> String {
    let cleaned = clean(output);
    let mut lines = cleaned.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.next().unwrap_or("it printed nothing");
    // How the command ended stands in brackets; what it said itself tells more.
    let said = lines.next().filter(|_| last.starts_with('[') && last.ends_with(']'));
    fit(&one_line(&said.map_or(last.to_string(), |said| format!("{said} {last}"))), LONGEST)
}

/// How long a task was worked on, over all its attempts.
pub fn worked(task: &TaskView, now: Time) -> Duration {
    let of_attempt = |attempt: &AttemptView| match (attempt.ended_at, attempt.outcome) {
        (Some(ended), _) => ended.0.since(attempt.started_at.0),
        (None, "running") => now.since(attempt.started_at.0),
        (None, _) => Duration::ZERO,
    };
    task.attempts.iter().map(of_attempt).sum()
}

/// `a, b and 3 more`.
pub fn few(items: &[String]) -> String {
    let named: Vec<String> = items.iter().take(NAMED).map(|item| fit(&one_line(item), LONGEST)).collect();
    match items.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

pub fn blocked_tasks(view: &RunView) -> BTreeSet<&TaskId> {
    view.tasks.iter().filter(|task| task.status == "blocked").map(|task| &task.id).collect()
}

/// `3 of 8 completed, 1 blocked`.
pub fn task_counts(view: &RunView) -> String {
    let of = |status: &str| view.tasks.iter().filter(|task| task.status == status).count();
    let mut text = format!("{} of {} completed", of("completed"), view.tasks.len());
    for status in ["in_progress", "waiting", "blocked", "skipped"] {
        if of(status) > 0 {
            text.push_str(&format!(", {} {}", of(status), status.replace('_', " ")));
        }
    }
    text
}

/// Why a task stands where it stands, where that needs words.
pub fn note(task: &TaskView, blocked: &BTreeSet<&TaskId>) -> String {
    let reason = || task.reason.as_deref().map(headline).unwrap_or_default();
    match task.status {
        "blocked" | "skipped" | "waiting" => reason(),
        "pending" if task.next_attempt_at.is_some() => format!("to be tried again: {}", reason()),
        "pending" => {
            let needed = task.dependencies.iter().find(|id| blocked.contains(id));
            needed.map(|id| format!("blocked by {id}")).unwrap_or_default()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_and_long_lines_are_cut() {
        let items: Vec<String> = (1..=7).map(|number| format!("f{number}")).collect();
        assert_eq!(few(&items[..2]), "f1, f2");
        assert_eq!(few(&items), "f1, f2, f3, f4, f5 and 2 more");
        assert_eq!(headline(&"x".repeat(5_000)).chars().count(), LONGEST);
    }

    #[test]
    fn lines_without_a_word_are_passed_over() {
        assert_eq!(headline("\x1b[0m\n  \nfirst\nlast"), "first");
        assert_eq!(last_line("first\nlast\n \x1b[0m\n"), "last");
        assert_eq!(headline(" \n"), "no reason was given");
        assert_eq!(last_line(""), "it printed nothing");
    }
}
