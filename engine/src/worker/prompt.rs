//! Builds the agent's prompt. Reads specs from the main checkout, because worktrees lack them if git ignores them.

use std::fs;
use std::path::Path;

use mahabharatha_core::ids::Oid;
use mahabharatha_core::prompt::rules::apply_to;
use mahabharatha_core::prompt::{Document, Prompt, PromptInput};
use mahabharatha_core::run::effect::Purpose;
use mahabharatha_sys::bounded;

use super::job_spec::{JobSpec, Rules};

/// Longest document that is read for a prompt, which takes far less of it.
const MAX_DOCUMENT_BYTES: u64 = 4 << 20;

/// Builds the prompt. `workdir` is the worktree as the agent sees it.
pub fn prompt(spec: &JobSpec, workdir: &Path) -> Prompt {
    let [project, requirements, design] = [&spec.context.project, &spec.context.requirements, &spec.context.design]
        .map(|path| spec.context.budget_tokens.and_then(|_| read(&spec.root, path)));
    let rules = rules(spec);
    let rules: Vec<Document<'_>> = rules.iter().map(|(path, text)| Document { path, text }).collect();
    let job = &spec.job;
    Prompt::new(&PromptInput {
        feature: &spec.feature,
        task: &spec.task,
        project: document(&project),
        requirements: document(&requirements),
        design: document(&design),
        decisions: &spec.context.decisions,
        attempt: job.attempt,
        max_attempts: spec.context.max_attempts,
        feedback: job.carry.feedback.as_deref(),
        note: job.carry.note.as_deref(),
        notes: &job.notes,
        wip_ref: job.carry.wip.as_ref().map(Oid::as_str),
        fix: match &job.purpose {
            Purpose::Build => None,
            Purpose::Fix { failure } => Some(failure),
        },
        worktree: &workdir.to_string_lossy(),
        ports: &spec.ports,
        rules: &rules,
        budget_tokens: spec.context.budget_tokens.unwrap_or(0),
    })
}

/// Returns the project's security rules, as they were at the start of the attempt.
fn rules(spec: &JobSpec) -> Vec<(String, String)> {
    let entries = fs::read_dir(spec.worktree.join(".claude/rules")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name.ends_with(".md"));
    if spec.context.rules == Rules::OfTheTask {
        names.retain(|name| apply_to(name, spec.owned.iter().map(|owned| owned.path.as_str())));
    }
    names.sort();
    names.iter().filter_map(|name| read(&spec.worktree, &spec.worktree.join(".claude/rules").join(name))).collect()
}

/// Reads a document; `None` if it is missing, empty or not text, or if a link leads out of `root`.
fn read(root: &Path, path: &Path) -> Option<(String, String)> {
    let text = bounded::read_inside(root, path, MAX_DOCUMENT_BYTES).ok().filter(|text| !text.trim().is_empty())?;
    Some((path.to_string_lossy().into_owned(), text))
}

fn document(found: &Option<(String, String)>) -> Option<Document<'_>> {
    found.as_ref().map(|(path, text)| Document { path, text })
}
