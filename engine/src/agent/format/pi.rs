//! `pi --mode json`. It exits with 0 whatever happens; the reason why its last message stopped is the result.

use serde_json::Value;

use super::{Parser, Said, price_at, status_in, sum_at, text_at};

#[derive(Default)]
pub struct Pi {
    /// Why the last message of the model stopped.
    stopped: String,
}

impl Parser for Pi {
    fn line(&mut self, line: &str, said: &mut Vec<Said>) {
        // Each of these repeats the whole message so far.
        if line.starts_with(r#"{"type":"message_update""#) {
            return;
        }
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let call = || text_at(&event, "/toolCallId").to_owned();
        match text_at(&event, "/type") {
            "session" => said.push(Said::Session { id: text_at(&event, "/id").to_owned(), model: None }),
            "message_end" if text_at(&event, "/message/role") == "assistant" => self.message(&event["message"], said),
            "tool_execution_start" => said.push(Said::ToolStart {
                id: call(),
                tool: text_at(&event, "/toolName").to_owned(),
                input: event["args"].clone(),
            }),
            "tool_execution_end" => said.push(Said::ToolEnd { id: call(), denied: false }),
            "agent_end" => said.push(Said::End { ok: self.stopped == "stop" }),
            _ => {}
        }
    }
}

impl Pi {
    fn message(&mut self, message: &Value, said: &mut Vec<Said>) {
        let blocks = message["content"].as_array().into_iter().flatten();
        let texts: Vec<&str> = blocks.map(|block| text_at(block, "/text")).filter(|text| !text.is_empty()).collect();
        if !texts.is_empty() {
            said.push(Said::Text(texts.join("\n")));
        }
        let usage = ["/usage/input", "/usage/output", "/usage/cacheRead", "/usage/cacheWrite"];
        match sum_at(message, &usage) {
            0 => {}
            tokens => said.push(Said::Usage { tokens, usd: price_at(message, "/usage/cost/total") }),
        }
        self.stopped = text_at(message, "/stopReason").to_owned();
        if matches!(self.stopped.as_str(), "error" | "aborted") {
            let message = text_at(message, "/errorMessage").to_owned();
            said.push(Said::Error { status: status_in(&message), message });
        }
    }
}
