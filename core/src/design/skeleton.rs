//! A design to be filled in by hand: what belongs where, and a task for each level to begin from.

use super::stubs::unfilled_task;
use super::{Choice, Component, Decision, Design, LEVELS, Proposal, Risk};
use crate::graph::Problem;
use crate::ids::Feature;
use crate::spec::{FileLists, GraphFile, Requirements, TaskSpec, Verification};

impl Design {
    /// As far as the requirements tell.
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

/// What a person is to write first in a design.
const SUMMARY: &str = "{What is built, in a few sentences}";
const ARCHITECTURE: &str = "{How the parts work together}";

/// What a person is to write in a task.
const TITLE: &str = "{what this task makes}";
const CONTEXT: &str = "{What one has to know before one begins}";
const ACTION: &str = "{What to do, precisely}";
const DONE: &str = "{How a person sees that it is done}";
const CRITERION: &str = "{The criteria of the requirements that this serves, by name}";
const FILE: &str = "path/to/level-";

/// Whether nobody has begun to fill a document in.
pub fn is_form(document: &str) -> bool {
    document.contains(SUMMARY) && document.contains(ARCHITECTURE)
}

/// The tasks of a graph that are still a form.
pub fn unfilled(file: &GraphFile) -> Vec<Problem> {
    let problem = |task: &TaskSpec| {
        let left = left_of_the_form(task);
        (!left.is_empty()).then(|| unfilled_task(&task.id, &left))
    };
    file.tasks.iter().filter_map(problem).collect()
}

fn left_of_the_form(task: &TaskSpec) -> Vec<&str> {
    let mut texts = vec![task.title.as_str()];
    texts.extend([&task.context, &task.action, &task.done].into_iter().flatten().map(String::as_str));
    texts.extend(task.acceptance_criteria.iter().map(String::as_str));
    let braces = [TITLE, CONTEXT, ACTION, DONE, CRITERION];
    let mut left: Vec<&str> = braces.into_iter().filter(|part| texts.iter().any(|text| text.contains(part))).collect();
    left.extend(task.files.create.iter().map(String::as_str).filter(|path| path.starts_with(FILE)));
    left
}

/// What a person is to write stands in braces.
pub fn skeleton(feature: &Feature) -> Proposal {
    let text = |text: &str| text.to_owned();
    let design = Design {
        summary: text(SUMMARY),
        goals: vec![text("{What must hold afterwards}")],
        non_goals: vec![text("{What this leaves alone}")],
        architecture: text(ARCHITECTURE),
        components: vec![Component {
            name: text("{Component}"),
            responsibility: text("{What it alone answers for}"),
            files: vec![text("{its files}")],
        }],
        data_flow: text("{Where data comes from, where it goes}"),
        decisions: vec![Decision {
            title: text("{A choice that others must know of}"),
            context: text("{Why there is a choice}"),
            options: vec![Choice { name: text("{Option}"), pros: text("{for it}"), cons: text("{against it}") }],
            decision: text("{Which one}"),
            rationale: text("{Why}"),
            consequences: text("{What follows}"),
        }],
        risks: vec![Risk {
            risk: text("{What may go wrong}"),
            probability: text("Medium"),
            impact: text("Medium"),
            mitigation: text("{What is done about it}"),
        }],
        testing: vec![text("{What is tested how}")],
        ..Design::default()
    };
    let tasks = LEVELS.iter().enumerate().map(|(level, (name, purpose))| task(level, name, purpose)).collect();
    Proposal::new(design, feature, tasks)
}

/// Of a kind that no run starts, so that nobody pays for a form.
fn task(level: usize, name: &str, purpose: &str) -> TaskSpec {
    TaskSpec {
        id: id(level),
        title: format!("{name}: {TITLE}"),
        level: level as u32,
        files: FileLists { create: vec![format!("{FILE}{level}")], ..FileLists::default() },
        dependencies: level.checked_sub(1).map(id).into_iter().collect(),
        verification: Verification { command: "false".to_owned(), ..Verification::default() },
        description: Some(format!(
            "Level {level} is for {}: {purpose}. Put as many tasks here as can be done at the same time. List under `create` and \
             `modify` the files that this task alone may change, and remove `foreground` when the task is written.",
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
        run: None,
        extra: serde_json::Map::new(),
    }
}

fn id(level: usize) -> String {
    format!("L{level}-001")
}
