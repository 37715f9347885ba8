//! Small pieces of text that several reports share.

use std::collections::BTreeSet;
use std::time::Duration;

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{TaskId, Time};
use mahabharatha_core::run::event::{FailCause, GateFailure};
use mahabharatha_core::view::{AttemptView, RunView, TaskView};
use mahabharatha_sys::ui::{clean, fit, one_line};

/// No line that is made from the text of others is longer, in columns.
const LONGEST: usize = 200;
/// Of a long list so many are named.
const NAMED: usize = 5;

/// `1 task`, `2 tasks`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `1.20 USD`, `at least 1.20 USD` where a part is unknown, or `unknown`.
pub fn amount(cost: Cost) -> String {
    match (cost.usd(), cost.known_usd()) {
        (Some(usd), _) => format!("{usd:.2} USD"),
        (None, 0.0) => "unknown".to_string(),
        (None, known) => format!("at least {known:.2} USD"),
    }
}

/// `1.20 USD, 7500 tokens`; none where nothing was spent.
pub fn cost_fact(cost: Cost) -> Option<String> {
    match cost.tokens() {
        _ if cost.is_zero() => None,
        0 => Some(amount(cost)),
        tokens => Some(format!("{}, {}", amount(cost), count(tokens as usize, "token"))),
    }
}

/// As `cost_fact`, for the middle of a sentence: `cost unknown`.
pub fn cost_phrase(cost: Cost) -> Option<String> {
    cost_fact(cost).map(|fact| in_sentence(cost, fact))
}

/// As `cost_phrase`, without the tokens.
pub fn usd_phrase(cost: Cost) -> Option<String> {
    (cost.usd() != Some(0.0)).then(|| in_sentence(cost, amount(cost)))
}

fn in_sentence(cost: Cost, fact: String) -> String {
    if cost.usd().is_none() && cost.known_usd() == 0.0 { format!("cost {fact}") } else { fact }
}

/// What the feature has cost, and how much of that is planning.
pub fn feature_cost(view: &RunView) -> Option<String> {
    let planning = cost_fact(view.planning).map(|planning| format!(" (planning: {planning})"));
    Some(format!("{}{}", cost_fact(view.cost)?, planning.unwrap_or_default()))
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
        ("blocked", _) => "is blocked",
        ("escalated", _) => "asks a person to decide",
        ("died", _) => "ended without a result: its worker died",
        ("unserved", _) => "was not served",
        ("interrupted", _) => "was interrupted",
        (_, Some(FailCause::Strays)) => "changed what it does not own",
        (_, Some(FailCause::Missing)) => "did not make a file that it should have made",
        (_, Some(FailCause::Unchanged)) => "changed nothing, though it was to mend something",
        (_, Some(FailCause::Verification)) => "failed its verification",
        (_, Some(FailCause::Timeout)) => "ran out of time",
        (_, Some(FailCause::Stalled)) => "stalled: no output and no change",
        (_, Some(FailCause::Setup)) => "could not be carried out",
        (_, Some(FailCause::Agent) | None) => "failed: its agent ended with an error",
    }
}

/// The first line that says something.
pub fn headline(text: &str) -> String {
    let cleaned = clean(text);
    let line = cleaned.lines().map(str::trim).find(|line| !line.is_empty());
    fit(&one_line(line.unwrap_or("no reason was given")), LONGEST)
}

/// The last line that a gate printed, where commands sum up what went wrong, and how it ended.
pub fn gate_gist(failure: &GateFailure) -> String {
    let cleaned = clean(&failure.output);
    let mut lines = cleaned.lines().rev().map(str::trim).filter(|line| !line.is_empty()).peekable();
    // How it ended is added below its output, in brackets.
    let end = lines.next_if(|line| line.starts_with('[') && line.ends_with(']'));
    let end = end.map(|end| format!(" {end}")).unwrap_or_default();
    format!("{}{end}", fit(&one_line(lines.next().unwrap_or("it printed nothing")), LONGEST))
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
    use mahabharatha_core::ids::Oid;

    use super::*;

    #[test]
    fn what_is_not_known_is_not_called_nothing() {
        let known = Cost::of(Some(1.2), 7_500);
        let all = [known, known + Cost::unknown(), Cost::of(None, 12), Cost::unknown(), Cost::default()];
        let facts = all.map(|cost| cost_fact(cost).unwrap_or_default());
        assert_eq!(
            facts,
            ["1.20 USD, 7500 tokens", "at least 1.20 USD, 7500 tokens", "unknown, 12 tokens", "unknown", ""]
        );
        assert_eq!(cost_phrase(Cost::of(None, 12)).as_deref(), Some("cost unknown, 12 tokens"));
        assert_eq!(cost_phrase(known + Cost::unknown()).as_deref(), Some("at least 1.20 USD, 7500 tokens"));
    }

    #[test]
    fn long_lists_and_long_lines_are_cut() {
        let items: Vec<String> = (1..=7).map(|number| format!("f{number}")).collect();
        assert_eq!(few(&items[..2]), "f1, f2");
        assert_eq!(few(&items), "f1, f2, f3, f4, f5 and 2 more");
        assert_eq!(headline(&"x".repeat(5_000)).chars().count(), LONGEST);
    }

    #[test]
    fn a_gate_is_told_by_its_last_line_and_how_it_ended() {
        let gist = |output: &str| {
            let staging = Oid::new("0".repeat(40)).unwrap();
            let (gate, command, output) = ("lint".to_string(), "lint".to_string(), output.to_string());
            gate_gist(&GateFailure { gate, command, output, staging, task: None })
        };
        assert_eq!(gist("first\nlast\n \x1b[0m\n\n[exit code 1]"), "last [exit code 1]");
        assert_eq!(gist("\n[exit code 1]"), "it printed nothing [exit code 1]");
        assert_eq!(gist("first\nlast"), "last");
        assert_eq!(gist(""), "it printed nothing");
    }

    #[test]
    fn lines_without_a_word_are_passed_over() {
        assert_eq!(headline("\x1b[0m\n  \nfirst\nlast"), "first");
        assert_eq!(headline(" \n"), "no reason was given");
    }
}
