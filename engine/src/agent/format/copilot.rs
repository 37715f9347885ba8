//! `copilot --output-format json`, which reports no tokens.

use serde_json::Value;

use super::{Parser, Said, status_in, text_at};

pub struct Copilot;

impl Parser for Copilot {
    fn line(&mut self, line: &str, said: &mut Vec<Said>) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        if event["ephemeral"] == true {
            return;
        }
        let data = &event["data"];
        let call = || text_at(data, "/toolCallId").to_owned();
        match text_at(&event, "/type") {
            "assistant.message" if !text_at(data, "/content").is_empty() => {
                said.push(Said::Text(text_at(data, "/content").to_owned()));
            }
            "tool.execution_start" => said.push(Said::ToolStart {
                id: call(),
                tool: text_at(data, "/toolName").to_owned(),
                input: data["arguments"].clone(),
            }),
            "tool.execution_complete" => {
                let denied = text_at(data, "/error/code") == "denied";
                said.push(Said::ToolEnd { id: call(), denied });
            }
            "session.error" => {
                let message = text_at(data, "/message").to_owned();
                let status = data["statusCode"].as_u64().and_then(|status| u16::try_from(status).ok());
                said.push(Said::Error { status: status.or_else(|| status_in(&message)), message });
            }
            "result" => said.push(Said::End { ok: event["exitCode"] == 0 }),
            _ => {}
        }
    }
}
