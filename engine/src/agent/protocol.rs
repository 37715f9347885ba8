//! What every coding agent is told about its answers, and how they are read.

use std::path::Path;

use mahabharatha_core::run::event::Reason;
use mahabharatha_core::run::needs::needs_in;
use mahabharatha_core::secrets::Redactor;
use serde_json::{Map, Value};

use super::AgentOutcome;

pub const UNATTENDED: &str = "\
# You Are a Worker

You run unattended: nobody answers questions, and a denied tool call stays denied.";

pub const LAST_ANSWER: &str = "\
When you are done, answer with one or two sentences about what you did. If the task cannot be done as written, begin your \
last answer with `BLOCKED:` and say what is in the way. If a person must choose between ways to do it, begin your last answer \
with `ESCALATE:` and ask the question. A line of your last answer that begins with `DECISION:` is passed on to later tasks: use \
it for a choice that they must know about.";

/// Characters of a command that are shown.
const MAX_COMMAND_CHARS: usize = 200;

/// Returns what the last answer of an agent that ended in good order means.
pub fn meaning(answer: String) -> AgentOutcome {
    let mark = |mark: &str| answer.strip_prefix(mark).map(|rest| rest.trim().to_owned());
    match (mark("BLOCKED:"), mark("ESCALATE:")) {
        (Some(reason), _) => AgentOutcome::Blocked(reason),
        (_, Some(question)) => AgentOutcome::Escalated(question),
        _ if !needs_in(&answer).is_empty() => AgentOutcome::Blocked(answer),
        _ => AgentOutcome::Done,
    }
}

/// Tells an unavailable API, which says nothing about the task, from a request that the API rejected: returns what is
/// wrong with the API.
pub fn unserved(status: Option<u16>) -> Option<(&'static str, Option<Reason>)> {
    Some(match status? {
        429 => ("the API limit is reached", Some(Reason::ApiLimit)),
        401 | 403 => ("the API refuses access", Some(Reason::ApiAccess)),
        500.. => ("the API is overloaded or down", None),
        _ => return None,
    })
}

/// Describes a tool use for the user, without secrets. Agents name their tools and arguments differently.
pub fn doing(worktree: &Path, redactor: &Redactor, tool: &str, input: &Map<String, Value>) -> String {
    let text = |keys: &[&str]| {
        let found = keys.iter().find_map(|key| input.get(*key).and_then(Value::as_str));
        redactor.redacted(found.unwrap_or_default())
    };
    let path = || {
        let path = text(&["file_path", "filePath", "path", "fileName", "notebook_path"]);
        let path = Path::new(&path);
        path.strip_prefix(worktree).unwrap_or(path).display().to_string()
    };
    match tool.to_ascii_lowercase().as_str() {
        "read" | "read_file" | "view" => format!("reading {}", path()),
        "write" | "edit" | "notebookedit" | "write_file" | "replace" | "create" | "str_replace" | "multiedit"
        | "delete" => format!("editing {}", path()),
        "bash" | "shell" | "run_shell_command" | "execute" => {
            let command = text(&["command", "cmd"]);
            format!(
                "running {}",
                command.lines().next().unwrap_or_default().chars().take(MAX_COMMAND_CHARS).collect::<String>()
            )
        }
        "taskget" | "tasklist" => "reading the task list".to_owned(),
        "taskupdate" => "updating the task list".to_owned(),
        _ => format!("using {tool}"),
    }
}
