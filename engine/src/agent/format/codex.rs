//! `codex exec --json`. Its `error` lines are notices of retries; `turn.failed` is the error that counts.

use serde_json::{Value, json};

use super::{Parser, Said, fail, sum_at, text_at};

pub struct Codex;

impl Parser for Codex {
    fn line(&mut self, line: &str, said: &mut Vec<Said>) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        match text_at(&event, "/type") {
            "thread.started" => said.push(Said::Session { id: text_at(&event, "/thread_id").to_owned(), model: None }),
            "item.started" => start(&event["item"], said),
            "item.completed" => complete(&event["item"], said),
            "turn.completed" => {
                // The input includes what was read from the cache.
                let tokens = sum_at(&event, &["/usage/input_tokens", "/usage/output_tokens"]);
                said.extend([Said::Usage { tokens, usd: None }, Said::End { ok: true }]);
            }
            "turn.failed" => fail(text_at(&event, "/error/message"), said),
            "error" => said.push(Said::Retry(text_at(&event, "/message").to_owned())),
            _ => {}
        }
    }
}

fn start(item: &Value, said: &mut Vec<Said>) {
    let (tool, input) = match text_at(item, "/type") {
        "command_execution" => ("shell", json!({ "command": text_at(item, "/command") })),
        "file_change" => ("edit", json!({ "path": text_at(item, "/changes/0/path") })),
        "mcp_tool_call" => (text_at(item, "/tool"), Value::Null),
        "web_search" => ("web search", Value::Null),
        _ => return,
    };
    said.push(Said::ToolStart { id: text_at(item, "/id").to_owned(), tool: tool.to_owned(), input });
}

fn complete(item: &Value, said: &mut Vec<Said>) {
    match text_at(item, "/type") {
        "agent_message" => said.push(Said::Text(text_at(item, "/text").to_owned())),
        "command_execution" | "file_change" | "mcp_tool_call" | "web_search" => {
            let output = text_at(item, "/aggregated_output");
            let denied = text_at(item, "/status") == "declined"
                || text_at(item, "/status") == "failed" && output.contains("Read-only file system");
            said.push(Said::ToolEnd { id: text_at(item, "/id").to_owned(), denied });
        }
        _ => {}
    }
}
