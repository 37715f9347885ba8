//! Refuses tasks that ask to switch off checks: a verification that cannot fail, or text that tells the worker to skip
//! one. Narrow on purpose: a feature may itself be about checks that users switch off.

use super::Severity::Error;
use super::report::{Report, shown};
use crate::spec::{GraphFile, TaskSpec};

/// Ends of a command that make it succeed whatever happened before.
const ALWAYS_TRUE: [&str; 6] = ["|| true", "|| :", "|| exit 0", "; true", "; :", "; exit 0"];

const VERBS: [&str; 16] = [
    "disable",
    "disabling",
    "skip",
    "skipping",
    "bypass",
    "bypassing",
    "deactivate",
    "circumvent",
    "suppress",
    "ignore",
    "delete",
    "deleting",
    "remove",
    "comment out",
    "turn off",
    "switch off",
];
/// Checks whose names mean nothing else.
const CHECKS: [&str; 20] = [
    "failing test",
    "failing tests",
    "failing checks",
    "security gate",
    "security gates",
    "quality gate",
    "quality gates",
    "secret scan",
    "secret scanning",
    "secret scanner",
    "security scan",
    "security scanner",
    "security linter",
    "security linters",
    "semgrep",
    "gitleaks",
    "pip-audit",
    "npm audit",
    "cargo audit",
    "cargo deny",
];
/// Checks whose names also have other meanings: they count only at the end of a sentence or before "of this task".
const PLAIN_CHECKS: [&str; 6] =
    ["verification", "verification command", "gates", "security checks", "static analysis", "ownership check"];
const OF_THIS_TASK: [&str; 4] = ["of this task", "for this task", "of the task", "for the task"];
/// Words before the verb that show that the sentence is not an instruction to the worker.
const GUARDS: [&str; 27] = [
    "not", "never", "no", "without", "cannot", "can't", "don't", "doesn't", "nobody", "how", "whether", "if", "when",
    "option", "flag", "setting", "ability", "allow", "allows", "let", "lets", "users", "user", "refuse", "refuses",
    "prevent", "reject",
];
/// Number of words before the verb that are searched for a guard.
const MAX_GUARD_DISTANCE: usize = 4;

pub(super) fn check(report: &mut Report, file: &GraphFile) {
    for (index, task) in file.tasks.iter().enumerate() {
        let command = task.verification.command.trim_end();
        if let Some(end) = ALWAYS_TRUE.iter().find(|end| command.ends_with(**end)) {
            let message = format!("the verification ends with `{end}`, so it cannot fail");
            report.task(Error, "disables_checks", index, message);
        }
        if let Some((field, sentence)) = texts(task).find_map(|(field, text)| Some((field, order_in(text)?))) {
            let message = format!("`{field}` asks the worker to switch off a check: {}", shown(&sentence));
            report.task(Error, "disables_checks", index, message);
        }
    }
}

fn texts(task: &TaskSpec) -> impl Iterator<Item = (&'static str, &str)> {
    let fields = [
        ("title", Some(&task.title)),
        ("description", task.description.as_ref()),
        ("context", task.context.as_ref()),
        ("action", task.action.as_ref()),
        ("done", task.done.as_ref()),
        ("security", task.security.as_ref()),
    ];
    let criteria = task.acceptance_criteria.iter().map(|text| ("acceptance criteria", text.as_str()));
    fields.into_iter().filter_map(|(field, text)| Some((field, text?.as_str()))).chain(criteria)
}

/// Returns the first sentence that tells the reader to switch off a check.
fn order_in(text: &str) -> Option<String> {
    // A period without a space after it, as in a file name, does not end a sentence.
    let text = text.replace(". ", "\n").replace(['!', '?', ';'], "\n");
    text.lines().find(|sentence| is_order(sentence)).map(|sentence| sentence.trim().to_owned())
}

fn is_order(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '\'' | '_');
    let words: Vec<&str> = lower.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
    (0..words.len()).any(|at| {
        let Some(verb) = VERBS.iter().find(|verb| starts_with(&words[at..], verb)) else { return false };
        let before = &words[at.saturating_sub(MAX_GUARD_DISTANCE)..at];
        !before.iter().any(|word| GUARDS.contains(word)) && names_check(&words[at + verb.split(' ').count()..])
    })
}

fn names_check(words: &[&str]) -> bool {
    let articles = words.iter().take_while(|word| ["the", "all", "any", "its", "our", "this"].contains(*word)).count();
    let words = &words[articles..];
    let rest_after = |name: &str| starts_with(words, name).then(|| &words[name.split(' ').count()..]);
    CHECKS.iter().any(|name| rest_after(name).is_some())
        || PLAIN_CHECKS
            .iter()
            .filter_map(|name| rest_after(name))
            .any(|rest| rest.is_empty() || OF_THIS_TASK.iter().any(|end| starts_with(rest, end)))
}

/// Tells whether the words begin with those of a phrase.
fn starts_with(words: &[&str], phrase: &str) -> bool {
    let mut words = words.iter();
    phrase.split(' ').all(|part| words.next() == Some(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_to_switch_off_checks_are_recognised() {
        for text in [
            "Disable the security gate.",
            "Write the parser. Then skip verification.",
            "skip the verification command for this task",
            "Turn off semgrep until it is done",
            "You may bypass all quality gates!",
            "Make it pass by disabling gitleaks in CI",
            "- ignore the secret scan",
            "Comment out the failing tests.",
        ] {
            assert!(order_in(text).is_some(), "{text}");
        }
    }

    #[test]
    fn features_about_checks_and_verifications_are_not() {
        for text in [
            "Skip verification emails for returning customers.",
            "Users can disable verification of their phone number.",
            "Add a flag to skip semgrep in forks.",
            "Never disable the security gate.",
            "Document how to turn off static analysis.",
            "The worker must not bypass the quality gates.",
            "Run semgrep and gitleaks; verification must pass.",
            "Skip invalid rows. Verification follows in the next task.",
            "Disable the button while the security checks of the bank run.",
            "Refuse requests that bypass the gates",
            "ignore static analysis results older than a day",
            "Remove tests of the old parser.",
        ] {
            assert_eq!(order_in(text), None, "{text}");
        }
    }
}
