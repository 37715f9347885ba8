//! Parses a task file into a task of the graph, and imports all of them as one graph.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde_json::{Map, Value};

use super::block::{Block, error};
use super::document::{Document, Key, is_called};
use super::text::{
    ID_SEPARATORS, LINE_SEPARATORS, PATH_SEPARATORS, bullet, read_command, read_line, read_list, read_text,
};
use super::{ACCEPTANCE, CHECKPOINT, FAILURE, INTERFACE, SECURITY};
use crate::spec::path::ListedPath;
use crate::spec::{FileLists, GraphFile, SpecError, TaskSpec, Verification};

const ELEMENTS: &[&str] = &[
    "name",
    "level",
    "depends",
    "files",
    "description",
    "context",
    "action",
    "run",
    "verify",
    "done",
    "interface",
    "security",
    "task",
];
/// Task fields that belong in the metadata or in a section, never in the block.
const NOT_IN_BLOCK: &[&str] = &[
    "id",
    "acceptance_criteria",
    "estimate_minutes",
    "estimate_tokens",
    "agent",
    "model",
    "effort",
    "fallback_model",
    "foreground",
    "follow_up",
];

/// Returns true if an unknown field can be written in the block under its own name.
pub(super) fn is_own_element(name: &str) -> bool {
    let in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    let known = ELEMENTS.contains(&name) || NOT_IN_BLOCK.contains(&name) || canonical_name(name) != name;
    !known && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(in_name)
}

/// Maps the graph's field names to the element names of the block.
pub(super) fn canonical_name(name: &str) -> &str {
    match name {
        "title" => "name",
        "dependencies" => "depends",
        "verification" => "verify",
        name => name,
    }
}

/// Builds one graph from all task files, sorted by name. The error lists the errors of every file. `exists` is passed
/// to `parse_task_file`.
pub fn import_tasks(
    feature: &str,
    files: &[(String, String)],
    exists: impl Fn(&str) -> bool,
) -> Result<GraphFile, Vec<(String, SpecError)>> {
    let mut files: Vec<&(String, String)> = files.iter().collect();
    files.sort();
    let (mut tasks, mut errors) = (Vec::new(), Vec::new());
    for (name, text) in &files {
        match parse_task_file(text, &exists) {
            Ok(task) => tasks.push(task),
            Err(error) => errors.push((name.clone(), error)),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    // What a task creates is there for those that depend on it.
    let made = made_before(&tasks);
    for ((task, made), (name, text)) in tasks.iter_mut().zip(made).zip(files).filter(|((_, made), _)| !made.is_empty())
    {
        *task = parse_task_file(text, |path| exists(path) || made.iter().any(|made| lies_in(made, path)))
            .map_err(|error| vec![(name.clone(), error)])?;
    }
    let total_tasks = Some(tasks.len() as u64);
    let tasks = tasks.into_iter().map(Into::into).collect();
    Ok(GraphFile { feature: feature.to_owned(), total_tasks, max_parallelization: None, tasks, extra: Map::new() })
}

/// Returns for each task the paths that the tasks on which it depends create, as far as it lists them.
fn made_before(tasks: &[TaskSpec]) -> Vec<BTreeSet<String>> {
    let paths = |listed: &[String]| listed.iter().filter_map(|path| Some(ListedPath::read(path).ok()?.path)).collect();
    let creates: Vec<Vec<String>> = tasks.iter().map(|task| paths(&task.files.create)).collect();
    let by_id: BTreeMap<&str, usize> =
        tasks.iter().enumerate().map(|(index, task)| (task.id.as_str(), index)).collect();
    let before = |task: usize| {
        let (mut open, mut seen) = (vec![task], BTreeSet::new());
        while let Some(task) = open.pop() {
            let needs = tasks[task].dependencies.iter().filter_map(|need| by_id.get(need.as_str()));
            open.extend(needs.filter(|need| seen.insert(**need)));
        }
        seen
    };
    let created =
        creates.iter().enumerate().flat_map(|(task, paths)| paths.iter().map(move |path| (path.clone(), task)));
    let created: BTreeSet<(String, usize)> = created.collect();
    let made = |task: usize| -> BTreeSet<String> {
        let mut by_others = Vec::new();
        for path in &creates[task] {
            let from_here = created.range((path.clone(), 0)..).take_while(|(made, _)| made.starts_with(path.as_str()));
            by_others.extend(from_here.filter(|(made, other)| *other != task && lies_in(made, path)));
        }
        if by_others.is_empty() {
            // As with most tasks, so their dependencies are not looked at.
            return BTreeSet::new();
        }
        let before = before(task);
        by_others.into_iter().filter(|(_, other)| before.contains(other)).map(|(made, _)| made.clone()).collect()
    };
    (0..tasks.len()).map(made).collect()
}

/// Returns whether a path is another or lies below it.
fn lies_in(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Parses a task file. `exists_at_start` tells whether a path (without a trailing `/`) exists in the start tree as a
/// file or directory.
pub fn parse_task_file(text: &str, exists_at_start: impl Fn(&str) -> bool) -> Result<TaskSpec, SpecError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = Document::read(text)?;
    let block = &document.block;
    let id = block.attribute("id").map(str::to_owned).or(document.heading.clone()).filter(|id| !id.is_empty());
    let Some(id) = id else {
        return Err(error(text, block.start, "the <task> has no id; write <task type=\"auto\" id=\"…\">"));
    };
    let title = block.element("name").map(|name| read_line(&name.raw)).filter(|name| !name.is_empty());
    let one = |key| document.metadata(key).and_then(|value| read_list(value, LINE_SEPARATORS).into_iter().next());
    Ok(TaskSpec {
        title: title.unwrap_or_else(|| id.clone()),
        level: level(text, &document)?,
        files: files(&document, exists_at_start),
        dependencies: read_list(source(&document, "depends", Key::Dependencies), ID_SEPARATORS),
        verification: Verification {
            command: read_command(source(&document, "verify", Key::Verification)),
            timeout_seconds: document
                .metadata(Key::Timeout)
                .and_then(first_number)
                .unwrap_or_else(|| Verification::default().timeout_seconds),
            extra: Map::new(),
        },
        description: element_text(block, "description"),
        context: context(&document),
        action: element_text(block, "action"),
        done: element_text(block, "done"),
        interface: section(&document, INTERFACE).or_else(|| element_text(block, "interface")),
        security: section(&document, SECURITY).or_else(|| element_text(block, "security")),
        acceptance_criteria: section(&document, ACCEPTANCE).map(|list| criteria(&list)).unwrap_or_default(),
        estimate_minutes: document.metadata(Key::Minutes).and_then(first_number),
        estimate_tokens: document.metadata(Key::Tokens).and_then(tokens),
        agent: one(Key::Agent),
        model: one(Key::Model),
        effort: one(Key::Effort),
        fallback_model: one(Key::FallbackModel),
        foreground: block.attribute("type").is_some_and(|kind| kind != "auto"),
        follow_up: one(Key::FollowUp),
        run: block.element("run").map(|run| read_command(&run.raw)).filter(|run| !run.is_empty()),
        extra: unknown_elements(text, block)?,
        id,
    })
}

/// Returns the block's element, or else the metadata's entry.
fn source<'d>(document: &'d Document, element: &str, key: Key) -> &'d str {
    let element = document.block.element(element).map(|element| element.raw.as_str());
    element.or_else(|| document.metadata(key)).unwrap_or_default()
}

fn level(text: &str, document: &Document) -> Result<u32, SpecError> {
    let raw = source(document, "level", Key::Level);
    let level = read_line(raw);
    let digits = level.strip_prefix("Level ").or_else(|| level.strip_prefix(['L', 'l'])).unwrap_or(&level);
    digits.parse().map_err(|_| match document.block.element("level") {
        Some(element) => {
            let at = element.at + (raw.len() - raw.trim_start().len());
            error(text, at, &format!("the level must be a whole number from 0, not {level:?}"))
        }
        None => error(text, document.block.start, "the <task> has no level; write <level>0</level>"),
    })
}

fn files(document: &Document, exists_at_start: impl Fn(&str) -> bool) -> FileLists {
    let list = |key| document.metadata(key).map(|raw| read_list(raw, PATH_SEPARATORS)).unwrap_or_default();
    let (create, modify, read) = (list(Key::Creates), list(Key::Modifies), list(Key::Reads));
    let flat = read_list(source(document, "files", Key::Files), PATH_SEPARATORS);
    if flat.is_empty() || flat.iter().eq(create.iter().chain(&modify)) {
        return FileLists { create, modify, read, extra: Map::new() };
    }
    let exists = |listed: &String| ListedPath::read(listed).is_ok_and(|listed| exists_at_start(&listed.path));
    let (modify, create) = flat.into_iter().partition(exists);
    FileLists { create, modify, read, extra: Map::new() }
}

fn element_text(block: &Block, name: &str) -> Option<String> {
    block.element(name).map(|element| read_text(&element.raw)).filter(|text| !text.is_empty())
}

fn section(document: &Document, name: &str) -> Option<String> {
    let texts: Vec<&str> = document
        .sections
        .iter()
        .filter(|(heading, _)| is_called(heading, name))
        .map(|(_, text)| text.as_str())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Adds the sections of unknown name to the context, so that nothing the user wrote is lost.
fn context(document: &Document) -> Option<String> {
    let known = [ACCEPTANCE, INTERFACE, SECURITY, FAILURE, CHECKPOINT];
    let others = document.sections.iter().filter(|(heading, _)| known.iter().all(|name| !is_called(heading, name)));
    let others = others.map(|(heading, text)| format!("## {heading}\n\n{text}"));
    let parts: Vec<String> = element_text(&document.block, "context").into_iter().chain(others).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// Splits a list at its bullets; a line without a bullet continues the previous item.
fn criteria(list: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in list.lines().map(|line| line.trim_matches([' ', '\t'])).filter(|line| !line.is_empty()) {
        match items.last_mut() {
            Some(item) if bullet(line).is_none() => *item = format!("{item} {line}"),
            _ => items.push(line.to_owned()),
        }
    }
    items.iter().flat_map(|item| read_list(item, LINE_SEPARATORS)).collect()
}

fn unknown_elements(text: &str, block: &Block) -> Result<Map<String, Value>, SpecError> {
    if let Some(misplaced) = block.elements.iter().find(|element| NOT_IN_BLOCK.contains(&element.name.as_str())) {
        let message =
            format!("<{}> has its place in the metadata list or in a section, not in the <task>", misplaced.name);
        return Err(error(text, misplaced.at, &message));
    }
    let unknown = block.elements.iter().filter(|element| is_own_element(&element.name));
    Ok(unknown.map(|element| (element.name.clone(), Value::from(read_text(&element.raw)))).collect())
}

/// Returns the number at the start of a value such as "~1,200 tokens".
fn first_number<T: FromStr>(value: &str) -> Option<T> {
    let value = value.trim_start_matches(['~', '≈', ' ']);
    let end = value.find(|c: char| !c.is_ascii_digit() && !matches!(c, ',' | '_' | '.')).unwrap_or(value.len());
    value[..end].replace([',', '_'], "").parse().ok()
}

fn tokens(value: &str) -> Option<u64> {
    let thousands = value.trim_end_matches(" tokens").ends_with(['k', 'K']);
    if thousands { first_number::<f64>(value).map(|number| (number * 1000.0) as u64) } else { first_number(value) }
}
