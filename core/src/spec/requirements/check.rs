//! Finds what is missing before the requirements can be approved.

use serde::Serialize;

use super::{PLACEHOLDERS, Requirements, Story, criterion_id};
use crate::severity::Severity;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Stable identifier for programs.
    pub code: &'static str,
    /// An error prevents approval.
    pub severity: Severity,
    /// `Story 1`, or the id of a criterion.
    #[serde(rename = "where")]
    pub place: Option<String>,
    pub message: String,
}

/// Words that cannot be measured.
const VAGUE: [&str; 30] = [
    "fast",
    "faster",
    "quick",
    "quickly",
    "slow",
    "easy",
    "easily",
    "simple",
    "simply",
    "intuitive",
    "intuitively",
    "friendly",
    "nice",
    "nicely",
    "good",
    "better",
    "robust",
    "reliable",
    "reliably",
    "efficient",
    "efficiently",
    "scalable",
    "appropriate",
    "appropriately",
    "adequate",
    "reasonable",
    "properly",
    "correctly",
    "seamless",
    "seamlessly",
];
const VAGUE_PHRASES: [&str; 5] = ["as expected", "and so on", "etc", "works well", "state of the art"];

impl Requirements {
    pub fn check(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut push = |code, severity, place: Option<String>, message: String| {
            gaps.push(Gap { code, severity, place, message });
        };
        if self.problem.trim().is_empty() {
            let message = "there is no problem statement; describe why the feature is needed".to_owned();
            push("no_problem", Severity::Error, None, message);
        }
        if self.stories.is_empty() {
            let message = "there is no user story, so nothing says when the feature is done".to_owned();
            push("no_stories", Severity::Error, None, message);
        }
        for (index, story) in self.stories.iter().enumerate() {
            check_story(index, story, &mut push);
        }
        for placeholder in
            PLACEHOLDERS.iter().filter(|placeholder| self.all_texts().any(|text| text.contains(**placeholder)))
        {
            push("placeholder", Severity::Error, None, format!("the placeholder {placeholder} is not filled in"));
        }
        for question in &self.open_questions {
            push("open_question", Severity::Warning, None, format!("unanswered question: {question}"));
        }
        gaps
    }

    fn all_texts(&self) -> impl Iterator<Item = &str> {
        let lists = [&self.constraints, &self.out_of_scope, &self.dependencies];
        let stories = self.stories.iter().flat_map(|story| {
            let fields = [&story.title, &story.role, &story.capability, &story.benefit, &story.verification];
            fields.into_iter().chain(&story.criteria)
        });
        std::iter::once(&self.problem).chain(stories).chain(lists.into_iter().flatten()).map(String::as_str)
    }
}

fn check_story(index: usize, story: &Story, push: &mut impl FnMut(&'static str, Severity, Option<String>, String)) {
    let place = || Some(format!("Story {}", index + 1));
    for (name, value) in [("role", &story.role), ("capability", &story.capability), ("benefit", &story.benefit)] {
        if value.trim().is_empty() {
            push("incomplete_story", Severity::Warning, place(), format!("has no {name} (As a … I want … So that …)"));
        }
    }
    if story.criteria.is_empty() {
        let message = "has no acceptance criteria, so nothing says when it is done".to_owned();
        push("no_criteria", Severity::Error, place(), message);
    }
    let written = |text: &str| !PLACEHOLDERS.contains(&text);
    let criteria = story.criteria.iter().enumerate();
    for (at, criterion) in criteria.filter(|(_, criterion)| written(criterion) && is_vague(criterion)) {
        let message = format!("cannot be measured: {criterion:?}; name a number, a command or a visible result");
        push("vague_criterion", Severity::Warning, Some(criterion_id(index, at)), message);
    }
    if story.verification.trim().is_empty() {
        push("no_verification", Severity::Warning, place(), "has no verification command".to_owned());
    }
}

/// Returns true if the criterion cannot be measured. A number, code or a quotation counts as measurable.
fn is_vague(criterion: &str) -> bool {
    if criterion.contains(['`', '"', '\'', '“']) || criterion.contains(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let lower = criterion.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let plain = words.join(" ");
    words.len() < 3
        || words.iter().any(|word| VAGUE.contains(word))
        || VAGUE_PHRASES.iter().any(|phrase| format!(" {plain} ").contains(&format!(" {phrase} ")))
}
