//! What a new project is to be: the answers of its founder, and what follows from them.

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

use crate::prompt::markdown;

/// Something that the founder is asked, in the order in which it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// In the file of answers.
    pub key: &'static str,
    pub text: &'static str,
    /// What holds where nothing is said.
    pub default: &'static str,
    heading: &'static str,
}

pub const QUESTIONS: [Question; 7] = [
    Question {
        key: "problem",
        text: "Which problem does it solve?",
        default: "To be described; see the description above.",
        heading: "Problem",
    },
    Question {
        key: "users",
        text: "Who uses it, and how?",
        default: "The people who build it, until others are named.",
        heading: "Users",
    },
    Question {
        key: "constraints",
        text: "What constrains it (technology, law, time, money)?",
        default: "None are known.",
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
        text: "How much must it carry, and how fast?",
        default: "No special demands.",
        heading: "Performance",
    },
    Question {
        key: "security",
        text: "What must be protected, and from whom?",
        default: "No secrets and no personal data; the rules in `.claude/rules/` hold.",
        heading: "Security",
    },
    Question {
        key: "deployment",
        text: "Where and how will it run?",
        default: "Not decided; it runs on the machines of those who build it.",
        heading: "Deployment",
    },
];

/// Everything that `.gsd/PROJECT.md` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectCharter {
    pub names: Names,
    /// One for each of `QUESTIONS`.
    pub answers: [String; QUESTIONS.len()],
    pub framework: Framework,
    /// Why this language and framework.
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

/// Somebody's words as they are, except that no line of them opens a section of the document.
fn as_text(words: &str) -> String {
    let line = |line: &str| {
        let opens_section = line.trim_start().starts_with('#') || is_underline(line);
        let line: String = line.trim_end().chars().filter(|c| !c.is_control() || *c == '\t').collect();
        if opens_section { format!("\\{}", line.trim_start()) } else { line }
    };
    // A fence that is left open would take in what follows.
    markdown::embed(&words.trim().lines().map(line).collect::<Vec<_>>().join("\n"), 0)
}

/// Makes a heading of the line above.
fn is_underline(line: &str) -> bool {
    let line = line.trim();
    ['=', '-'].iter().any(|mark| !line.is_empty() && line.chars().all(|c| c == *mark))
}
