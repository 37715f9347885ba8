//! What the agent is told. Specs are read from the main checkout, where they are also when git ignores them.

use std::fs;
use std::path::Path;

use mahabharatha_core::ids::Oid;
use mahabharatha_core::prompt::rules::concern;
use mahabharatha_core::prompt::{Document, Prompt, PromptInput};
use mahabharatha_core::run::effect::Purpose;

use super::order::{Order, Rules};

pub fn prompt(order: &Order) -> Prompt {
    let [project, requirements, design] = [&order.context.project, &order.context.requirements, &order.context.design]
        .map(|path| order.context.budget_tokens.and_then(|_| read(path)));
    let rules = rules(order);
    let rules: Vec<Document<'_>> = rules.iter().map(|(path, text)| Document { path, text }).collect();
    let job = &order.job;
    Prompt::new(&PromptInput {
        feature: &order.feature,
        task: &order.task,
        project: document(&project),
        requirements: document(&requirements),
        design: document(&design),
        decisions: &order.context.decisions,
        attempt: job.attempt,
        max_attempts: order.context.max_attempts,
        feedback: job.carry.feedback.as_deref(),
        note: job.carry.note.as_deref(),
        wip_ref: job.carry.wip.as_ref().map(Oid::as_str),
        remedy: match &job.purpose {
            Purpose::Build => None,
            Purpose::Remedy { failure } => Some(failure),
        },
        worktree: &order.worktree.to_string_lossy(),
        ports: &order.ports,
        rules: &rules,
        budget_tokens: order.context.budget_tokens.unwrap_or(0),
    })
}

/// The security rules of the project, as they were at the start of the attempt.
fn rules(order: &Order) -> Vec<(String, String)> {
    let entries = fs::read_dir(order.worktree.join(".claude/rules")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name.ends_with(".md"));
    if order.context.rules == Rules::OfTheTask {
        names.retain(|name| concern(name, order.owned.iter().map(|owned| owned.path.as_str())));
    }
    names.sort();
    names.iter().filter_map(|name| read(&order.worktree.join(".claude/rules").join(name))).collect()
}

/// A document that is not there, or is no text, is left out.
fn read(path: &Path) -> Option<(String, String)> {
    let text = fs::read_to_string(path).ok().filter(|text| !text.trim().is_empty())?;
    Some((path.to_string_lossy().into_owned(), text))
}

fn document(found: &Option<(String, String)>) -> Option<Document<'_>> {
    found.as_ref().map(|(path, text)| Document { path, text })
}
