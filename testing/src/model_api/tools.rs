//! Turns what a script wants done into calls of the tools that an agent offers.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value, json};

use super::{Act, Ask, Dialect};

/// A tool that an agent offers.
#[derive(Debug, Clone)]
pub struct Tool {
    name: String,
    /// The JSON schema of its arguments; null if it takes plain text.
    schema: Value,
}

/// A call of a tool. Its input is a string if the tool takes plain text.
#[derive(Debug, Clone)]
pub struct Call {
    pub id: String,
    pub name: String,
    pub input: Value,
}

/// Names of tools that write a file, and that run a command, best first.
const WRITERS: [&str; 5] = ["write_file", "write", "Write", "create", "apply_patch"];
const SHELLS: [&str; 6] = ["exec_command", "shell_command", "shell", "bash", "Bash", "run_shell_command"];
/// Names of their arguments.
const PATHS: [&str; 3] = ["file_path", "filePath", "path"];
const CONTENTS: [&str; 2] = ["content", "file_text"];
const COMMANDS: [&str; 2] = ["cmd", "command"];

impl Tool {
    pub fn all(dialect: Dialect, body: &Value) -> Vec<Tool> {
        let of = |tool: &Value| match dialect {
            Dialect::Messages => vec![Tool::new(tool, &["input_schema"])],
            Dialect::Chat => vec![Tool::new(&tool["function"], &["parameters"])],
            Dialect::Responses => vec![Tool::new(tool, &["parameters"])],
            Dialect::Gemini => {
                let declared = tool["functionDeclarations"].as_array().map_or(&[][..], Vec::as_slice);
                declared.iter().map(|tool| Tool::new(tool, &["parametersJsonSchema", "parameters"])).collect()
            }
        };
        body["tools"].as_array().map_or(&[][..], Vec::as_slice).iter().flat_map(of).collect()
    }

    fn new(tool: &Value, schemas: &[&str]) -> Tool {
        let schema = schemas.iter().map(|key| tool[*key].clone()).find(|schema| !schema.is_null());
        Tool { name: tool["name"].as_str().unwrap_or_default().to_owned(), schema: schema.unwrap_or_default() }
    }

    fn takes(&self, argument: &str) -> bool {
        self.schema["properties"].get(argument).is_some()
    }

    fn call(&self, known: &[(&[&str], &str)]) -> Call {
        let mut input = Map::new();
        for (names, value) in known {
            let name = names.iter().find(|name| self.takes(name));
            let name = name.unwrap_or_else(|| panic!("{} has none of {names:?}: {}", self.name, self.schema));
            let is_list = self.schema["properties"][*name]["type"] == "array";
            let value = if is_list { json!(["bash", "-c", value]) } else { json!(value) };
            input.insert((*name).to_owned(), value);
        }
        let required = self.schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        for name in required.iter().filter_map(Value::as_str) {
            input.entry(name).or_insert_with(|| filler(&self.schema["properties"][name]));
        }
        Call::of(&self.name, Value::Object(input))
    }
}

/// Any value for an argument that the script does not care about.
fn filler(schema: &Value) -> Value {
    match schema["type"].as_str().map(str::to_lowercase).as_deref() {
        _ if schema["enum"].is_array() => schema["enum"][0].clone(),
        Some("boolean") => json!(false),
        Some("number" | "integer") => json!(1),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("scripted"),
    }
}

impl Call {
    fn of(name: &str, input: Value) -> Call {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let id = format!("call_{:020}", COUNT.fetch_add(1, Ordering::Relaxed));
        Call { id, name: name.to_owned(), input }
    }
}

/// Returns what the model says, and the calls that it makes.
pub fn calls(acts: &[Act], ask: &Ask) -> (String, Vec<Call>) {
    let (mut said, mut calls) = (Vec::new(), Vec::new());
    for act in acts {
        match act {
            Act::Says(text) => said.push(text.clone()),
            // An agent without tools takes files from the text.
            Act::Writes { path, content } if !ask.has_tools() => said.push(format!("{path}\n```\n{content}```\n")),
            Act::Writes { path, content } => calls.push(write(path, content, &ask.tools)),
            Act::Runs(command) => calls.push(run(command, &ask.tools)),
        }
    }
    (said.join("\n"), calls)
}

fn find<'a>(names: &[&str], tools: &'a [Tool]) -> Option<&'a Tool> {
    names.iter().find_map(|name| tools.iter().find(|tool| tool.name == *name))
}

fn write(path: &str, content: &str, tools: &[Tool]) -> Call {
    match find(&WRITERS, tools) {
        Some(tool) if tool.name == "apply_patch" => {
            let lines: String = content.lines().map(|line| format!("+{line}\n")).collect();
            let patch = format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n");
            let takes_text = tool.schema.is_null();
            if takes_text { Call::of(&tool.name, json!(patch)) } else { tool.call(&[(&["input"], &patch)]) }
        }
        Some(tool) => tool.call(&[(&PATHS, path), (&CONTENTS, content)]),
        None => run(&format!("cat > '{path}' <<'END'\n{content}END\n"), tools),
    }
}

fn run(command: &str, tools: &[Tool]) -> Call {
    let names = || tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>();
    let tool = find(&SHELLS, tools).unwrap_or_else(|| panic!("the agent offers no shell: {:?}", names()));
    tool.call(&[(&COMMANDS, command)])
}
