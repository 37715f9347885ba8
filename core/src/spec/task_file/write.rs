//! Writes a task of the graph as a task file.

use std::fmt::Write;

use super::prose::write_prose;
use super::read::is_own_element;
use super::text::{
    ID_SEPARATORS, LINE_SEPARATORS, PATH_SEPARATORS, attribute, normalized, write_command, write_line, write_list,
    write_text,
};
use super::{ACCEPTANCE, CHECKPOINT, FAILURE, INTERFACE, METADATA, SECURITY, SPECIFICATION};
use crate::spec::TaskSpec;

/// Writes the whole file. The failure analysis is for the user and is not read back.
pub fn write_task_file(task: &TaskSpec, failure_analysis: Option<&str>) -> String {
    write(task, FAILURE, failure_analysis)
}

/// Writes the file of a task that will be continued, with the checkpoint note of the agent, which is not read back
/// either.
pub fn write_continued_task_file(task: &TaskSpec, note: &str) -> String {
    write(task, CHECKPOINT, Some(note))
}

fn write(task: &TaskSpec, heading: &'static str, remark: Option<&str>) -> String {
    let mut text = format!("# Task: {}\n\n## {METADATA}\n", write_line(&task.id));
    for (key, value) in metadata(task) {
        let _ = writeln!(text, "- **{key}:** {value}");
    }
    let _ = write!(text, "\n## {SPECIFICATION}\n\n{}", block(task));
    let criteria: Vec<String> = task
        .acceptance_criteria
        .iter()
        .filter(|one| !one.is_empty())
        .map(|one| format!("- [ ] {}", item(one)))
        .collect();
    let sections = [
        (ACCEPTANCE, criteria.join("\n")),
        (INTERFACE, task.interface.as_deref().map(write_prose).unwrap_or_default()),
        (SECURITY, task.security.as_deref().map(write_prose).unwrap_or_default()),
        (heading, remark.map(write_prose).unwrap_or_default()),
    ];
    for (name, prose) in sections.iter().filter(|(_, prose)| !prose.is_empty()) {
        let _ = write!(text, "\n## {name}\n\n{prose}\n");
    }
    text
}

fn item(text: &String) -> String {
    write_list([text], LINE_SEPARATORS)
}

fn metadata(task: &TaskSpec) -> Vec<(&'static str, String)> {
    let files = &task.files;
    let none = |list: String| if list.is_empty() { "none".to_owned() } else { list };
    let mut lines = vec![
        ("Level", task.level.to_string()),
        ("Dependencies", none(write_list(&task.dependencies, ID_SEPARATORS))),
        ("Files (exclusive)", none(write_list(files.create.iter().chain(&files.modify), PATH_SEPARATORS))),
        ("Estimated tokens", task.estimate_tokens.map_or("unknown".to_owned(), |tokens| tokens.to_string())),
    ];
    let optional = [
        ("Estimated minutes", task.estimate_minutes.map(|minutes| minutes.to_string())),
        ("Creates", Some(write_list(&files.create, PATH_SEPARATORS))),
        ("Modifies", Some(write_list(&files.modify, PATH_SEPARATORS))),
        ("Reads", Some(write_list(&files.read, PATH_SEPARATORS))),
        ("Verification timeout", Some(format!("{} seconds", task.verification.timeout_seconds))),
        ("Agent", task.agent.as_ref().map(item)),
        ("Model", task.model.as_ref().map(item)),
        ("Effort", task.effort.as_ref().map(item)),
        ("Fallback model", task.fallback_model.as_ref().map(item)),
        ("Follow-up", task.follow_up.as_ref().map(item)),
    ];
    lines.extend(optional.into_iter().filter_map(|(key, value)| Some((key, value.filter(|value| !value.is_empty())?))));
    lines
}

fn block(task: &TaskSpec) -> String {
    let kind = if task.foreground { "foreground" } else { "auto" };
    let files = task.files.create.iter().chain(&task.files.modify);
    let mut text = format!("<task type=\"{kind}\" id=\"{}\">\n", attribute(&task.id));
    for (name, value) in [
        ("name", write_line(&task.title)),
        ("level", task.level.to_string()),
        ("depends", write_list(&task.dependencies, ID_SEPARATORS)),
        ("files", write_list(files, PATH_SEPARATORS)),
    ] {
        let _ = writeln!(text, "  <{name}>{value}</{name}>");
    }
    let command = |name, command: &str| element(name, command, write_command);
    let prose = |name, prose: &Option<String>| element(name, prose.as_deref().unwrap_or_default(), write_text);
    text += &prose("description", &task.description);
    text += &prose("context", &task.context);
    text += &prose("action", &task.action);
    text += &command("run", task.run.as_deref().unwrap_or_default());
    text += &command("verify", &task.verification.command);
    text += &prose("done", &task.done);
    for (name, value) in task.extra.iter().filter(|(name, _)| is_own_element(name)) {
        text += &element(name, value.as_str().unwrap_or_default(), write_text);
    }
    text + "</task>\n"
}

fn element(name: &str, text: &str, write: fn(&str, &str) -> String) -> String {
    if normalized(text).is_empty() {
        String::new()
    } else {
        format!("\n  <{name}>\n{}\n  </{name}>\n", write(text, "    "))
    }
}
