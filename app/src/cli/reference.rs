//! The reference pages of the documentation as Markdown: every command, and every key of the configuration.
//! `man --reference` writes them; a test compares them with `docs/reference/`.

use std::collections::BTreeMap;

use clap::builder::StyledStr;
use clap::{Arg, Command};
use serde_json::Value;

use super::man::{EXIT_CODES, usage, visible};

const GENERATED: &str = "<!-- Written by `mahabharatha man --reference docs/reference`: do not edit. -->\n";

/// Returns the page of all commands. The program must be built, so that its commands know their full names.
pub fn commands(program: &Command) -> String {
    let mut page = format!("{GENERATED}# Commands\n\n{}\n\n", sentence(program.get_about()));
    page.push_str("## Options of every command\n\n");
    page.push_str(&table(program.get_arguments().filter(|arg| is_shown(arg))));
    visible(program).for_each(|command| add_command(&mut page, command, 2));
    page.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (code, meaning) in EXIT_CODES {
        page.push_str(&format!("| {} | {} |\n", code as u8, escaped(meaning)));
    }
    page
}

fn add_command(page: &mut String, command: &Command, depth: usize) {
    let path = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let name = path.strip_prefix("mahabharatha ").unwrap_or(path);
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    page.push_str(&format!("\n{} {name}\n\n{}\n", "#".repeat(depth), sentence(command.get_about())));
    let aliases: Vec<String> = command.get_visible_aliases().map(|alias| format!("`mahabharatha {alias}`")).collect();
    if !aliases.is_empty() {
        page.push_str(&format!("The same as {}.\n", aliases.join(", ")));
    }
    page.push_str(&format!("\n```text\n{usage}\n```\n"));
    let own = table(command.get_arguments().filter(|arg| !arg.is_global_set() && is_shown(arg)));
    if !own.is_empty() {
        page.push_str(&format!("\n{own}"));
    }
    if let Some(examples) = command.get_after_help() {
        page.push_str(&format!("\n```text\n{}\n```\n", examples.to_string().trim_end()));
    }
    visible(command).for_each(|sub| add_command(page, sub, depth + 1));
}

fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version")
}

/// Returns a table of arguments, or nothing if there are none.
fn table<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    let rows: String = args.map(row).collect();
    if rows.is_empty() { rows } else { format!("| argument | meaning |\n|---|---|\n{rows}") }
}

fn row(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut meaning = sentence(help);
    let takes_value = arg.get_num_args().is_some_and(|count| count.takes_values());
    let possible = arg.get_possible_values();
    let words: Vec<String> =
        possible.iter().filter(|value| !value.is_hide_set()).map(|value| format!("`{}`", value.get_name())).collect();
    if takes_value && !words.is_empty() {
        meaning.push_str(&format!(" One of {}.", words.join(", ")));
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if takes_value && !arg.is_hide_default_value_set() && !defaults.is_empty() {
        meaning.push_str(&format!(" Default: {}.", defaults.join(", ")));
    }
    let usage = if arg.is_positional() { format!("<{}>", positional(arg)) } else { usage(arg) };
    format!("| `{}` | {} |\n", usage.replace('|', "\\|"), meaning.trim())
}

fn positional(arg: &Arg) -> String {
    let name = arg.get_value_names().and_then(|names| names.first());
    name.map_or_else(|| arg.get_id().to_string().to_uppercase(), ToString::to_string)
}

/// Returns the page of all keys of the configuration, from its JSON Schema.
pub fn config_keys(schema: &Value) -> String {
    let mut keys = BTreeMap::new();
    collect_keys("", schema, &mut keys);
    format!(
        "{GENERATED}# Configuration keys\n\nEvery key of `.mahabharatha/config.yaml`. [Configuration](../config.md) explains \
         them by topic, with examples.\n\n| key | type | default | meaning |\n|---|---|---|---|\n{}",
        keys.into_values().collect::<String>()
    )
}

/// Collects the row of each key below `prefix` that holds a value.
fn collect_keys(prefix: &str, schema: &Value, rows: &mut BTreeMap<String, String>) {
    let forms = schema["anyOf"].as_array().into_iter().flatten();
    forms.for_each(|form| collect_keys(prefix, form, rows));
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let is_required = schema["required"].as_array().is_some_and(|required| required.iter().any(|key| key == name));
        if inner["items"]["properties"].is_object() {
            collect_keys(&format!("{key}[]"), &inner["items"], rows);
        } else if inner["additionalProperties"]["properties"].is_object() {
            collect_keys(&format!("{key}.<name>"), &inner["additionalProperties"], rows);
            collect_keys(&key, inner, rows);
        } else if !inner.to_string().contains("\"properties\"") {
            let default = match (&inner["default"], is_required) {
                (_, true) => "required".to_owned(),
                (Value::Null, false) => String::new(),
                (default, false) => format!("`{}`", yaml(default)),
            };
            let meaning = inner["description"].as_str().unwrap_or_default();
            let row = format!("| `{key}` | {} | {default} | {} |\n", kind(inner), meaning.replace('|', "\\|"));
            rows.insert(key, row);
        } else {
            collect_keys(&key, inner, rows);
        }
    }
}

/// Returns the type that a schema allows, in words.
fn kind(schema: &Value) -> String {
    let list = |key: &str| schema[key].as_array().cloned().unwrap_or_default();
    let words: Vec<String> = list("enum").iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
    if !words.is_empty() {
        return words.join(" or ");
    }
    let forms: Vec<String> = list("anyOf").iter().filter(|form| form["type"] != "null").map(kind).collect();
    if !forms.is_empty() {
        return forms.join(" or ");
    }
    let types = list("type");
    let allows = |name: &str| schema["type"] == name || types.iter().any(|kind| kind == name);
    if allows("array") {
        let item = kind(&schema["items"]);
        return format!("list of {}", if item == "text" { "texts" } else { &item });
    }
    if allows("object") {
        return "mapping from names to texts".to_owned();
    }
    if allows("integer") {
        return format!("whole number from {} to {}", schema["minimum"], schema["maximum"]);
    }
    if allows("string") {
        return "text".to_owned();
    }
    if allows("number") {
        return schema["$comment"].as_str().unwrap_or("number").trim_start_matches("a ").to_owned();
    }
    "true or false".to_owned()
}

/// Returns a value as it is written in the configuration.
fn yaml(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(yaml).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Returns a help text as Markdown on one line, with a full stop.
fn sentence(text: Option<&StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let stop = if text.is_empty() || text.ends_with(['.', '!', '?', ']']) { "" } else { "." };
    escaped(&text) + stop
}

/// Escapes text for a table cell; what is in backquotes stays code.
fn escaped(text: &str) -> String {
    let escape = |(index, part): (usize, &str)| match index % 2 {
        0 => part.replace('<', "\\<").replace('*', "\\*").replace('|', "\\|"),
        _ => format!("`{}`", part.replace('|', "\\|")),
    };
    text.split('`').enumerate().map(escape).collect()
}
