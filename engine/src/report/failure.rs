//! Failure analysis of a blocked task: the body of `## Failure Analysis` in its task file.

use mahabharatha_core::view::{AttemptView, TaskView};
use mahabharatha_sys::project::wip_ref;

use super::human_duration;
use super::markdown::{block, code, inline};
use super::text::{count, headline, outcome};

pub fn failure_analysis(feature: &str, task: &TaskView) -> String {
    let reason = task.reason.as_deref().map(headline).unwrap_or_default();
    let mut text = format!("Blocked after {}: {}\n", count(task.attempts.len(), "attempt"), inline(&reason));
    for attempt in &task.attempts {
        text.push_str(&about_attempt(feature, task, attempt));
    }
    text.push_str(&what_next(feature, task));
    text
}

fn about_attempt(feature: &str, task: &TaskView, attempt: &AttemptView) -> String {
    let mut text = format!("\n### Attempt {}: {}\n\n", attempt.attempt, outcome(attempt.outcome, attempt.cause));
    let took = attempt.ended_at.map(|_| format!(", {}", human_duration(attempt.elapsed)));
    let took = took.unwrap_or_default();
    text.push_str(&format!("- Started {} on worker {}{took}\n", attempt.started_at.0, attempt.worker));
    for stray in &attempt.strays {
        text.push_str(&format!("- Changed without owning it: {}\n", code(stray)));
    }
    for warning in &attempt.warnings {
        text.push_str(&format!("- {}\n", inline(warning)));
    }
    if let Some(wip) = &attempt.wip {
        let kept = wip_ref(feature, task.id.as_str(), attempt.attempt);
        text.push_str(&format!("- Its work is kept: {} ({})\n", code(&kept), wip.short()));
    }
    match &attempt.detail {
        Some(detail) if !detail.trim().is_empty() => text.push_str(&format!("\n{}", block(detail))),
        _ => {}
    }
    text
}

fn what_next(feature: &str, task: &TaskView) -> String {
    let id = &task.id;
    let mut text = String::from("\n### What to do next\n\n");
    if let Some(kept) = task.attempts.iter().rev().find(|attempt| attempt.wip.is_some()) {
        let show = format!("git show {}", wip_ref(feature, task.id.as_str(), kept.attempt));
        text.push_str(&format!("- See how far it came: {}\n", code(&show)));
    }
    text.push_str(&match task.question {
        Some(_) => {
            format!("- Answer it (`mahabharatha status {feature}` names the command): `mahabharatha retry -f {feature} {id} --note \"…\"`\n")
        }
        None => format!(
            "- Fix the cause (the spec, a task that it needs, the environment), then `mahabharatha retry -f {feature} {id}`\n"
        ),
    });
    text.push_str(&format!(
        "- Or go on without it and what needs it: `mahabharatha skip -f {feature} {id} --reason TEXT`\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::run::Event;
    use mahabharatha_core::run::event::FailCause;

    use super::super::support::{Story, failed};
    use super::*;

    #[test]
    fn each_attempt_is_shown_with_its_output() {
        let mut story = Story::unattended();
        story.after(2.0).base_is_green().starts("TASK-001").after(12.0);
        story.ends("TASK-001", failed(FailCause::Strays, "Undo these:\n```\nsrc/b.rs", &["src/b.rs", "a `b`.rs"]));
        story.after(5.0).happens(Event::Woke).after(4.0);
        story.ends("TASK-001", failed(FailCause::Verification, "\x1b[31mFAILED\x1b[0m\n## Not a heading", &[]));
        story.after(10.0).happens(Event::Woke).after(4.0);
        story.ends("TASK-001", failed(FailCause::Timeout, " \n", &[]));
        let view = story.view();
        let text = failure_analysis(&view.feature, &view.tasks[0]);
        insta::assert_snapshot!(text);
    }
}
