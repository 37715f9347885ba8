//! The tools: names, arguments and the command line that each call stands for.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Value, json};

/// A call of a tool. The descriptions are those that clients show to models.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "tool", content = "arguments", rename_all = "snake_case", deny_unknown_fields)]
enum Call {
    /// Show a feature's progress: its tasks, levels, workers, gates, problems and cost.
    Status {},
    /// Open the feature's run for this session, or resume it. The session then runs the tasks level by level, and no other
    /// session or `run` can. Answers with the next step. Runs the gates on the base, so it may take long.
    Start {
        /// Tasks at once, at most 10; without it workers.count of the configuration
        workers: Option<u32>,
        /// Run even if a gate fails on the base; such gates are only reported
        allow_red_base: Option<bool>,
    },
    /// Tell the next step: start, claim, wait, merge, fix, or that the run is completed, blocked or failed.
    Next {},
    /// Claim tasks. Each gets a worktree, which is this session's until the task is completed or failed.
    Claim {
        /// Ids of the tasks
        tasks: Vec<String>,
    },
    /// Return the prompt of a claimed task: what to do, in which worktree, and which files it owns.
    Prompt {
        /// Id of the task
        task: String,
    },
    /// Check which files changed, and run the task's verification. The task stays claimed. May take long.
    Verify {
        /// Id of the task
        task: String,
    },
    /// Check, verify and commit the work of a claimed task. Only this completes a task. May take long.
    Complete {
        /// Id of the task
        task: String,
        /// Decisions that later tasks must know
        #[serde(default)]
        decisions: Vec<String>,
    },
    /// End the attempt at a claimed task as failed. Its work is kept, and the next prompt has the reason.
    Fail {
        /// Id of the task
        task: String,
        /// What went wrong, for the next attempt
        reason: String,
        /// Block the task: no other attempt until a person retries it
        blocked: Option<bool>,
    },
    /// Merge a level whose tasks are completed, behind the project's gates, or retry a failed merge. May take long.
    Merge {
        /// The level to merge; without it the lowest that is not merged
        level: Option<u32>,
        /// Retry a failed merge, for example after a conflict was resolved
        retry: Option<bool>,
        /// Show what would be merged; change nothing
        dry_run: Option<bool>,
    },
    /// Return the latest lines that workers, tasks and gates logged.
    Logs {
        /// Only this task
        task: Option<String>,
        /// Only this worker
        worker: Option<u32>,
        /// Only the output of this gate
        gate: Option<String>,
        /// Only lines since this time, or since a duration such as 10m ago
        since: Option<String>,
        /// Only this severity and above: debug, info, warn or error
        level: Option<String>,
        /// Only lines that contain this text
        search: Option<String>,
    },
    /// Show what a task, a level or the whole feature changed, as patches.
    Diff {
        /// The task; without it the level, or all that the feature has changed so far
        task: Option<String>,
        /// What this attempt at the task committed, saved, or has in its worktree
        attempt: Option<u32>,
        /// The work in progress that was saved, also where the task was completed later
        wip: Option<bool>,
        /// The whole level
        level: Option<u32>,
    },
    /// Queue tasks again that are blocked, skipped, or completed and not merged.
    Retry {
        /// Ids of the tasks
        #[serde(default)]
        tasks: Vec<String>,
        /// Every blocked task, instead of `tasks`
        all: Option<bool>,
        /// The user's answer or advice, for every later attempt at these tasks
        note: Option<String>,
    },
    /// Skip tasks. Only the user decides on that.
    Skip {
        /// Ids of the tasks
        tasks: Vec<String>,
        /// Why; shown in the reports
        reason: String,
        /// What happens to the tasks that depend on them; needed if there are any
        dependents: Option<Dependents>,
    },
    /// Let a task change files that it does not own. Only the user decides on that.
    Grant {
        /// Id of the task
        task: String,
        /// Files, or directories with a trailing `/`; all of them or none
        paths: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Dependents {
    Skip,
    Keep,
}

/// A tool of the server.
#[derive(Debug)]
pub struct ToolSpec {
    pub name: &'static str,
    effect: Effect,
    pub output: Output,
    /// What is wrong if the command fails and its data says why.
    pub refusal: &'static str,
}

/// What a tool does to the run, for clients that ask the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Works,
    /// Decides what only the user may decide.
    Decides,
}

/// What a tool's command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    Object,
    /// An object whose `prompt` is the text that the client shows.
    Prompt,
    /// Events, one per line.
    Events,
    /// Records, one per line, of which the latest are returned.
    Records,
}

const fn tool(name: &'static str, effect: Effect, output: Output, refusal: &'static str) -> ToolSpec {
    ToolSpec { name, effect, output, refusal }
}

pub const TOOLS: [ToolSpec; 14] = [
    tool("status", Effect::Reads, Output::Object, ""),
    tool("start", Effect::Works, Output::Object, "the run cannot go on by itself"),
    tool("next", Effect::Works, Output::Object, "the run cannot go on by itself"),
    tool("claim", Effect::Works, Output::Object, "not every task was claimed"),
    tool("prompt", Effect::Reads, Output::Prompt, ""),
    tool("verify", Effect::Works, Output::Object, "the work does not pass"),
    tool("complete", Effect::Works, Output::Object, "the task is not completed"),
    tool("fail", Effect::Works, Output::Object, ""),
    tool("merge", Effect::Works, Output::Events, ""),
    tool("logs", Effect::Reads, Output::Records, ""),
    tool("diff", Effect::Reads, Output::Object, ""),
    tool("retry", Effect::Works, Output::Object, "not every task was queued again"),
    tool("skip", Effect::Decides, Output::Object, "not every task was skipped"),
    tool("grant", Effect::Decides, Output::Object, "nothing was granted"),
];

pub fn find(name: &str) -> Option<&'static ToolSpec> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Returns the command line that a call stands for, without the name of the program; an error says what is wrong with the
/// arguments.
pub fn words(tool: &str, mut arguments: JsonObject) -> Result<Vec<String>, String> {
    let feature = match arguments.remove("feature") {
        None | Some(Value::Null) => None,
        Some(Value::String(feature)) => Some(format!("--feature={feature}")),
        Some(_) => return Err("feature is not a text".to_owned()),
    };
    let call: Call =
        serde_json::from_value(json!({ "tool": tool, "arguments": arguments })).map_err(|error| error.to_string())?;
    Ok(feature.into_iter().chain(call.words()).collect())
}

impl Call {
    fn words(self) -> Vec<String> {
        match self {
            Call::Status {} => Line::of("status").end(),
            Call::Start { workers, allow_red_base } => {
                Line::of("task start").option("workers", workers).flag("allow-red-base", allow_red_base).end()
            }
            Call::Next {} => Line::of("task next").end(),
            Call::Claim { tasks } => Line::of("task claim").values(tasks),
            Call::Prompt { task } => Line::of("task prompt").values([task]),
            Call::Verify { task } => Line::of("task verify").values([task]),
            Call::Complete { task, decisions } => {
                let add = |line: Line, decision| line.option("decision", Some(decision));
                decisions.into_iter().fold(Line::of("task complete"), add).values([task])
            }
            Call::Fail { task, reason, blocked } => {
                Line::of("task fail").option("reason", Some(reason)).flag("blocked", blocked).values([task])
            }
            Call::Merge { level, retry, dry_run } => {
                Line::of("merge").option("level", level).flag("retry", retry).flag("dry-run", dry_run).end()
            }
            Call::Logs { task, worker, gate, since, level, search } => Line::of("logs")
                .option("task", task)
                .option("worker", worker)
                .option("gate", gate)
                .option("since", since)
                .option("level", level)
                .option("search", search)
                .end(),
            Call::Diff { task, attempt, wip, level } => {
                Line::of("diff").option("attempt", attempt).flag("wip", wip).option("level", level).values(task)
            }
            Call::Retry { tasks, all, note } => Line::of("retry").flag("all", all).option("note", note).values(tasks),
            Call::Skip { tasks, reason, dependents } => Line::of("skip")
                .option("reason", Some(reason))
                .flag("yes", Some(dependents == Some(Dependents::Skip)))
                .flag("keep-dependents", Some(dependents == Some(Dependents::Keep)))
                .values(tasks),
            Call::Grant { task, paths } => Line::of("task grant").values([vec![task], paths].concat()),
        }
    }
}

/// Collects a command line. Values of the client never become options: they follow `=` or `--`.
struct Line(Vec<String>);

impl Line {
    fn of(command: &str) -> Line {
        Line(command.split(' ').map(str::to_owned).collect())
    }

    fn option(mut self, name: &str, value: Option<impl ToString>) -> Line {
        self.0.extend(value.map(|value| format!("--{name}={}", value.to_string())));
        self
    }

    fn flag(mut self, name: &str, is_set: Option<bool>) -> Line {
        self.0.extend(is_set.unwrap_or_default().then(|| format!("--{name}")));
        self
    }

    fn values(mut self, values: impl IntoIterator<Item = String>) -> Vec<String> {
        self.0.push("--".to_owned());
        self.0.extend(values);
        self.0
    }

    fn end(self) -> Vec<String> {
        self.0
    }
}

/// Returns the tools as clients list them.
pub fn listed() -> Vec<Tool> {
    let mut settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.inline_subschemas = true;
    let calls = settings.into_generator().into_root_schema_for::<Call>().to_value();
    let calls = calls["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let call = |tool: &ToolSpec| calls.iter().find(|call| call["properties"]["tool"]["const"] == tool.name);
    TOOLS.iter().filter_map(|tool| Some(listed_as(tool, call(tool)?))).collect()
}

fn listed_as(tool: &ToolSpec, call: &Value) -> Tool {
    let mut arguments = call["properties"]["arguments"].as_object().cloned().unwrap_or_default();
    let mut properties = arguments.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    properties.values_mut().for_each(simplify);
    let feature = json!({ "description": "The feature; without it the current one", "type": "string" });
    properties.insert("feature".to_owned(), feature);
    arguments.insert("properties".to_owned(), properties.into());
    let annotations = ToolAnnotations::new()
        .read_only(tool.effect == Effect::Reads)
        .destructive(tool.effect == Effect::Decides)
        .open_world(false);
    let description = call["description"].as_str().unwrap_or_default().replace('\n', " ");
    Tool::new(tool.name, description, arguments).with_annotations(annotations)
}

/// Removes from the schema of an argument what some services do not accept: null, which the argument's absence says too, and
/// formats of numbers.
fn simplify(argument: &mut Value) {
    let Some(fields) = argument.as_object_mut() else { return };
    fields.remove("format");
    if let Some(Value::Array(types)) = fields.get("type").cloned() {
        fields.insert("type".to_owned(), types.into_iter().next().unwrap_or_default());
    }
    if let Some(Value::Array(forms)) = fields.remove("anyOf") {
        fields.extend(forms.into_iter().next().and_then(|form| form.as_object().cloned()).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tool: &str, arguments: Value) -> Result<String, String> {
        words(tool, arguments.as_object().unwrap().clone()).map(|words| words.join(" "))
    }

    #[test]
    fn a_call_is_a_command_line_in_which_no_value_is_an_option() {
        for (tool, arguments, expected) in [
            ("status", json!({}), "status"),
            ("status", json!({ "feature": "--json" }), "--feature=--json status"),
            ("claim", json!({ "tasks": ["A", "--yes"] }), "task claim -- A --yes"),
            ("complete", json!({ "task": "-f", "decisions": ["-x"] }), "task complete --decision=-x -- -f"),
            ("fail", json!({ "task": "A", "reason": "no", "blocked": true }), "task fail --reason=no --blocked -- A"),
            ("merge", json!({ "level": 1, "dry_run": false }), "merge --level=1"),
            ("diff", json!({}), "diff --"),
            ("skip", json!({ "tasks": ["A"], "reason": "r", "dependents": "skip" }), "skip --reason=r --yes -- A"),
            ("grant", json!({ "task": "A", "paths": ["b/"] }), "task grant -- A b/"),
        ] {
            assert_eq!(line(tool, arguments).unwrap(), expected);
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        let wrong = |tool: &str, arguments: Value| line(tool, arguments).unwrap_err();
        assert!(wrong("claim", json!({})).contains("missing field `tasks`"));
        assert!(wrong("merge", json!({ "approve": "x" })).contains("unknown field `approve`"));
        assert!(wrong("status", json!({ "feature": 1 })).contains("feature"));
        assert!(wrong("start", json!({ "accept_config": true })).contains("unknown field"));
    }

    #[test]
    fn every_tool_is_listed_with_its_arguments() {
        let tools = listed();
        assert_eq!(tools.len(), TOOLS.len());
        for tool in tools {
            assert!(tool.description.as_deref().is_some_and(|text| text.ends_with('.')), "{tool:?}");
            assert_eq!(tool.input_schema["type"], "object", "{tool:?}");
        }
    }
}
