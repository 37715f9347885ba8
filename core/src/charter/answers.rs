//! Parses the answers file of `init --answers`, which is YAML (or JSON, since that is a subset).

use super::QUESTIONS;
use crate::config::{ConfigProblem, read, yaml};

/// Maximum length of an answer in characters; short enough to fit in a prompt.
pub const MAX_ANSWER: usize = 4000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    pub name: Option<String>,
    pub description: Option<String>,
    pub language: Option<String>,
    pub framework: Option<String>,
    /// One for each of `QUESTIONS`.
    pub questions: [Option<String>; QUESTIONS.len()],
}

impl Answers {
    /// Parses the file. The error lists every problem, in the order of the file.
    pub fn parse(text: &str) -> Result<Answers, Vec<ConfigProblem>> {
        let document = yaml::parse(text)
            .map_err(|error| vec![ConfigProblem { at: error.at, key: String::new(), message: error.message }])?;
        let mut problems = Vec::new();
        let answers = read::document(document.as_deref(), &mut problems, |root| {
            let mut answer = |key| root.text(key);
            Answers {
                name: answer("name"),
                description: answer("description"),
                language: answer("language"),
                framework: answer("framework"),
                questions: QUESTIONS.map(|question| answer(question.key)),
            }
        });
        for (question, answer) in QUESTIONS.iter().zip(&answers.questions) {
            if answer.as_ref().is_some_and(|answer| answer.chars().count() > MAX_ANSWER) {
                let message = format!("{} has more than {MAX_ANSWER} characters", question.key);
                problems.push(ConfigProblem { at: None, key: question.key.to_owned(), message });
            }
        }
        if problems.is_empty() {
            return Ok(answers);
        }
        problems.sort_by_key(|problem| problem.at);
        Err(problems)
    }
}
