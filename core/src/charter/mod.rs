//! The charter of a new project: the user's answers about it, and the stack chosen from them.

mod answers;
mod names;
mod recommend;
mod stack;
#[cfg(test)]
mod tests;

pub use answers::{Answers, MAX_ANSWER};
pub use names::{MAX_DESCRIPTION, MAX_NAME, Names};
pub use recommend::{Recommendation, recommend};
pub use stack::{Framework, Kind, Language};

use crate::markdown;

/// A question that `init` asks about a new project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Key in the answers file.
    pub key: &'static str,
    pub text: &'static str,
    /// Used if the user gives no answer.
    pub default: &'static str,
    heading: &'static str,
}

pub const QUESTIONS: [Question; 7] = [
    Question {
        key: "problem",
        text: "Which problem does it solve?",
        default: "Not described yet; see the description above.",
        heading: "Problem",
    },
    Question { key: "users", text: "Who uses it, and how?", default: "Only its developers so far.", heading: "Users" },
    Question {
        key: "constraints",
        text: "What constrains it (technology, law, time, money)?",
        default: "None known.",
        heading: "Constraints",
    },
    Question {
        key: "integrations",
        text: "Which other systems does it work with?",
        default: "None.",
        heading: "Integrations",
    },
    Question {
        key: "performance",
        text: "How much load must it handle, and how fast?",
        default: "No special requirements.",
        heading: "Performance",
    },
    Question {
        key: "security",
        text: "What must be protected, and from whom?",
        default: "No secrets and no personal data; the rules in `.claude/rules/` apply.",
        heading: "Security",
    },
    Question {
        key: "deployment",
        text: "Where and how will it run?",
        default: "Not decided; it runs on the developers' machines.",
        heading: "Deployment",
    },
];

/// Content of `.gsd/PROJECT.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectCharter {
    pub names: Names,
    /// One for each of `QUESTIONS`.
    pub answers: [String; QUESTIONS.len()],
    pub framework: Framework,
    /// Reasons for the language and the framework.
    pub reasons: Vec<String>,
}

impl ProjectCharter {
    pub fn markdown(&self) -> String {
        let mut text = format!("# Project: {}\n\n{}\n", self.names.title(), as_text(self.names.description()));
        for (question, answer) in QUESTIONS.iter().zip(&self.answers) {
            text.push_str(&format!("\n## {}\n{}\n", question.heading, as_text(answer)));
        }
        let language = self.framework.language();
        text.push_str(&format!(
            "\n## Technology\n- **Language:** {}\n- **Framework:** {} ({})\n\nWhy:\n",
            language.title(),
            self.framework.title(),
            self.framework.kind().title()
        ));
        for reason in &self.reasons {
            text.push_str(&format!("- {}\n", markdown::one_line(reason)));
        }
        text
    }
}

/// Embeds the user's text unchanged, except that its headings are escaped so that they open no section.
fn as_text(words: &str) -> String {
    let line = |line: &str| {
        let opens_section = line.trim_start().starts_with('#') || is_underline(line);
        let line: String = line.trim_end().chars().filter(|c| !c.is_control() || *c == '\t').collect();
        if opens_section { format!("\\{}", line.trim_start()) } else { line }
    };
    // Closes a code fence that was left open, which would swallow the rest of the document.
    markdown::embed(&words.trim().lines().map(line).collect::<Vec<_>>().join("\n"), 0)
}

/// Returns true for an underline, which makes the line above it a heading.
fn is_underline(line: &str) -> bool {
    let line = line.trim();
    ['=', '-'].iter().any(|mark| !line.is_empty() && line.chars().all(|c| c == *mark))
}
