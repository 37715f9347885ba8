//! A design to be filled in by hand: what belongs where, and a task for each level to begin from.

use super::{Choice, Component, Decision, Design, LEVELS, Proposal, Risk};
use crate::ids::Feature;
use crate::spec::{FileLists, Requirements, TaskSpec, Verification};

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

/// What a person is to write stands in braces.
pub fn skeleton(feature: &Feature) -> Proposal {
    let text = |text: &str| text.to_owned();
    let design = Design {
        summary: text("{What is built, in a few sentences}"),
        goals: vec![text("{What must hold afterwards}")],
        non_goals: vec![text("{What this leaves alone}")],
        architecture: text("{How the parts work together}"),
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
        title: format!("{name}: {{what this task makes}}"),
        level: level as u32,
        files: FileLists { create: vec![format!("path/to/level-{level}")], ..FileLists::default() },
        dependencies: level.checked_sub(1).map(id).into_iter().collect(),
        verification: Verification { command: "false".to_owned(), ..Verification::default() },
        description: Some(format!(
            "Level {level} is for {}: {purpose}. Put as many tasks here as can be done at the same time. List under `create` and \
             `modify` the files that this task alone may change, and remove `foreground` when the task is written.",
            name.to_lowercase()
        )),
        context: Some("{What one has to know before one begins}".to_owned()),
        action: Some("{What to do, precisely}".to_owned()),
        done: Some("{How a person sees that it is done}".to_owned()),
        interface: None,
        security: None,
        acceptance_criteria: vec!["{AC-1.1, or whichever criterion of the requirements this serves}".to_owned()],
        estimate_minutes: None,
        estimate_tokens: None,
        agent: None,
        model: None,
        foreground: true,
        run: None,
        extra: serde_json::Map::new(),
    }
}

fn id(level: usize) -> String {
    format!("L{level}-001")
}
