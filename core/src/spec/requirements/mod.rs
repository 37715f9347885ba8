//! `requirements.md`: what a feature is for, and how to tell that it is complete.

mod check;
mod read;
#[cfg(test)]
mod tests;
mod write;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use check::Gap;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requirements {
    pub feature: String,
    pub problem: String,
    pub stories: Vec<Story>,
    pub constraints: Vec<String>,
    pub out_of_scope: Vec<String>,
    pub dependencies: Vec<String>,
    /// Questions without an answer so far.
    pub open_questions: Vec<String>,
    /// The user's own sections: heading and text.
    #[serde(skip)]
    pub notes: Vec<(String, String)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Story {
    /// For example `{Actor} can {action}`.
    pub title: String,
    pub role: String,
    pub capability: String,
    pub benefit: String,
    pub criteria: Vec<String>,
    /// The command that verifies the story.
    pub verification: String,
    /// Other text in the story.
    #[serde(skip)]
    pub text: String,
}

/// An acceptance criterion with the id that tasks refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Criterion<'a> {
    /// `AC-<story>.<criterion>`, both counted from 1.
    pub id: String,
    pub text: &'a str,
}

impl Requirements {
    pub fn criteria(&self) -> impl Iterator<Item = Criterion<'_>> {
        let stories = self.stories.iter().enumerate();
        stories.flat_map(|(story, it)| {
            it.criteria.iter().enumerate().map(move |(index, text)| Criterion { id: criterion_id(story, index), text })
        })
    }

    /// Takes over what an agent's answer cannot contain: the user's own sections, and other text in a story.
    pub fn keep_notes_from(&mut self, before: Requirements) {
        for story in &mut self.stories {
            if let Some(old) = before.stories.iter().find(|old| old.title == story.title) {
                story.text.clone_from(&old.text);
            }
        }
        self.notes = before.notes;
    }

    /// Returns a template for the user to fill in.
    pub fn template(feature: &str, description: &str) -> Requirements {
        let [problem, title, role, capability, benefit, criterion, another, command, constraint, excluded, dependency] =
            PLACEHOLDERS.map(str::to_owned);
        let described = description.trim();
        Requirements {
            feature: feature.to_owned(),
            problem: if described.is_empty() { problem } else { described.to_owned() },
            stories: vec![Story {
                title,
                role,
                capability,
                benefit,
                criteria: vec![criterion, another],
                verification: command,
                text: String::new(),
            }],
            constraints: vec![constraint],
            out_of_scope: vec![excluded],
            dependencies: vec![dependency],
            ..Requirements::default()
        }
    }

    /// Returns the JSON schema of an answer that can be read as requirements.
    pub fn schema() -> Value {
        let text = |description: &str| json!({ "type": "string", "description": description });
        let list =
            |description: &str| json!({ "type": "array", "items": { "type": "string" }, "description": description });
        json!({
            "type": "object",
            "required": ["problem", "stories"],
            "properties": {
                "problem": text("Why this feature exists and which need it addresses"),
                "stories": { "type": "array", "items": {
                    "type": "object",
                    "required": ["title", "role", "capability", "benefit", "criteria", "verification"],
                    "properties": {
                        "title": text("{Actor} can {action}"),
                        "role": text("As a …"),
                        "capability": text("I want …"),
                        "benefit": text("So that …"),
                        "criteria": list("Acceptance criteria: each specific and measurable, one line"),
                        "verification": text("A shell command that returns 0 exactly when the story is complete"),
                    },
                } },
                "constraints": list("Technical and business constraints"),
                "out_of_scope": list("What is explicitly excluded"),
                "dependencies": list("Systems or features that this depends on"),
                "open_questions": list("What is still unclear"),
            },
        })
    }
}

fn criterion_id(story: usize, criterion: usize) -> String {
    format!("AC-{}.{}", story + 1, criterion + 1)
}

/// Placeholders in the template.
const PLACEHOLDERS: [&str; 11] = [
    "{Why this feature exists. What user need it addresses.}",
    "{Actor} can {action}",
    "{role}",
    "{capability}",
    "{benefit}",
    "{Specific, measurable criterion}",
    "{Another criterion}",
    "{Command that proves this story is complete}",
    "{Technical or business constraint}",
    "{Explicitly excluded functionality}",
    "{External system or feature this depends on}",
];
