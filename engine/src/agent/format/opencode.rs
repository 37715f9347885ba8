//! `opencode run --format json`. It has no last event: the end is a step that stopped, or an error.

use serde_json::Value;

use super::{Parser, Said, number_at, price_at, status_in, sum_at, text_at};

#[derive(Default)]
pub struct Opencode {
    has_session: bool,
}

impl Parser for Opencode {
    fn line(&mut self, line: &str, said: &mut Vec<Said>) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let session = text_at(&event, "/sessionID");
        if !session.is_empty() && !std::mem::replace(&mut self.has_session, true) {
            said.push(Said::Session { id: session.to_owned(), model: None });
        }
        match text_at(&event, "/type") {
            "text" => said.push(Said::Text(text_at(&event, "/part/text").to_owned())),
            "tool_use" => {
                let (id, tool) = (text_at(&event, "/part/callID").to_owned(), text_at(&event, "/part/tool").to_owned());
                let state = &event["part"]["state"];
                let error = text_at(state, "/error");
                let denied = ["prevents you", "denied", "rejected"].iter().any(|word| error.contains(word));
                said.push(Said::ToolStart { id: id.clone(), tool, input: state["input"].clone() });
                said.push(Said::ToolEnd { id, denied });
            }
            "step_finish" => {
                let part = &event["part"];
                let parts = ["input", "output", "reasoning", "cache/read", "cache/write"];
                let tokens = match number_at(part, "/tokens/total") {
                    0 => sum_at(part, &parts.map(|name| format!("/tokens/{name}")).each_ref().map(String::as_str)),
                    total => total,
                };
                said.push(Said::Usage { tokens, usd: price_at(part, "/cost") });
                if text_at(part, "/reason") == "stop" {
                    said.push(Said::End { ok: true });
                }
            }
            "error" => {
                let error = &event["error"];
                let message = [text_at(error, "/data/message"), text_at(error, "/name")];
                let message = message.into_iter().find(|text| !text.is_empty()).unwrap_or("unknown error");
                let status = error.pointer("/data/statusCode").and_then(Value::as_u64);
                let status = status.and_then(|status| u16::try_from(status).ok()).or_else(|| status_in(message));
                said.extend([Said::Error { status, message: message.to_owned() }, Said::End { ok: false }]);
            }
            _ => {}
        }
    }
}
