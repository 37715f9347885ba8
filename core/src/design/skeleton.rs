//! A design for the user to fill in: placeholders for every section, and one task per level to start from.

use super::stubs::unfilled_task;
use super::{Choice, Component, Decision, Design, LEVELS, Proposal, Risk};
use crate::graph::Problem;
use crate::ids::Feature;
use crate::spec::{FileLists, GraphFile, Requirements, Shared, TaskSpec, Verification};

impl Design {
    /// Fills in what can be derived from the requirements.
    pub fn of_requirements(requirements: &Requirements) -> Design {
        Design {
            summary: requirements.problem.clone(),
            goals: requirements.stories.iter().map(|story| story.title.clone()).collect(),
            non_goals: requirements.out_of_scope.clone(),
            testing: requirements.stories.iter().map(|story| story.verification.clone()).collect(),
            ..Design::default()
        }
    }
}

/// Placeholders for a design.
const SUMMARY: &str = "{What is built, in a few sentences}";
const ARCHITECTURE: &str = "{How the parts work together}";

/// Placeholders for a task.
const TITLE: &str = "{what this task makes}";
const CONTEXT: &str = "{What the worker must know before starting}";
const ACTION: &str = "{What to do, precisely}";
const DONE: &str = "{How to tell that it is done}";
const CRITERION: &str = "{The acceptance criteria that this task covers, by id}";
const FILE: &str = "path/to/level-";

/// Returns true if the user has not started to fill in the document.
pub fn is_form(document: &str) -> bool {
    document.contains(SUMMARY) && document.contains(ARCHITECTURE)
}

/// Returns a problem for each task that still has placeholders.
pub fn unfilled(file: &GraphFile) -> Vec<Problem> {
    let problem = |task: &Shared<TaskSpec>| {
        let left = placeholders_in(task);
        (!left.is_empty()).then(|| unfilled_task(&task.id, &left))
    };
    file.tasks.iter().filter_map(problem).collect()
}

fn placeholders_in(task: &TaskSpec) -> Vec<&str> {
    let mut texts = vec![task.title.as_str()];
    texts.extend([&task.context, &task.action, &task.done].into_iter().flatten().map(String::as_str));
    texts.extend(task.acceptance_criteria.iter().map(String::as_str));
    let placeholders = [TITLE, CONTEXT, ACTION, DONE, CRITERION];
    let mut left: Vec<&str> =
        placeholders.into_iter().filter(|part| texts.iter().any(|text| text.contains(part))).collect();
    left.extend(task.files.create.iter().map(String::as_str).filter(|path| path.starts_with(FILE)));
    left
}

/// Returns a proposal with placeholders in braces for the user to replace.
pub fn skeleton(feature: &Feature) -> Proposal {
    let text = |text: &str| text.to_owned();
    let design = Design {
        summary: text(SUMMARY),
        goals: vec![text("{What must be true afterwards}")],
        non_goals: vec![text("{What this does not change}")],
        architecture: text(ARCHITECTURE),
        components: vec![Component {
            name: text("{Component}"),
            responsibility: text("{What it alone is responsible for}"),
            files: vec![text("{its files}")],
        }],
        data_flow: text("{Where data comes from, where it goes}"),
        decisions: vec![Decision {
            title: text("{A decision that others must know about}"),
            context: text("{Why there is a choice}"),
            options: vec![Choice { name: text("{Option}"), pros: text("{for it}"), cons: text("{against it}") }],
            decision: text("{Which one}"),
            rationale: text("{Why}"),
            consequences: text("{What follows from it}"),
        }],
        risks: vec![Risk {
            risk: text("{What may go wrong}"),
            probability: text("Medium"),
            impact: text("Medium"),
            mitigation: text("{How it is mitigated}"),
        }],
        testing: vec![text("{What is tested, and how}")],
        ..Design::default()
    };
    let tasks = LEVELS.iter().enumerate().map(|(level, (name, purpose))| task(level, name, purpose).into()).collect();
    Proposal::new(design, feature, tasks)
}

/// Returns a foreground task, which no run starts, so that no agent is paid to work on placeholders.
fn task(level: usize, name: &str, purpose: &str) -> TaskSpec {
    TaskSpec {
        id: id(level),
        title: format!("{name}: {TITLE}"),
        level: level as u32,
        files: FileLists { create: vec![format!("{FILE}{level}")], ..FileLists::default() },
        dependencies: level.checked_sub(1).map(id).into_iter().collect(),
        verification: Verification { command: "false".to_owned(), ..Verification::default() },
        description: Some(format!(
            "Level {level} is for {}: {purpose}. Add as many tasks as can be done in parallel. List under `create` and \
             `modify` the files that only this task may change, and remove `foreground` when the task is complete.",
            name.to_lowercase()
        )),
        context: Some(CONTEXT.to_owned()),
        action: Some(ACTION.to_owned()),
        done: Some(DONE.to_owned()),
        interface: None,
        security: None,
        acceptance_criteria: vec![CRITERION.to_owned()],
        estimate_minutes: None,
        estimate_tokens: None,
        agent: None,
        model: None,
        effort: None,
        fallback_model: None,
        foreground: true,
        follow_up: None,
        run: None,
        extra: serde_json::Map::new(),
    }
}

fn id(level: usize) -> String {
    format!("L{level}-001")
}
