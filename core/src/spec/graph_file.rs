//! `task-graph.json` as written in the file. Unknown fields are kept and written back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Shared, SpecError};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "an object with `feature` and `tasks`")]
pub struct GraphFile {
    pub feature: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tasks: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallelization: Option<u64>,
    pub tasks: Vec<Shared<TaskSpec>>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "an object with `id`, `title` and `level`")]
pub struct TaskSpec {
    pub id: String,
    pub title: String,
    pub level: u32,
    #[serde(default)]
    pub files: FileLists,
    #[serde(default)]
    pub dependencies: Vec<String>,
    #[serde(default)]
    pub verification: Verification,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance_criteria: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_minutes: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// One of the words of `Effort`, validated by the graph check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_model: Option<String>,
    /// Needs a person or MCP tools; never started headless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreground: bool,
    /// What it follows up, after that is merged. Such a task may change files of tasks on other levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_up: Option<String>,
    /// Command that the `command` agent runs for this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "an object with `create`, `modify` and `read`")]
pub struct FileLists {
    #[serde(default)]
    pub create: Vec<String>,
    #[serde(default)]
    pub modify: Vec<String>,
    #[serde(default)]
    pub read: Vec<String>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "an object with `command` and `timeout_seconds`")]
pub struct Verification {
    #[serde(default)]
    pub command: String,
    #[serde(default = "default_timeout")]
    pub timeout_seconds: u64,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The names of the fields that are read; any other is kept in `extra`.
impl GraphFile {
    pub const FIELDS: [&str; 4] = ["feature", "total_tasks", "max_parallelization", "tasks"];
}

impl TaskSpec {
    pub const FIELDS: [&str; 22] = [
        "id",
        "title",
        "level",
        "files",
        "dependencies",
        "verification",
        "description",
        "context",
        "action",
        "done",
        "interface",
        "security",
        "acceptance_criteria",
        "estimate_minutes",
        "estimate_tokens",
        "agent",
        "model",
        "effort",
        "fallback_model",
        "foreground",
        "follow_up",
        "run",
    ];
}

impl FileLists {
    pub const FIELDS: [&str; 3] = ["create", "modify", "read"];
}

impl Verification {
    pub const FIELDS: [&str; 2] = ["command", "timeout_seconds"];

    /// Tells whether there is no command that could fail: nothing but space and comments.
    pub fn is_blank(&self) -> bool {
        self.command.lines().map(str::trim_start).all(|line| line.is_empty() || line.starts_with('#'))
    }
}

fn default_timeout() -> u64 {
    300
}

impl Default for Verification {
    fn default() -> Self {
        Verification { command: String::new(), timeout_seconds: default_timeout(), extra: Map::new() }
    }
}

impl GraphFile {
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // To keep track of the field's path takes longer than to read the file, so it is done only for an error.
        serde_json::from_str(text).or_else(|_| GraphFile::parse_with_paths(text))
    }

    fn parse_with_paths(text: &str) -> Result<Self, SpecError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let file = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = error.path().to_string();
            spec_error(error.inner(), Some(path.as_str()).filter(|path| *path != "."))
        })?;
        json.end().map_err(|error| spec_error(&error, None))?;
        Ok(file)
    }

    /// Writes the known fields in a fixed order, then the unknown ones in the order in which they were read.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("every key is a string, so a graph is always writable as JSON");
        text.push('\n');
        text
    }
}

/// Rewords a serde error without Rust types, and adds the field's path if the field has a wrong value.
fn spec_error(error: &serde_json::Error, path: Option<&str>) -> SpecError {
    let mut message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    if let Some(bare) = message.strip_suffix(&place) {
        message.truncate(bare.len());
    }
    for (rust, plain) in [("u32", "a whole number"), ("u64", "a whole number"), ("f64", "a number")] {
        message = message.replace(&format!("expected {rust}"), &format!("expected {plain}"));
    }
    if let (true, Some(path)) = (error.is_data(), path) {
        message = format!("{path}: {message}");
    }
    SpecError { at: (error.line() > 0).then(|| (error.line(), error.column())), message }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn error(text: &str) -> String {
        GraphFile::parse(text).unwrap_err().to_string()
    }

    fn with_task(task: &str) -> String {
        format!("{{\"feature\": \"x\", \"tasks\": [\n{task}\n]}}")
    }

    #[test]
    fn unknown_fields_survive_at_every_level_in_their_order() {
        let text = r#"{
  "feature": "x",
  "total_tasks": 1,
  "tasks": [
    {
      "id": "A",
      "title": "t",
      "level": 0,
      "files": {
        "create": [
          "a"
        ],
        "modify": [],
        "read": [],
        "z_delete": [
          "b"
        ],
        "a_note": null
      },
      "dependencies": [],
      "verification": {
        "command": "true",
        "timeout_seconds": 30,
        "shell": {
          "zsh": true,
          "bash": false
        }
      },
      "estimate_minutes": 0.1,
      "zeta": 18446744073709551615,
      "alpha": -9223372036854775808,
      "float": 1.7976931348623157e+308,
      "small": 8.4115047e-317
    }
  ],
  "z": {
    "deep": [
      {
        "y": 1.0,
        "x": "é"
      }
    ]
  },
  "a": []
}
"#;
        let file = GraphFile::parse(text).unwrap();
        assert_eq!(file.to_json(), text);
        assert_eq!(GraphFile::parse(&file.to_json()).unwrap(), file);
    }

    #[test]
    fn a_short_graph_gets_the_defaults() {
        let file =
            GraphFile::parse("\u{feff}{\"feature\":\"x\",\"tasks\":[{\"id\":\"A\",\"title\":\"t\",\"level\":1}]}")
                .unwrap();
        assert_eq!(file.tasks[0].verification.timeout_seconds, 300);
        assert!(!file.tasks[0].foreground);
    }

    #[test]
    fn errors_name_the_field_and_the_position_once() {
        let wrong_type = with_task(r#"{"id": "A", "title": "t", "level": "one"}"#);
        assert_eq!(
            error(&wrong_type),
            r#"line 2, column 40: tasks[0].level: invalid type: string "one", expected a whole number"#
        );
        let missing = with_task(r#"{"id": "A", "level": 1}"#);
        assert_eq!(error(&missing), "line 2, column 23: tasks[0]: missing field `title`");
        let flat = with_task(r#"{"id": "A", "title": "t", "level": 0, "files": ["a"]}"#);
        assert_eq!(
            error(&flat),
            "line 2, column 47: tasks[0].files: invalid type: sequence, expected an object with `create`, `modify` and `read`"
        );
        assert_eq!(
            error("[]"),
            "line 1, column 0: invalid type: sequence, expected an object with `feature` and `tasks`"
        );
        assert_eq!(error("{\n  \"feature\": x}"), "line 2, column 14: expected value");
        assert_eq!(error(""), "line 1, column 0: EOF while parsing a value");
        assert!(error("{\"feature\":\"x\",\"tasks\":[]} x").ends_with("trailing characters"));
    }

    /// Each list is what the file's types read, no more and no less.
    #[test]
    fn the_known_fields_are_those_that_are_read() {
        let task = json!({
            "id": "A", "title": "t", "level": 1, "files": { "create": [], "modify": [], "read": [] },
            "dependencies": [], "verification": { "command": "true", "timeout_seconds": 1 },
            "description": "x", "context": "x", "action": "x", "done": "x", "interface": "x", "security": "x",
            "acceptance_criteria": ["x"], "estimate_minutes": 1.0, "estimate_tokens": 1, "agent": "x", "model": "x",
            "effort": "low", "fallback_model": "x", "foreground": true, "follow_up": "x", "run": "x",
        });
        let all = json!({ "feature": "x", "total_tasks": 1, "max_parallelization": 1, "tasks": [task] });
        let file = GraphFile::parse(&all.to_string()).unwrap();
        let task = &file.tasks[0];
        assert!(
            [&file.extra, &task.extra, &task.files.extra, &task.verification.extra]
                .iter()
                .all(|extra| extra.is_empty())
        );
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let written = json!(file);
        let task = &written["tasks"][0];
        assert_eq!(
            [keys(&written), keys(task), keys(&task["files"]), keys(&task["verification"])],
            [&GraphFile::FIELDS[..], &TaskSpec::FIELDS, &FileLists::FIELDS, &Verification::FIELDS]
                .map(|names| names.iter().map(|name| name.to_string()).collect::<Vec<_>>())
        );
    }

    proptest! {
        #[test]
        fn a_round_trip_loses_nothing(text in any::<String>(), whole in any::<u64>(), minutes in any::<f64>(), key in "[k-z]{9,12}") {
            prop_assume!(minutes.is_finite());
            let mut file = GraphFile::parse(&with_task(r#"{"id": "A", "title": "t", "level": 1}"#)).unwrap();
            file.extra.insert(key.clone(), json!([text, { key.clone(): whole }, minutes]));
            let task = &mut file.tasks[0];
            task.action = Some(text.clone());
            task.estimate_minutes = Some(minutes);
            task.estimate_tokens = Some(whole);
            task.files.extra.insert(key.clone(), json!(text));
            task.verification.extra.insert(key, json!(minutes));
            prop_assert_eq!(GraphFile::parse(&file.to_json()).unwrap(), file);
        }
    }

    #[test]
    fn hostile_nesting_is_an_error() {
        let deep = format!("{{\"feature\":\"x\",\"tasks\":[],\"deep\":{}", "[".repeat(100_000));
        assert!(error(&deep).contains("recursion limit"), "{}", error(&deep));
    }
}
