//! Our entries in a `settings.json`: hooks, one variable, the status line. Everything else in the file stays as it is.

use std::collections::BTreeSet;
use std::path::Path;

use mahabharatha_sys::error::{Error, ExitCode, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::groups::{Group, Selection};
use super::json_text::JsonText;
use super::json_text::Step::{self, At, Key};

/// A hook that calls `mahabharatha hook <subcommand>`.
struct Hook {
    event: &'static str,
    matcher: Option<&'static str>,
    subcommand: &'static str,
    /// Whether it may refuse the call. One that only records never fails.
    refuses: bool,
    timeout_seconds: u32,
}

const SHORT_TIMEOUT_SECONDS: u32 = 30;
/// Time for the verification of a task, whose default timeout is 300 seconds.
const VERIFICATION_TIMEOUT_SECONDS: u32 = 600;

const WRITES: &str = "Write|Edit|MultiEdit|NotebookEdit|Bash";

const HOOKS: [Hook; 7] = [
    Hook { matcher: Some(WRITES), refuses: true, ..Hook::recording("PreToolUse", "pre-tool-use") },
    Hook { matcher: Some("Agent|Task"), ..Hook::recording("PostToolUse", "post-tool-use") },
    Hook::recording("SubagentStop", "subagent-stop"),
    Hook::recording("Stop", "stop"),
    Hook {
        refuses: true,
        timeout_seconds: VERIFICATION_TIMEOUT_SECONDS,
        ..Hook::recording("TaskCompleted", "task-completed")
    },
    Hook::recording("SessionStart", "session-start"),
    Hook::recording("SessionEnd", "session-end"),
];

impl Hook {
    const fn recording(event: &'static str, subcommand: &'static str) -> Hook {
        Hook { event, matcher: None, subcommand, refuses: false, timeout_seconds: SHORT_TIMEOUT_SECONDS }
    }

    /// The call that tells our hooks from others.
    fn call(&self) -> String {
        format!("mahabharatha hook {}", self.subcommand)
    }

    /// Does nothing where the program is missing. Claude Code takes only exit code 2 for a refusal, so a hook that may
    /// refuse ends with 2 whatever goes wrong in it.
    fn command(&self) -> String {
        let otherwise = if self.refuses { "exit 2" } else { "true" };
        format!("if {IS_INSTALLED}; then {} || {otherwise}; fi", self.call())
    }

    fn group(&self) -> Value {
        let mut group = Map::new();
        group.extend(self.matcher.map(|matcher| ("matcher".to_owned(), json!(matcher))));
        let hook = json!({ "type": "command", "command": self.command(), "timeout": self.timeout_seconds });
        group.insert("hooks".to_owned(), json!([hook]));
        Value::Object(group)
    }
}

const IS_INSTALLED: &str = "command -v mahabharatha >/dev/null 2>&1";
/// Turns on Claude Code's task tools, which are off by default: with them the session sees the feature's tasks.
const TASK_TOOLS: &str = "CLAUDE_CODE_ENABLE_TODO_TOOLS";
const STATUS_LINE_CALL: &str = "mahabharatha status --line";

fn status_line() -> Value {
    json!({ "type": "command", "command": format!("if {IS_INSTALLED}; then {STATUS_LINE_CALL}; fi") })
}

/// The hooks as a plugin's `hooks/hooks.json` has them.
pub fn plugin_hooks() -> Value {
    let groups = HOOKS.iter().map(|hook| (hook.event.to_owned(), json!([hook.group()])));
    json!({ "hooks": Value::Object(groups.collect()) })
}

/// Which of our entries a command edits, or has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entries {
    /// The hooks and the variable.
    pub hooks: bool,
    pub status_line: bool,
}

impl Entries {
    pub fn selected(selection: &Selection) -> Entries {
        Entries { hooks: selection.has(Group::Hooks), status_line: selection.has(Group::StatusLine) }
    }

    pub fn groups(self) -> Vec<Group> {
        let groups = [(Group::Hooks, self.hooks), (Group::StatusLine, self.status_line)];
        groups.into_iter().filter(|(_, is_meant)| *is_meant).map(|(group, _)| group).collect()
    }
}

/// What we added to the file besides hooks, so that it can be taken out again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// The file itself is ours.
    #[serde(default)]
    created: bool,
    /// Objects, lists and values that were not there before, such as `hooks.Stop`.
    #[serde(default)]
    places: BTreeSet<String>,
}

impl Added {
    pub fn is_nothing(&self) -> bool {
        *self == Added::default()
    }
}

/// An edit of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Edit {
    pub result: Edited,
    /// The entries that were added, updated or removed.
    pub changed: Entries,
}

/// What the file holds after an edit.
#[derive(Debug, PartialEq, Eq)]
pub enum Edited {
    Unchanged,
    Text(String),
    /// Nothing is left, and the file was ours.
    Gone,
}

/// Adds our entries. What the user wrote differently stays. `old` is the text of the file, if there is one.
pub fn add(path: &Path, old: Option<&str>, entries: Entries, added: &mut Added) -> Result<Edit> {
    let mut text = parse(path, old)?;
    if !text.value().is_object() {
        return Err(not_a(path, "the file", "an object"));
    }
    let mut changed = Entries::default();
    let found = text.clone();
    if entries.hooks {
        container(path, &mut text, &[Key("hooks")], json!({}), added)?;
        for hook in &HOOKS {
            add_hook(path, &mut text, hook, added)?;
        }
        container(path, &mut text, &[Key("env")], json!({}), added)?;
        if text.value()["env"].get(TASK_TOOLS).is_none() {
            text.add(&[Key("env")], Some(TASK_TOOLS), &json!("1"));
            added.places.insert(place(&[Key("env"), Key(TASK_TOOLS)]));
        }
        changed.hooks = text != found;
    }
    if entries.status_line && text.value().get("statusLine").is_none() {
        text.add(&[], Some("statusLine"), &status_line());
        changed.status_line = true;
    }
    if old.is_some_and(|old| old == text.text()) {
        return Ok(Edit { result: Edited::Unchanged, changed });
    }
    added.created |= old.is_none();
    Ok(Edit { result: Edited::Text(text.text().to_owned()), changed })
}

/// Whether the settings have a status line that is not ours.
pub fn has_other_status_line(settings: &Value) -> bool {
    settings.get("statusLine").is_some_and(|found| *found != status_line())
}

/// Takes our entries out. What the user wrote differently stays.
pub fn remove(path: &Path, old: &str, entries: Entries, added: &mut Added) -> Result<Edit> {
    let mut text = parse(path, Some(old))?;
    let mut changed = Entries::default();
    let found = text.clone();
    if entries.hooks {
        for hook in &HOOKS {
            remove_hook(&mut text, hook);
            remove_container(&mut text, &[Key("hooks"), Key(hook.event)], added);
        }
        remove_container(&mut text, &[Key("hooks")], added);
        if added.places.remove(&place(&[Key("env"), Key(TASK_TOOLS)])) && text.value()["env"][TASK_TOOLS] == "1" {
            text.remove(&[Key("env"), Key(TASK_TOOLS)]);
        }
        remove_container(&mut text, &[Key("env")], added);
        changed.hooks = text != found;
    }
    if entries.status_line && text.value()["statusLine"] == status_line() {
        text.remove(&[Key("statusLine")]);
        changed.status_line = true;
    }
    let is_gone = text.value() == json!({}) && added.created;
    if is_gone || entries.hooks && entries.status_line {
        *added = Added::default();
    }
    let result = match text == found {
        _ if is_gone => Edited::Gone,
        true => Edited::Unchanged,
        false => Edited::Text(text.text().to_owned()),
    };
    // A file of ours that the user emptied goes with the entries that it was made for.
    let nothing_left = is_gone && changed == Entries::default();
    Ok(Edit { result, changed: if nothing_left { entries } else { changed } })
}

/// Adds a hook, unless the user has one that makes the same call.
fn add_hook(path: &Path, text: &mut JsonText, hook: &Hook, added: &mut Added) -> Result<()> {
    let event = [Key("hooks"), Key(hook.event)];
    container(path, text, &event, json!([]), added)?;
    let groups = text.value()["hooks"][hook.event].as_array().cloned().unwrap_or_default();
    let calls_ours = |found: &Value| found["command"].as_str().is_some_and(|text| text.contains(&hook.call()));
    if !groups.iter().flat_map(hooks_of).any(calls_ours) {
        text.add(&event, None, &hook.group());
    }
    Ok(())
}

/// Removes a hook of ours, and its group if nothing else is in it.
fn remove_hook(text: &mut JsonText, hook: &Hook) {
    let (settings, ours) = (text.value(), hook.command());
    let groups = settings["hooks"][hook.event].as_array().map(Vec::as_slice).unwrap_or_default();
    for (group_at, group) in groups.iter().enumerate().rev() {
        let group_path = [Key("hooks"), Key(hook.event), At(group_at)];
        let [hooks, event, at] = group_path;
        let mut removed = false;
        for (hook_at, found) in hooks_of(group).iter().enumerate().rev() {
            if found["command"] == ours.as_str() {
                text.remove(&[hooks, event, at, Key("hooks"), At(hook_at)]);
                removed = true;
            }
        }
        let left = &text.value()["hooks"][hook.event][group_at]["hooks"];
        if removed && left.as_array().is_some_and(Vec::is_empty) {
            text.remove(&group_path);
        }
    }
}

fn hooks_of(group: &Value) -> &[Value] {
    group["hooks"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Makes sure that there is a value of this kind, an object or a list.
fn container(path: &Path, text: &mut JsonText, steps: &[Step<'_>], empty: Value, added: &mut Added) -> Result<()> {
    let Some((Key(name), above)) = steps.split_last() else { return Ok(()) };
    let settings = text.value();
    let parent = above.iter().fold(&settings, |value, step| match step {
        Key(key) => &value[*key],
        At(at) => &value[*at],
    });
    match parent.get(*name) {
        None => {
            text.add(above, Some(name), &empty);
            added.places.insert(place(steps));
        }
        Some(found) if found.is_object() != empty.is_object() || found.is_array() != empty.is_array() => {
            return Err(not_a(path, &place(steps), if empty.is_array() { "a list" } else { "an object" }));
        }
        Some(_) => {}
    }
    Ok(())
}

/// Removes an object or a list of ours if nothing is in it.
fn remove_container(text: &mut JsonText, steps: &[Step<'_>], added: &mut Added) {
    if added.places.remove(&place(steps)) {
        text.remove_if_empty(steps);
    }
}

fn place(steps: &[Step<'_>]) -> String {
    let names = steps.iter().map(|step| match step {
        Key(key) => (*key).to_owned(),
        At(at) => at.to_string(),
    });
    names.collect::<Vec<_>>().join(".")
}

fn parse(path: &Path, text: Option<&str>) -> Result<JsonText> {
    JsonText::parse(text.unwrap_or_default()).map_err(|error| {
        let place = format!("{}:{}:{}", path.display(), error.line(), error.column());
        Error::new(ExitCode::Invalid, format!("{place}: not valid JSON: {error}"))
            .hint("Correct the file, then run the same command again; nothing was changed.")
    })
}

fn not_a(path: &Path, place: &str, what: &str) -> Error {
    Error::new(ExitCode::Invalid, format!("{}: {place} is not {what}", path.display()))
        .hint("Correct the file, then run the same command again; nothing was changed.")
}

#[cfg(test)]
mod tests;
