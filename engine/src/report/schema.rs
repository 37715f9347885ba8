//! JSON Schemas of what programs read and write: derived from the types, so that they cannot drift from them.

use mahabharatha_core::config::Config;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::spec::GraphFile;
use mahabharatha_core::view::{LevelView, PlannedView, RunView, TaskView};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::gate_runs::GateRunView;
use super::stream::{Ended, FailedGate, Log};

/// The page that describes every key of the configuration; a test compares it with the reader.
const CONFIG_PAGE: &str = include_str!("../../../docs/config.md");
/// The dialect of all schemas.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns the schema of `task-graph.json`.
pub fn graph() -> Value {
    let generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    generator.into_root_schema_for::<GraphFile>().to_value()
}

/// Returns the schema of the configuration, with the default and the meaning of each key from the documentation.
pub fn config() -> Value {
    let mut schema = Config::schema();
    schema["$schema"] = json!(DIALECT);
    schema["title"] = json!("config");
    for row in CONFIG_PAGE.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [key, _, default, meaning] = cells.as_slice() else { continue };
        if let Some(described) = find(&mut schema, key.trim_matches('`')) {
            described["description"] = json!(plain(meaning));
            if let Some(default) = default.strip_prefix('`').and_then(|text| text.strip_suffix('`')) {
                described["default"] = documented_value(default);
            }
        }
    }
    schema
}

/// Returns the schema of `status --json`, for a run and for a feature that was not run yet.
pub fn status() -> Value {
    let mut generator = writer();
    let run = generator.subschema_for::<RunView>().to_value();
    let planned = generator.subschema_for::<PlannedView>().to_value();
    let gate = generator.subschema_for::<GateRunView>().to_value();
    let setup = generator.subschema_for::<Cost>().to_value();
    let text = json!({ "type": ["string", "null"] });
    let object = |fields: Value| json!({ "type": ["object", "null"], "properties": fields });
    // What `status` knows beside the run.
    let added = json!({
        "requirements": text,
        "setup": setup,
        "worktree_bytes": { "type": ["integer", "null"] },
        "running_gate": object(json!({
            "gate": text, "command": text, "at": text, "started_at": text, "last_line": text,
            "elapsed_seconds": { "type": "integer" },
        })),
        "gates": { "type": "array", "items": gate },
        "task_list": object(json!({ "id": text, "shown_instead": text, "trouble": text })),
        "mismatches": {
            "type": "array",
            "items": { "type": "object", "properties": { "task": text, "ours": text, "claude": text } },
        },
        "workers": {
            "type": "array",
            "items": { "type": "object", "properties": {
                "doing": text, "tokens": { "type": ["integer", "null"] }, "phase": text, "phase_since": text,
                "agent": text, "model": text,
            } },
        },
    });
    json!({
        "$schema": DIALECT,
        "title": "status",
        "description": "What `mahabharatha status --json` prints. More fields may come at any time.",
        "type": "object",
        "anyOf": [run, planned],
        "properties": added,
        "$defs": generator.take_definitions(true),
    })
}

/// Returns the schema of a line of `run`, `attach` and `merge --json`.
pub fn events() -> Value {
    let mut generator = writer();
    let mut cases = Vec::new();
    let known = [
        ("run", reference::<RunView>(&mut generator)),
        ("task", reference::<TaskView>(&mut generator)),
        ("level", reference::<LevelView>(&mut generator)),
        ("gate_failed", reference::<FailedGate<'_>>(&mut generator)),
        ("log", reference::<Log<'_>>(&mut generator)),
        ("end", reference::<Ended>(&mut generator)),
    ];
    for (event, fields) in known {
        cases.push(json!({ "if": { "properties": { "event": { "const": event } } }, "then": fields }));
    }
    json!({
        "$schema": DIALECT,
        "title": "event",
        "description": "A line of `run`, `attach` or `merge --json`. More events and fields may come at any time.",
        "type": "object",
        "required": ["version", "at", "event"],
        "properties": {
            "version": { "type": "integer" },
            "at": { "type": "string" },
            "event": { "type": "string" },
            "seq": { "type": "integer" },
        },
        "allOf": cases,
        "$defs": generator.take_definitions(true),
    })
}

fn writer() -> SchemaGenerator {
    SchemaSettings::draft2020_12().for_serialize().into_generator()
}

fn reference<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

/// Finds the schema of a key as documents write it: `quality_gates[].name`, `agents.<name>.kind`.
fn find<'a>(schema: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    key.split('.').try_fold(schema, |schema, part| {
        let schema = match schema.get("anyOf") {
            Some(_) => schema["anyOf"].as_array_mut()?.iter_mut().find(|form| form.get("properties").is_some())?,
            None => schema,
        };
        match (part, part.strip_suffix("[]")) {
            ("<name>", _) => schema.get_mut("additionalProperties"),
            (_, Some(list)) => schema.get_mut("properties")?.get_mut(list)?.get_mut("items"),
            (name, None) => schema.get_mut("properties")?.get_mut(name),
        }
    })
}

/// Reads a default as the documentation writes it: a word, a number, a list of words.
fn documented_value(text: &str) -> Value {
    if let Some(items) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return items.split(", ").filter(|item| !item.is_empty()).collect();
    }
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

/// Returns Markdown without its links.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        let (above, label) = before.rsplit_once('[').unwrap_or((before, ""));
        text.push_str(above);
        text.push_str(label);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_text() {
        assert_eq!(plain("See [Gates](#gates), or [this](a.md#b) `[x]`."), "See Gates, or this `[x]`.");
        assert_eq!(plain("No link"), "No link");
    }

    #[test]
    fn defaults_are_values_of_their_type() {
        let schema = config();
        assert_eq!(schema["properties"]["workers"]["properties"]["timeout_minutes"]["default"], json!(60));
        assert_eq!(schema["properties"]["merge"]["properties"]["target"]["default"], json!("base"));
        assert_eq!(schema["properties"]["env"]["properties"]["pass"]["default"], json!([]));
        assert_eq!(schema["properties"]["notify"]["properties"]["on"]["default"][1], json!("blocked"));
        assert_eq!(schema["properties"]["budget"]["properties"]["max_usd"].get("default"), None);
    }

    #[test]
    fn every_key_of_the_configuration_is_described() {
        fn undescribed(path: &str, schema: &Value, found: &mut Vec<String>) {
            if !schema.is_object() {
                return;
            }
            let forms = schema["anyOf"].as_array().into_iter().flatten();
            for form in forms.chain([&schema["items"], &schema["additionalProperties"]]) {
                undescribed(path, form, found);
            }
            for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}.{name}");
                let is_table = inner.to_string().contains("\"properties\"");
                if !is_table && inner["description"].as_str().is_none_or(str::is_empty) {
                    found.push(path.clone());
                }
                undescribed(&path, inner, found);
            }
        }
        let mut found = Vec::new();
        undescribed("", &config(), &mut found);
        assert_eq!(found, [""; 0]);
    }
}
