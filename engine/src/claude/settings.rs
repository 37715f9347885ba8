//! Adds and removes our entries in a `settings.json`: hooks, an environment variable, and the status line. Everything
//! else in the file must stay as it is.

use std::collections::BTreeSet;
use std::path::Path;

use mahabharatha_sys::error::{Error, Kind, Result};
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
    /// Whether the hook may deny the call. A hook that only records never fails.
    refuses: bool,
    timeout_seconds: u32,
}

const SHORT_TIMEOUT_SECONDS: u32 = 30;
/// Long enough to verify a task, which times out after 300 seconds by default.
const VERIFICATION_TIMEOUT_SECONDS: u32 = 600;

/// Writes, shell commands, and the tools of our MCP server.
const WRITES: &str = "Write|Edit|MultiEdit|NotebookEdit|Bash|mcp__mahabharatha__.*";

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

    /// Returns the call by which our hooks are recognised.
    fn call(&self) -> String {
        format!("mahabharatha hook {}", self.subcommand)
    }

    /// Returns whether an entry of the settings calls this hook.
    fn is_called_by(&self, entry: &Value) -> bool {
        entry["command"].as_str().is_some_and(|text| text.contains(&self.call()))
    }

    /// Returns the shell command, which does nothing if the program is not installed. Claude Code takes only exit code
    /// 2 as a denial, so a hook that may deny exits with 2 on any failure.
    fn command(&self) -> String {
        let on_failure = if self.refuses { "exit 2" } else { "true" };
        format!("if {IS_INSTALLED}; then {} || {on_failure}; fi", self.call())
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
/// Turns on Claude Code's task tools, which are off by default and show the feature's tasks in the session.
const TASK_TOOLS: &str = "CLAUDE_CODE_ENABLE_TODO_TOOLS";
const STATUS_LINE_CALL: &str = "mahabharatha status --line";

fn status_line() -> Value {
    json!({ "type": "command", "command": format!("if {IS_INSTALLED}; then {STATUS_LINE_CALL}; fi") })
}

/// Returns the hooks as the contents of a plugin's `hooks/hooks.json`.
pub fn plugin_hooks() -> Value {
    let groups = HOOKS.iter().map(|hook| (hook.event.to_owned(), json!([hook.group()])));
    json!({ "hooks": Value::Object(groups.collect()) })
}

/// Set of our entries that a command edits or has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entries {
    /// The hooks and the environment variable.
    pub hooks: bool,
    pub status_line: bool,
}

impl Entries {
    pub fn selected(selection: &Selection) -> Entries {
        Entries { hooks: selection.has(Group::Hooks), status_line: selection.has(Group::StatusLine) }
    }

    pub fn groups(self) -> Vec<Group> {
        let groups = [(Group::Hooks, self.hooks), (Group::StatusLine, self.status_line)];
        groups.into_iter().filter(|(_, is_in)| *is_in).map(|(group, _)| group).collect()
    }
}

/// Record of what we added to the file besides hooks, for removal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// We created the file.
    #[serde(default)]
    pub(super) created: bool,
    /// Paths of objects, lists and values that we added, such as `hooks.Stop`.
    #[serde(default)]
    pub(super) places: BTreeSet<String>,
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

/// State of the file after an edit.
#[derive(Debug, PartialEq, Eq)]
pub enum Edited {
    Unchanged,
    Text(String),
    /// Nothing is left, and we created the file.
    Gone,
}

/// Adds our entries, except where the user has a different value. `old` is the text of the file, if it exists.
pub fn add(path: &Path, old: Option<&str>, entries: Entries, added: &mut Added) -> Result<Edit> {
    let mut text = parse(path, old)?;
    if !text.value().is_object() {
        return Err(not_a(path, "the file", "an object"));
    }
    let mut changed = Entries::default();
    let found = text.clone();
    if entries.hooks {
        ensure_container(path, &mut text, &[Key("hooks")], json!({}), added)?;
        for hook in &HOOKS {
            add_hook(path, &mut text, hook, added)?;
        }
        ensure_container(path, &mut text, &[Key("env")], json!({}), added)?;
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

/// Returns whether the settings have a status line that is not ours.
pub fn has_other_status_line(settings: &Value) -> bool {
    settings.get("statusLine").is_some_and(|found| *found != status_line())
}

/// Returns whether the settings have the hook that lets sessions make the calls of slash commands.
pub fn has_hooks(settings: &Value) -> bool {
    let [hook, ..] = &HOOKS;
    let groups = settings["hooks"][hook.event].as_array().map(Vec::as_slice).unwrap_or_default();
    groups.iter().flat_map(hooks_of).any(|found| hook.is_called_by(found))
}

/// Removes our entries, except those that the user changed.
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
    // The user emptied a file that we created: report its entries as removed.
    let nothing_left = is_gone && changed == Entries::default();
    Ok(Edit { result, changed: if nothing_left { entries } else { changed } })
}

/// Adds a hook unless an existing one makes the same call.
fn add_hook(path: &Path, text: &mut JsonText, hook: &Hook, added: &mut Added) -> Result<()> {
    let event = [Key("hooks"), Key(hook.event)];
    ensure_container(path, text, &event, json!([]), added)?;
    let groups = text.value()["hooks"][hook.event].as_array().cloned().unwrap_or_default();
    if !groups.iter().flat_map(hooks_of).any(|found| hook.is_called_by(found)) {
        text.add(&event, None, &hook.group());
    }
    Ok(())
}

/// Removes one of our hooks, and its group if that is then empty.
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

/// Creates the object or list at `steps` if it is missing; fails if a value of another kind is there.
pub(super) fn ensure_container(
    path: &Path,
    text: &mut JsonText,
    steps: &[Step<'_>],
    empty: Value,
    added: &mut Added,
) -> Result<()> {
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

/// Removes an object or list that we added if it is empty.
pub(super) fn remove_container(text: &mut JsonText, steps: &[Step<'_>], added: &mut Added) {
    if added.places.remove(&place(steps)) {
        text.remove_if_empty(steps);
    }
}

pub(super) fn place(steps: &[Step<'_>]) -> String {
    let names = steps.iter().map(|step| match step {
        Key(key) => (*key).to_owned(),
        At(at) => at.to_string(),
    });
    names.collect::<Vec<_>>().join(".")
}

pub(super) fn parse(path: &Path, text: Option<&str>) -> Result<JsonText> {
    JsonText::parse(text.unwrap_or_default()).map_err(|error| {
        let place = format!("{}:{}:{}", path.display(), error.line(), error.column());
        Error::new(Kind::Invalid, format!("{place}: not valid JSON: {error}"))
            .hint("Nothing was changed; correct the file, then run the command again.")
    })
}

pub(super) fn not_a(path: &Path, place: &str, what: &str) -> Error {
    Error::new(Kind::Invalid, format!("{}: {place} is not {what}", path.display()))
        .hint("Nothing was changed; correct the file, then run the command again.")
}

#[cfg(test)]
mod tests;
