//! Refuses tasks that ask to switch off checks: a verification that cannot fail, or text that tells the worker to skip
//! one. Narrow on purpose: a feature may itself be about checks that users switch off.

use super::Severity::Error;
use super::report::{Report, shown};
use crate::spec::{GraphFile, TaskSpec};

/// Ends of a command that make it succeed whatever happened before.
const ALWAYS_TRUE: [&str; 6] = ["|| true", "|| :", "|| exit 0", "; true", "; :", "; exit 0"];

const VERBS: [&str; 12] = [
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
    "turn off",
    "switch off",
];
/// Verbs that count only before failing checks: a feature may delete gates or the results of scans.
const DELETING: [&str; 6] = ["delete", "deleting", "remove", "removing", "comment out", "commenting out"];
const FAILING_CHECKS: [&str; 4] = ["failing test", "failing tests", "failing check", "failing checks"];
/// Checks whose names mean nothing else.
const CHECKS: [&str; 17] = [
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
/// Guards only right before the verb: "Avoid a crash by deleting failing tests" is an instruction.
const NEAR_GUARDS: [&[&str]; 4] = [&["instead", "of"], &["rather", "than"], &["avoid"], &["avoids"]];
/// Words that may be between such a guard and the verb.
const FILLERS: [&str; 5] = ["just", "merely", "only", "simply", "to"];

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
        let object_of =
            |verbs: &[&str]| verbs.iter().find_map(|verb| rest_after(&words[at..], verb)).map(skip_articles);
        let is_order = object_of(&VERBS).is_some_and(names_check) || object_of(&DELETING).is_some_and(names_failing);
        is_order && !is_guarded(&words[..at])
    })
}

/// Tells whether the words before a verb show that the sentence is not an instruction to the worker.
fn is_guarded(before: &[&str]) -> bool {
    let near = &before[before.len().saturating_sub(MAX_GUARD_DISTANCE)..];
    let fillers = before.iter().rev().take_while(|word| FILLERS.contains(*word)).count();
    let right_before = &before[..before.len() - fillers];
    near.iter().any(|word| GUARDS.contains(word)) || NEAR_GUARDS.iter().any(|guard| right_before.ends_with(guard))
}

fn skip_articles<'w, 't>(words: &'w [&'t str]) -> &'w [&'t str] {
    let articles = words.iter().take_while(|word| ["the", "all", "any", "its", "our", "this"].contains(*word)).count();
    &words[articles..]
}

fn names_failing(words: &[&str]) -> bool {
    FAILING_CHECKS.iter().any(|name| starts_with(words, name))
}

fn names_check(words: &[&str]) -> bool {
    names_failing(words)
        || CHECKS.iter().any(|name| starts_with(words, name))
        || PLAIN_CHECKS
            .iter()
            .filter_map(|name| rest_after(words, name))
            .any(|rest| rest.is_empty() || OF_THIS_TASK.iter().any(|end| starts_with(rest, end)))
}

/// Returns the words after a phrase if they begin with it.
fn rest_after<'w, 't>(words: &'w [&'t str], phrase: &str) -> Option<&'w [&'t str]> {
    phrase.split(' ').try_fold(words, |words, part| match words {
        [first, rest @ ..] if *first == part => Some(rest),
        _ => None,
    })
}

fn starts_with(words: &[&str], phrase: &str) -> bool {
    rest_after(words, phrase).is_some()
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
            "Make it pass by removing failing tests.",
            "Make CI green by commenting out failing tests.",
            "Delete all failing checks",
            "Avoid red builds by deleting failing tests.",
            "Instead, remove the failing tests.",
            "Instead of fixing it, skip the security gate.",
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
            "Fix the cause instead of deleting failing tests.",
            "Fix the cause instead of just skipping failing tests.",
            "Fix the code rather than remove failing tests.",
            "Avoid deleting failing tests.",
            "Add an endpoint to delete gates.",
            "Implement deleting security scan results older than 30 days.",
        ] {
            assert_eq!(order_in(text), None, "{text}");
        }
    }
}
