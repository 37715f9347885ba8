//! Small text helpers that several reports share.

use std::collections::BTreeSet;
use std::time::Duration;

use mahabharatha_core::config::Isolation;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::excerpt;
use mahabharatha_core::graph::TaskGraph;
use mahabharatha_core::ids::{Feature, TaskId, Time};
use mahabharatha_core::run::event::{FailCause, GateFailure};
use mahabharatha_core::view::{AttemptView, RunView, TaskView};
use mahabharatha_sys::ui::{clean, fit, one_line};

/// Most columns of a line that quotes untrusted text.
const MAX_COLUMNS: usize = 200;

/// Formats a number with its noun: `1 task`, `2 tasks`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

pub fn has_or_have(number: usize) -> &'static str {
    if number == 1 { "has" } else { "have" }
}

/// Begins a text with a capital letter.
pub fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", rest.as_str())
}

/// Formats the size of a graph: `3 tasks on 2 levels`.
pub fn graph_size(graph: &TaskGraph) -> String {
    format!("{} on {}", count(graph.tasks().len(), "task"), count(graph.levels().len(), "level"))
}

/// Formats a cost: `1.20 USD`, `at least 1.20 USD` if a part is unknown, or `unknown`.
pub fn amount(cost: Cost) -> String {
    match (cost.usd(), cost.known_usd()) {
        (Some(usd), _) => format!("{usd:.2} USD"),
        (None, 0.0) => "unknown".to_string(),
        (None, known) => format!("at least {known:.2} USD"),
    }
}

/// Formats a cost with tokens: `1.20 USD, 7500 tokens`; `None` if it is zero.
pub fn cost_fact(cost: Cost) -> Option<String> {
    match cost.tokens() {
        _ if cost.is_zero() => None,
        0 => Some(amount(cost)),
        tokens => Some(format!("{}, {}", amount(cost), count(tokens as usize, "token"))),
    }
}

/// Formats a cost like `cost_fact`, but for the middle of a sentence: `cost unknown`.
pub fn cost_phrase(cost: Cost) -> Option<String> {
    cost_fact(cost).map(|fact| in_sentence(cost, fact))
}

/// Formats a cost like `cost_phrase`, without the tokens.
pub fn usd_phrase(cost: Cost) -> Option<String> {
    (cost.usd() != Some(0.0)).then(|| in_sentence(cost, amount(cost)))
}

fn in_sentence(cost: Cost, fact: String) -> String {
    if cost.usd().is_none() && cost.known_usd() == 0.0 { format!("cost {fact}") } else { fact }
}

/// Formats the cost of the feature, and the part of it that planning cost.
pub fn feature_cost(view: &RunView) -> Option<String> {
    let planning = cost_fact(view.planning).map(|planning| format!(" (planning: {planning})"));
    Some(format!("{}{}", cost_fact(view.cost)?, planning.unwrap_or_default()))
}

/// Describes how an attempt ended, as the end of a sentence that begins with its task.
pub fn outcome(outcome: &str, cause: Option<FailCause>) -> &'static str {
    match (outcome, cause) {
        ("running", _) => "is under way",
        ("done", _) => "was done",
        ("checkpoint", _) => "stopped at a checkpoint",
        ("blocked", _) => "is blocked",
        ("escalated", _) => "asks the user to decide",
        ("died", _) => "ended without a result: its worker died",
        ("unserved", _) => "was not served",
        ("setup_failed", _) => "was not begun: its worktree could not be set up",
        ("cancelled", _) => "was cancelled",
        (_, Some(FailCause::Strays)) => "changed what it does not own",
        (_, Some(FailCause::Missing)) => "did not make a file that it should have made",
        (_, Some(FailCause::Unchanged)) => "changed nothing, though it was to fix something",
        (_, Some(FailCause::Verification)) => "failed its verification",
        (_, Some(FailCause::Secrets)) => "would commit what looks like a secret",
        (_, Some(FailCause::Timeout)) => "ran out of time",
        (_, Some(FailCause::Stalled)) => "stalled: no output and no change",
        (_, Some(FailCause::Setup)) => "could not be carried out",
        (_, Some(FailCause::Agent) | None) => "failed: its agent ended with an error",
    }
}

/// Returns the first paragraph, which summarizes a reason or a report, as one line.
pub fn headline(text: &str) -> String {
    let summary = one_line(&excerpt::summary(text));
    fit(if summary.is_empty() { "no reason was given" } else { &summary }, MAX_COLUMNS)
}

/// Returns the key line of a gate's output and how the gate ended, as one line.
pub fn gate_gist(failure: &GateFailure) -> String {
    let (output, end) = failure.output_and_end();
    let end = end.map(|end| format!(" {end}")).unwrap_or_default();
    let line = excerpt::key_line(output).map(|line| one_line(&line));
    format!("{}{}", fit(line.as_deref().unwrap_or("it printed nothing"), MAX_COLUMNS), end)
}

/// Returns a report without the summary that it begins with.
pub fn body_of(report: &str) -> &str {
    report.trim_start().split_once("\n\n").map_or("", |(_, body)| body)
}

/// Returns the key lines of a failed attempt's report, without the summary; empty if it is only a summary.
pub fn report_lines(report: &str, max: usize) -> Vec<String> {
    excerpt::key_lines(body_of(report), max)
        .0
        .iter()
        .map(|line| fit(&clean(line).replace('\t', "    "), MAX_COLUMNS))
        .collect()
}

/// Returns the command that shows a gate's output.
pub fn gate_logs(feature: &Feature, gate: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let gate = if gate.chars().all(plain) { gate.to_string() } else { format!("'{}'", gate.replace('\'', "'\\''")) };
    format!("`mahabharatha logs -f {feature} --gate {gate}`")
}

/// Returns the total duration of a task's attempts until now.
pub fn worked(view: &RunView, task: &TaskView, now: Time) -> Duration {
    task.attempts.iter().map(|attempt| attempt_took(view, attempt, now)).sum()
}

pub fn attempt_took(view: &RunView, attempt: &AttemptView, now: Time) -> Duration {
    let since = if attempt.outcome == "running" { view.since_elapsed(now) } else { Duration::ZERO };
    attempt.elapsed + since
}

/// Formats a list: `a, b and 3 more`.
pub fn few(items: &[String]) -> String {
    excerpt::few(&items.iter().map(|item| fit(&one_line(item), MAX_COLUMNS)).collect::<Vec<_>>())
}

pub fn blocked_tasks(view: &RunView) -> BTreeSet<&TaskId> {
    view.tasks.iter().filter(|task| task.status == "blocked").map(|task| &task.id).collect()
}

/// Formats the number of tasks by status: `3 of 8 completed, 1 blocked`.
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

/// Returns the reason for a task's status, if the status needs one.
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

/// Names the sandbox that is in force.
pub fn sandbox_phrase(isolation: Isolation) -> String {
    match isolation {
        Isolation::Off => "no sandbox".to_owned(),
        isolation => format!("sandbox {isolation}"),
    }
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::ids::Oid;

    use super::*;

    #[test]
    fn unknown_cost_is_not_shown_as_zero() {
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
        assert_eq!(headline(&"x".repeat(5_000)).chars().count(), MAX_COLUMNS);
    }

    #[test]
    fn the_gist_of_a_gate_is_its_key_line_and_end() {
        let gist = |output: &str| {
            let staging = Oid::new("0".repeat(40)).unwrap();
            let (gate, command, output) = ("lint".to_string(), "lint".to_string(), output.to_string());
            gate_gist(&GateFailure {
                gate,
                command,
                output,
                cause: None,
                denied: false,
                staging,
                task: None,
                clean: false,
            })
        };
        assert_eq!(gist("first\nlast\n \x1b[0m\n\n[exit code 1]"), "first; last [exit code 1]");
        assert_eq!(gist("\n[exit code 1]"), "it printed nothing [exit code 1]");
        assert_eq!(gist("error: no x\n\ncompiled\n[exit code 1]"), "error: no x [exit code 1]");
        assert_eq!(gist("first\nlast"), "first; last");
        assert_eq!(gist(""), "it printed nothing");
    }

    #[test]
    fn the_headline_is_the_first_paragraph() {
        assert_eq!(headline("\x1b[0m\n  \nfirst\nline\n\nlast"), "first line");
        assert_eq!(headline(" \n"), "no reason was given");
    }
}
