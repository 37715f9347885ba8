//! Traces which tasks cover which acceptance criteria.

use serde::Serialize;

use super::Severity::Warning;
use super::report::{Problem, Report, shown};
use crate::markdown::one_line;
use crate::spec::{GraphFile, Requirements};

/// A criterion, and the tasks that claim to cover it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TracedCriterion {
    pub id: String,
    pub criterion: String,
    pub tasks: Vec<String>,
}

/// Returns every criterion with its tasks, and the problems: criteria that are unknown or not covered.
pub fn trace(requirements: &Requirements, file: &GraphFile) -> (Vec<TracedCriterion>, Vec<Problem>) {
    let mut served: Vec<TracedCriterion> = requirements
        .criteria()
        .map(|criterion| TracedCriterion { id: criterion.id, criterion: one_line(criterion.text), tasks: Vec::new() })
        .collect();
    let mut report = Report::new(file);
    for (index, task) in file.tasks.iter().enumerate() {
        for entry in &task.acceptance_criteria {
            let named = ids(entry);
            let same =
                |one: &TracedCriterion| named.contains(&one.id) || (named.is_empty() && is_same(&one.criterion, entry));
            for one in served.iter_mut().filter(|one| same(one)) {
                if !one.tasks.contains(&task.id) {
                    one.tasks.push(task.id.clone());
                }
            }
            for id in named.iter().filter(|id| served.iter().all(|one| one.id != **id)) {
                let message = format!("names the criterion {}, which the requirements do not have", shown(id));
                report.task(Warning, "unknown_criterion", index, message);
            }
        }
    }
    for one in served.iter().filter(|one| one.tasks.is_empty()) {
        let message =
            format!("no task covers {}: {}; name it in a task's acceptance_criteria", one.id, shown(&one.criterion));
        report.whole(Warning, "unserved_criterion", message);
    }
    (served, report.finish())
}

/// Adds the text of a criterion where a task only names its id, so that the worker can read it there.
pub fn spell_out(file: &mut GraphFile, requirements: &Requirements) {
    for entry in file.tasks.iter_mut().flat_map(|task| &mut task.acceptance_criteria) {
        if let Some(criterion) = requirements.criteria().find(|criterion| criterion.id == entry.trim()) {
            *entry = format!("{}: {}", criterion.id, one_line(criterion.text));
        }
    }
}

/// Finds every `AC-1.2` in the text.
fn ids(text: &str) -> Vec<String> {
    let numbers = |text: &str| text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>();
    let found = text.match_indices("AC-").map(|(at, _)| numbers(&text[at + 3..]));
    let found = found.map(|number| number.trim_end_matches('.').to_owned()).filter(|number| number.contains('.'));
    found.map(|number| format!("AC-{number}")).collect()
}

fn is_same(criterion: &str, entry: &str) -> bool {
    let plain = |text: &str| one_line(text).trim_end_matches('.').to_lowercase();
    plain(criterion) == plain(entry)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn criteria_are_found_by_id_or_by_text() {
        let requirements = Requirements::parse(
            "## User Stories\n### Story 1: a\n**Acceptance Criteria:**\n- prints 1\n- prints 2\n### Story 2: b\n\
             **Acceptance Criteria:**\n- prints 3\n- prints 4\n",
        );
        let task = |id: &str, criteria: &[&str]| json!({ "id": id, "title": "t", "level": 1, "acceptance_criteria": criteria });
        let graph = json!({ "feature": "x", "tasks": [
            task("A", &["AC-1.1", "Prints  2."]), task("B", &["serves AC-1.1 and AC-2.1.", "AC-9.9: x", "other"]),
        ] });
        let mut file = GraphFile::parse(&graph.to_string()).unwrap();
        let (served, problems) = trace(&requirements, &file);
        let tasks: Vec<(&str, Vec<&str>)> =
            served.iter().map(|one| (one.id.as_str(), one.tasks.iter().map(String::as_str).collect())).collect();
        let expected = [("AC-1.1", vec!["A", "B"]), ("AC-1.2", vec!["A"]), ("AC-2.1", vec!["B"]), ("AC-2.2", vec![])];
        assert_eq!(tasks, expected);
        let codes: Vec<(&str, Option<&str>)> =
            problems.iter().map(|problem| (problem.code, problem.task.as_deref())).collect();
        assert_eq!(codes, [("unserved_criterion", None), ("unknown_criterion", Some("B"))]);
        spell_out(&mut file, &requirements);
        assert_eq!(file.tasks[0].acceptance_criteria, ["AC-1.1: prints 1", "Prints  2."]);
    }
}
