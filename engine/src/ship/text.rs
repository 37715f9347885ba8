//! Title and body of a pull request.

use std::io::ErrorKind;
use std::path::Path;

use mahabharatha_core::markdown::{bound_text, embed, one_line};
use mahabharatha_core::run::Run;
use mahabharatha_core::spec::Requirements;
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::{clean, fit};

use super::ShippedCommit;
use crate::report::text::{count, graph_size};

/// Most columns of the summary in a title.
const MAX_SUMMARY_COLUMNS: usize = 72;
/// Longest body; GitHub takes 65,536 characters.
const MAX_BODY_CHARS: usize = 60_000;

pub struct Text {
    pub title: String,
    pub body: String,
}

/// Writes the text from a feature's requirements and its `COMPLETION.md`.
pub fn of_feature(place: &Place, run: &Run) -> Result<Text> {
    let requirements = read(&place.paths.requirements())?.map(|text| Requirements::parse(&text)).unwrap_or_default();
    let completion = read(&place.paths.completion())?;
    let title =
        format!("feat({}): {}", place.feature, summary(&requirements).unwrap_or_else(|| graph_size(run.graph())));
    let mut body = String::new();
    if !requirements.problem.trim().is_empty() {
        body.push_str(&format!("{}\n\n", requirements.problem.trim()));
    }
    for story in &requirements.stories {
        body.push_str(&format!("### {}\n\n", one_line(&story.title)));
        story.criteria.iter().for_each(|criterion| body.push_str(&format!("- {}\n", one_line(criterion))));
        body.push('\n');
    }
    if let Some(completion) = completion {
        body.push_str(&embed(&completion, 1));
    }
    Ok(Text { title, body: bound_text(&clean(body.trim()), MAX_BODY_CHARS) })
}

/// Writes the text from the commits of a branch, newest first.
pub fn of_commits(commits: &[ShippedCommit]) -> Text {
    let title = commits.first().map(|newest| clean(&newest.subject)).unwrap_or_default();
    let lines: Vec<String> = commits.iter().rev().map(|commit| format!("- {}", clean(&commit.subject))).collect();
    let body = format!("{}:\n\n{}", count(commits.len(), "commit"), lines.join("\n"));
    Text { title, body: bound_text(&body, MAX_BODY_CHARS) }
}

/// Returns the title of the first story, else the first sentence of the problem.
fn summary(requirements: &Requirements) -> Option<String> {
    let story = requirements.stories.iter().map(|story| one_line(&story.title)).find(|title| !title.is_empty());
    let problem = || one_line(requirements.problem.split_inclusive(". ").next().unwrap_or_default());
    let text = story.unwrap_or_else(problem);
    let text = clean(text.trim().trim_end_matches('.'));
    (!text.is_empty()).then(|| fit(&text, MAX_SUMMARY_COLUMNS))
}

/// Returns the text of a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<String>> {
    match bounded::read(path, LARGE_FILE_BYTES) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_the_first_story_else_the_problem() {
        let of = |text: &str| summary(&Requirements::parse(text));
        let problem = "# Requirements: x\n\n## Problem Statement\n\nNobody can say goodbye. It is sad.\n";
        assert_eq!(of(problem).as_deref(), Some("Nobody can say goodbye"));
        let story = format!("{problem}\n## User Stories\n\n### Story 1: A user can say goodbye.\n\n");
        assert_eq!(of(&story).as_deref(), Some("A user can say goodbye"));
        assert_eq!(of(""), None);
    }
}
