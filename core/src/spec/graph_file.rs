//! `task-graph.json` as it stands in the file. Unknown fields are kept and written back.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::SpecError;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphFile {
    pub feature: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tasks: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallelization: Option<u64>,
    pub tasks: Vec<TaskSpec>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Needs a person or MCP tools; never started headless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreground: bool,
    /// What the `command` agent runs for this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    #[serde(default)]
    pub command: String,
    #[serde(default = "default_timeout")]
    pub timeout_seconds: u64,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
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
        serde_json::from_str(text).map_err(|error| SpecError {
            at: (error.line() > 0).then(|| (error.line(), error.column())),
            message: error.to_string(),
        })
    }
}
