//! A design as the architect proposes it: reasoning, interface stubs and the task graph.

mod document;
mod manifest;
mod skeleton;
mod stubs;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::ids::Feature;
use crate::spec::{GraphFile, Shared, TaskSpec};

pub use document::{Page, design_document};
pub use manifest::design_manifest;
pub use skeleton::{is_form, skeleton, unfilled};
pub use stubs::{stub_in_the_way, stubs_fail, too_late, unreadable};

/// Name and purpose of each level.
pub const LEVELS: [(&str, &str); 5] = [
    ("Foundations", "types, schemas, configuration: what everything else builds on"),
    ("Core logic", "the actual logic, written against the interfaces of level 0"),
    ("Integration", "connecting the parts"),
    ("Consumers", "command lines, endpoints, pages: what users and other programs call"),
    ("Verification", "end-to-end tests, documentation"),
];

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Design {
    pub summary: String,
    pub goals: Vec<String>,
    pub non_goals: Vec<String>,
    pub architecture: String,
    pub components: Vec<Component>,
    pub data_flow: String,
    pub decisions: Vec<Decision>,
    pub risks: Vec<Risk>,
    pub testing: Vec<String>,
    pub stubs: Vec<Stub>,
    pub stub_check: Option<StubCheck>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Component {
    pub name: String,
    pub responsibility: String,
    pub files: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Decision {
    pub title: String,
    pub context: String,
    pub options: Vec<Choice>,
    pub decision: String,
    pub rationale: String,
    pub consequences: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Choice {
    pub name: String,
    pub pros: String,
    pub cons: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Risk {
    pub risk: String,
    pub probability: String,
    pub impact: String,
    pub mitigation: String,
}

/// A file with signatures that tasks are written against. It is committed before the first task starts.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Stub {
    pub path: String,
    pub content: String,
    pub purpose: String,
}

/// The command that checks that the stubs compile.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StubCheck {
    pub command: String,
    #[serde(default = "default_stub_check_seconds")]
    pub timeout_seconds: u64,
}

fn default_stub_check_seconds() -> u64 {
    300
}

/// The architect's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub design: Design,
    pub graph: GraphFile,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    design: Design,
    tasks: Vec<Shared<TaskSpec>>,
}

impl Proposal {
    /// Parses the answer. The error tells the architect what is wrong with it.
    pub fn read(value: Value, feature: &Feature) -> Result<Proposal, String> {
        let Answer { design, tasks } =
            serde_path_to_error::deserialize(value).map_err(|error| format!("{}: {}", error.path(), error.inner()))?;
        Ok(Proposal::new(design, feature, tasks))
    }

    fn new(design: Design, feature: &Feature, tasks: Vec<Shared<TaskSpec>>) -> Proposal {
        let graph = GraphFile {
            feature: feature.to_string(),
            total_tasks: None,
            max_parallelization: None,
            tasks,
            extra: serde_json::Map::new(),
        };
        Proposal { design, graph }
    }

    pub fn schema() -> Value {
        let text = || json!({ "type": "string" });
        let texts = || json!({ "type": "array", "items": { "type": "string" } });
        let object = |required: &[&str], properties: Value| json!({ "type": "object", "required": required, "properties": properties });
        let list = |items: Value| json!({ "type": "array", "items": items });
        let choice = object(&["name"], json!({ "name": text(), "pros": text(), "cons": text() }));
        let decision = object(
            &["title", "context", "options", "decision", "rationale"],
            json!({ "title": text(), "context": text(), "options": list(choice), "decision": text(), "rationale": text(),
                "consequences": text() }),
        );
        let level = json!({ "type": "string", "enum": ["Low", "Medium", "High"] });
        let risk = object(
            &["risk", "mitigation"],
            json!({ "risk": text(), "probability": level, "impact": level, "mitigation": text() }),
        );
        let component =
            object(&["name", "responsibility"], json!({ "name": text(), "responsibility": text(), "files": texts() }));
        let stub = object(&["path", "content"], json!({ "path": text(), "content": text(), "purpose": text() }));
        let check = object(&["command"], json!({ "command": text(), "timeout_seconds": { "type": "integer" } }));
        let design = object(
            &["summary", "goals", "non_goals", "architecture", "decisions", "risks", "testing"],
            json!({ "summary": text(), "goals": texts(), "non_goals": texts(), "architecture": text(), "components": list(component),
                "data_flow": text(), "decisions": list(decision), "risks": list(risk), "testing": texts(),
                "stubs": list(stub), "stub_check": check }),
        );
        object(&["design", "tasks"], json!({ "design": design, "tasks": list(task_schema()) }))
    }
}

fn task_schema() -> Value {
    let text = || json!({ "type": "string" });
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    json!({
        "type": "object",
        "required": ["id", "title", "level", "files", "dependencies", "verification", "action", "acceptance_criteria"],
        "properties": {
            "id": text(), "title": text(), "level": { "type": "integer", "minimum": 0 }, "description": text(),
            "files": { "type": "object", "required": ["create", "modify", "read"],
                "properties": { "create": texts(), "modify": texts(), "read": texts() } },
            "dependencies": texts(),
            "verification": { "type": "object", "required": ["command"],
                "properties": { "command": text(), "timeout_seconds": { "type": "integer", "minimum": 1 } } },
            "context": text(), "action": text(), "done": text(), "interface": text(), "security": text(),
            "acceptance_criteria": texts(), "estimate_minutes": { "type": "number" },
            "estimate_tokens": { "type": "integer" },
        },
    })
}
