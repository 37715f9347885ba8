//! The hooks in a `settings.json`, with everything else in it left as it is.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Serializer, Value, json};

use crate::error::{Error, ExitCode, Result, io};

/// The client lets a call pass when a hook's program is missing or fails, unless it ends with 2.
const HOOKS: [(&str, Option<&str>, &str); 7] = [
    ("PreToolUse", Some("Write|Edit|MultiEdit|NotebookEdit|Bash"), "mahabharatha hook pre-tool-use"),
    ("TaskCompleted", None, "mahabharatha hook task-completed"),
    ("PostToolUse", Some("Agent|Task"), "mahabharatha hook post-tool-use"),
    ("SubagentStop", None, "mahabharatha hook subagent-stop"),
    ("Stop", None, "mahabharatha hook stop"),
    ("SessionStart", None, "mahabharatha hook session-start"),
    ("SessionEnd", None, "mahabharatha hook session-end"),
];

/// For the verification of a task, which is given so long unless its graph says otherwise.
const TIMEOUT_SECONDS: u32 = 600;

/// What the file must hold to have our hooks; nothing where it has them.
pub fn with_hooks(path: &Path) -> Result<Option<String>> {
    let old = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(io("read", path)(error)),
    };
    let mut settings = if old.trim().is_empty() { json!({}) } else { parse(path, &old)? };
    let hooks = match settings.as_object_mut() {
        Some(settings) => settings.entry("hooks").or_insert_with(|| json!({})),
        None => return Err(not_a(path, "the file", "an object")),
    };
    let hooks = hooks.as_object_mut().ok_or_else(|| not_a(path, "hooks", "an object"))?;
    let mut changed = false;
    for (event, matcher, command) in HOOKS {
        changed |= add_hook(path, hooks, event, matcher, command)?;
    }
    Ok(changed.then(|| write(&settings, indent_of(&old))))
}

/// Whether it was added. One that a person wrote differently counts as there.
fn add_hook(
    path: &Path,
    hooks: &mut Map<String, Value>,
    event: &str,
    matcher: Option<&str>,
    command: &str,
) -> Result<bool> {
    let groups = hooks.entry(event).or_insert_with(|| json!([]));
    let groups = groups.as_array_mut().ok_or_else(|| not_a(path, &format!("hooks.{event}"), "a list"))?;
    let is_ours = |hook: &Value| hook["command"].as_str().is_some_and(|text| text.contains(command));
    if groups.iter().any(|group| group["hooks"].as_array().is_some_and(|hooks| hooks.iter().any(is_ours))) {
        return Ok(false);
    }
    let hook = json!({ "type": "command", "command": format!("{command} || exit 2"), "timeout": TIMEOUT_SECONDS });
    let mut group = json!({ "hooks": [hook] });
    if let Some(matcher) = matcher {
        group = json!({ "matcher": matcher, "hooks": group["hooks"] });
    }
    groups.push(group);
    Ok(true)
}

fn parse(path: &Path, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| {
        let place = format!("{}:{}:{}", path.display(), error.line(), error.column());
        Error::new(ExitCode::Invalid, format!("{place}: not valid JSON: {error}"))
            .hint("Mend the file, then run the same command again; nothing was changed.")
    })
}

fn not_a(path: &Path, place: &str, what: &str) -> Error {
    Error::new(ExitCode::Invalid, format!("{}: {place} is not {what}", path.display()))
        .hint("Mend the file, then run the same command again; nothing was changed.")
}

fn indent_of(text: &str) -> &str {
    let indented = text.lines().find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
    indented.map_or("  ", |line| &line[..line.len() - line.trim_start().len()])
}

fn write(settings: &Value, indent: &str) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(indent.as_bytes()));
    settings.serialize(&mut serializer).expect("JSON values are written to memory");
    String::from_utf8(bytes).expect("JSON is UTF-8") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(text: &str) -> Result<Option<String>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        fs::write(&path, text).unwrap();
        with_hooks(&path)
    }

    #[test]
    fn what_is_there_stays_in_its_order_and_form() {
        let old = "{\n\t\"z\": 1.50,\n\t\"hooks\": {\n\t\t\"Stop\": [],\n\t\t\"PreToolUse\": [\n\t\t\t{\n\t\t\t\t\"matcher\": \"Bash\",\n\t\t\t\t\"hooks\": []\n\t\t\t}\n\t\t]\n\t},\n\t\"a\": \"ü\"\n}\n";
        let new = merged(old).unwrap().unwrap();
        let value: Value = serde_json::from_str(&new).unwrap();
        assert_eq!(value.as_object().unwrap().keys().collect::<Vec<_>>(), ["z", "hooks", "a"]);
        assert_eq!(
            value["hooks"].as_object().unwrap().keys().collect::<Vec<_>>(),
            ["Stop", "PreToolUse", "TaskCompleted"]
        );
        assert_eq!(value["hooks"]["PreToolUse"][0]["matcher"], "Bash");
        let command = &value["hooks"]["PreToolUse"][1]["hooks"][0]["command"];
        assert_eq!(command, "mahabharatha hook pre-tool-use || exit 2");
        assert!(new.starts_with("{\n\t\"z\": 1.5") && new.contains("\t\"a\": \"ü\"\n}\n"), "{new}");
        assert_eq!(merged(&new).unwrap(), None, "a second time changes nothing");
    }

    #[test]
    fn a_hook_that_a_person_wrote_differently_is_left_as_it_is() {
        let by_hand = |command: &str| json!([{ "hooks": [{ "type": "command", "command": command }] }]);
        let settings = json!({ "hooks": {
            "PreToolUse": by_hand("/opt/bin/mahabharatha hook pre-tool-use"),
            "TaskCompleted": by_hand("mahabharatha hook task-completed; exit 0"),
        } });
        assert_eq!(merged(&settings.to_string()).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_understood_is_an_error_that_names_the_place() {
        for (text, place) in [
            ("{\n  \"a\": 1,\n}", "settings.json:3:1: not valid JSON"),
            ("[]", "the file is not an object"),
            ("{\"hooks\": 3}", "hooks is not an object"),
            ("{\"hooks\": {\"PreToolUse\": {}}}", "hooks.PreToolUse is not a list"),
        ] {
            let error = merged(text).unwrap_err();
            assert!(error.exit() == ExitCode::Invalid && error.message().contains(place), "{error}");
        }
    }
}
