//! The part of the prompt about one attempt at one task. It is never cut to the budget.

use std::fmt::Write as _;

use super::{CHARS_PER_TOKEN, PromptInput};
use crate::excerpt::with_key_lines;
use crate::markdown::{bound_text, code, embed, fenced, one_line, without_front_matter};
use crate::run::notes::TaskNote;
use crate::spec::TaskSpec;

/// Maximum characters each for the output of a failed attempt, a gate's output, a note and a rules file.
const MAX_REPORT_CHARS: usize = 8_000;

pub fn write(input: &PromptInput<'_>) -> String {
    let task = input.task;
    let mut text = format!("# Task: {}\n\n", one_line(&task.title));
    facts(&mut text, input);
    section(&mut text, "Description", task.description.as_deref());
    section(&mut text, "Context", task.context.as_deref());
    section(&mut text, "What to Do", task.action.as_deref());
    if let Some(interface) = task.interface.as_deref().filter(|interface| !interface.trim().is_empty()) {
        // Usually plain code, whose comments must not become headings.
        let body = if interface.contains("```") { embed(interface, 2) } else { fenced(interface, "") };
        push(&mut text, "Interface", &body);
    }
    files(&mut text, task);
    if !task.acceptance_criteria.is_empty() {
        let criteria: Vec<String> =
            task.acceptance_criteria.iter().map(|criterion| format!("- [ ] {}", one_line(criterion))).collect();
        push(&mut text, "Acceptance Criteria", &criteria.join("\n"));
    }
    section(&mut text, "Done When", task.done.as_deref());
    verification(&mut text, task);
    section(&mut text, "Security Requirements", task.security.as_deref());
    rules(&mut text, input);
    notes(&mut text, input);
    before(&mut text, input);
    fix(&mut text, input);
    text
}

fn facts(text: &mut String, input: &PromptInput<'_>) {
    let task = input.task;
    let _ = writeln!(text, "- **Task:** {}, level {}", code(&task.id), task.level);
    let _ = writeln!(
        text,
        "- **Attempt:** {} (after {} failed attempts, the user has to take over)",
        input.attempt, input.max_attempts
    );
    let _ = writeln!(text, "- **Worktree:** {}", code(input.worktree));
    if !input.ports.is_empty() {
        let ports: Vec<String> = input.ports.iter().map(u16::to_string).collect();
        let _ = writeln!(text, "- **Ports reserved for you:** {}", ports.join(", "));
    }
    text.push('\n');
}

fn files(text: &mut String, task: &TaskSpec) {
    let lists = [
        ("You create", &task.files.create),
        ("You modify", &task.files.modify),
        ("You read, and do not change", &task.files.read),
    ];
    let mut body = String::new();
    for (what, paths) in lists.into_iter().filter(|(_, paths)| !paths.is_empty()) {
        let _ = writeln!(body, "{what}:");
        for path in paths {
            let _ = writeln!(body, "- {}", code(path));
        }
        body.push('\n');
    }
    if task.files.create.is_empty() && task.files.modify.is_empty() {
        body.push_str("You change no files.");
    }
    push(text, "Files", body.trim_end());
}

fn verification(text: &mut String, task: &TaskSpec) {
    let verification = &task.verification;
    if verification.is_blank() {
        return;
    }
    let body = format!(
        "{}\n\nIt must exit with 0 within {} seconds. It runs with your changes to your own files only.",
        fenced(&verification.command, "sh"),
        verification.timeout_seconds
    );
    push(text, "Verification", &body);
}

fn rules(text: &mut String, input: &PromptInput<'_>) {
    if input.rules.is_empty() {
        return;
    }
    let budget = (input.budget_tokens as usize).saturating_mul(CHARS_PER_TOKEN).max(MAX_REPORT_CHARS);
    let (mut parts, mut left_out, mut used) = (Vec::new(), Vec::new(), 0);
    for rules in input.rules {
        let text = bound_text(without_front_matter(rules.text), MAX_REPORT_CHARS);
        let length = text.chars().count();
        if used + length > budget {
            left_out.push(code(rules.path));
        } else {
            used += length;
            parts.push(format!("From {}:\n\n{}", code(rules.path), embed(&text, 3)));
        }
    }
    if !left_out.is_empty() {
        parts.push(format!("Read these too; they were left out for length: {}", left_out.join(", ")));
    }
    push(text, "Project Security Rules", &parts.join("\n\n"));
}

/// Adds the user's notes, and the requests of other tasks' agents. They are bounded where they are accepted, so that none is cut here.
fn notes(text: &mut String, input: &PromptInput<'_>) {
    let (asked, answers): (Vec<&TaskNote>, Vec<&TaskNote>) = input.notes.iter().partition(|note| note.from.is_some());
    if !asked.is_empty() {
        let texts: Vec<&str> = asked.iter().map(|note| note.text.as_str()).collect();
        let body = format!(
            "Agents of other tasks ask for changes in your files. Consider them; your own task comes first:\n\n{}",
            fenced(&texts.join("\n"), "text")
        );
        push(text, "Requests from Other Tasks", &body);
    }
    if answers.is_empty() {
        return;
    }
    let mut body = "From the user who runs this build, and binding where it differs from the task above:".to_string();
    for note in answers {
        if let Some(question) = &note.question {
            let _ = write!(body, "\n\nAn earlier attempt asked:\n\n{}\n\nThe answer:", fenced(question, "text"));
        }
        let _ = write!(body, "\n\n{}", embed(&note.text, 2));
    }
    push(text, "The User's Answer", &body);
}

/// Describes what the previous attempts left behind.
fn before(text: &mut String, input: &PromptInput<'_>) {
    let report = |report: &str| fenced(&bound_text(report, MAX_REPORT_CHARS), "text");
    if let Some(feedback) = input.feedback {
        let body = format!(
            "Find out why before you change anything: repeating the same work would fail again. Its output:\n\n{}",
            report(feedback)
        );
        push(text, "The Previous Attempt Failed", &body);
    }
    if let Some(note) = input.note {
        let body = format!("It stopped at a checkpoint and left this note:\n\n{}", report(note));
        push(text, "Continue the Previous Attempt", &body);
    }
    if let Some(wip) = input.wip_ref {
        let body = if input.note.is_some() {
            format!("Its work is in your worktree as uncommitted changes, and saved as {}.", code(wip))
        } else {
            format!(
                "Its work was not verified and is not in your worktree. It is saved as {wip}: inspect it with \
                 {}, restore one of your files with {}, or start over.",
                code(&format!("git diff HEAD {wip}")),
                code(&format!("git restore --source={wip} -- <file>")),
                wip = code(wip),
            )
        };
        push(text, "Work in Progress", &body);
    }
}

fn fix(text: &mut String, input: &PromptInput<'_>) {
    let Some(failure) = input.fix else { return };
    let clean = match failure.clean {
        true => {
            " The gate ran in a clean checkout: files that git ignores and that earlier commands left are not there."
        }
        false => "",
    };
    let body = format!(
        "Your task was done and merged with the others of its level. Then this gate failed on the merged result, and the \
         failure was traced to your files:\n\n{}\n\nYour worktree contains the merged state. Fix the cause in the files that \
         you own, keep what works, and run the command again.{clean} Its output:\n\n{}",
        fenced(&failure.command, "sh"),
        fenced(&bound_text(&with_key_lines(&failure.output), MAX_REPORT_CHARS), "text"),
    );
    push(text, &format!("Fix the Gate {}", code(&failure.gate)), &body);
}

fn section(text: &mut String, heading: &str, body: Option<&str>) {
    let body = body.map(|body| embed(body, 2)).filter(|body| !body.is_empty());
    if let Some(body) = body {
        push(text, heading, &body);
    }
}

fn push(text: &mut String, heading: &str, body: &str) {
    let _ = writeln!(text, "## {heading}\n\n{body}\n");
}
