//! What the agent is told. Specs are read from the main checkout, where they are also when git ignores them.

use std::fs;
use std::path::Path;

use mahabharatha_core::ids::Oid;
use mahabharatha_core::prompt::{Document, Prompt, PromptInput};
use mahabharatha_core::run::effect::Purpose;

use super::order::Order;

pub fn prompt(order: &Order) -> Prompt {
    let [project, requirements, design] = [&order.context.project, &order.context.requirements, &order.context.design]
        .map(|path| order.context.budget_tokens.and_then(|_| read(path)));
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
        budget_tokens: order.context.budget_tokens.unwrap_or(0),
    })
}

/// A document that is not there, or is no text, is left out.
fn read(path: &Path) -> Option<(String, String)> {
    let text = fs::read_to_string(path).ok().filter(|text| !text.trim().is_empty())?;
    Some((path.to_string_lossy().into_owned(), text))
}

fn document(found: &Option<(String, String)>) -> Option<Document<'_>> {
    found.as_ref().map(|(path, text)| Document { path, text })
}
