//! `gemini -o stream-json`. Its exit code says nothing when it fails; without a `result` it was interrupted.

use serde_json::Value;

use super::{Parser, Said, fail, number_at, status_in, sum_at, text_at};

#[derive(Default)]
pub struct Gemini {
    /// The message of which pieces arrive.
    message: String,
}

impl Gemini {
    fn flush(&mut self, said: &mut Vec<Said>) {
        if !self.message.is_empty() {
            said.push(Said::Text(std::mem::take(&mut self.message)));
        }
    }
}

impl Parser for Gemini {
    fn line(&mut self, line: &str, said: &mut Vec<Said>) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let kind = text_at(&event, "/type");
        if kind == "message" && text_at(&event, "/role") == "assistant" {
            self.message.push_str(text_at(&event, "/content"));
            return;
        }
        self.flush(said);
        match kind {
            "init" => {
                let model = Some(text_at(&event, "/model").to_owned());
                said.push(Said::Session { id: text_at(&event, "/session_id").to_owned(), model });
            }
            "tool_use" => said.push(Said::ToolStart {
                id: text_at(&event, "/tool_id").to_owned(),
                tool: text_at(&event, "/tool_name").to_owned(),
                input: event["parameters"].clone(),
            }),
            "tool_result" => {
                let denied = text_at(&event, "/error/message").contains("denied");
                said.push(Said::ToolEnd { id: text_at(&event, "/tool_id").to_owned(), denied });
            }
            "error" => {
                let message = text_at(&event, "/message").to_owned();
                said.push(Said::Error { status: status_in(&message), message });
            }
            "result" => {
                let tokens = match number_at(&event, "/stats/total_tokens") {
                    0 => sum_at(&event, &["/stats/input_tokens", "/stats/output_tokens"]),
                    total => total,
                };
                said.push(Said::Usage { tokens, usd: None });
                match text_at(&event, "/status") {
                    "success" => said.push(Said::End { ok: true }),
                    _ => fail(text_at(&event, "/error/message"), said),
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, said: &mut Vec<Said>) {
        self.flush(said);
    }
}
