//! Writes the document that the user reads and approves.

use std::fmt::Write;

use super::{Requirements, Story};
use crate::markdown::{Fence, fenced, heading, one_line, title_line};

impl Requirements {
    pub fn to_markdown(&self) -> String {
        let mut text = format!("# Feature: {}\n\n## Problem Statement\n", title_line(&self.feature));
        push_prose(&mut text, &self.problem);
        text.push_str("\n## User Stories\n");
        for (index, story) in self.stories.iter().enumerate() {
            push_story(&mut text, index + 1, story);
        }
        for (name, items) in [
            ("Constraints", &self.constraints),
            ("Out of Scope", &self.out_of_scope),
            ("Dependencies", &self.dependencies),
        ] {
            let _ = writeln!(text, "\n## {name}");
            push_items(&mut text, "-", items, "- none\n");
        }
        if !self.open_questions.is_empty() {
            text.push_str("\n## Open Questions\n");
            push_items(&mut text, "-", &self.open_questions, "");
        }
        for (title, note) in &self.notes {
            let _ = writeln!(text, "\n## {}", title_line(title));
            push_prose(&mut text, note);
        }
        text
    }
}

fn push_story(text: &mut String, number: usize, story: &Story) {
    let _ = writeln!(text, "\n### Story {number}: {}", title_line(&story.title));
    for (label, value) in [("As a", &story.role), ("I want", &story.capability), ("So that", &story.benefit)] {
        if !value.trim().is_empty() {
            let _ = writeln!(text, "**{label}** {}", one_line(value));
        }
    }
    if !story.text.is_empty() {
        text.push('\n');
        push_prose(text, &story.text);
    }
    text.push_str("\n**Acceptance Criteria:**\n");
    push_items(text, "- [ ]", &story.criteria, "");
    let _ = writeln!(text, "\n**Verification:**\n{}", fenced(story.verification.trim_end(), "bash"));
}

fn push_items(text: &mut String, mark: &str, items: &[String], none: &str) {
    let mut lines = items.iter().map(|item| one_line(item)).filter(|item| !item.is_empty()).peekable();
    if lines.peek().is_none() {
        text.push_str(none);
    }
    for line in lines {
        let _ = writeln!(text, "{mark} {line}");
    }
}

/// Writes text that cannot leave its section: headings are escaped, and an open fence is closed.
fn push_prose(text: &mut String, prose: &str) {
    let mut fence = Fence::default();
    for line in prose.trim_matches('\n').lines() {
        let inside = fence.is_open();
        fence.read(line);
        if !inside && heading(line).is_some_and(|(level, _)| level <= 3) {
            text.push('\\');
        }
        let line = if inside { line } else { line.trim_end() };
        let _ = writeln!(text, "{}", if text.ends_with('\\') { line.trim_start() } else { line });
    }
    if let Some(end) = fence.end() {
        let _ = writeln!(text, "{end}");
    }
}
