//! Claude Code's `stream-json` as other agents print it (`qwen -o stream-json`).

use serde_json::Value;

use super::{Parser, Said, fail, number_at, price_at, sum_at, text_at};

const USAGE: [&str; 4] = [
    "/usage/input_tokens",
    "/usage/output_tokens",
    "/usage/cache_read_input_tokens",
    "/usage/cache_creation_input_tokens",
];

#[derive(Default)]
pub struct ClaudeStream {
    /// Tokens of the messages so far; the result has the sum.
    tokens: u64,
}

impl Parser for ClaudeStream {
    fn line(&mut self, line: &str, said: &mut Vec<Said>) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let blocks = event["message"]["content"].as_array();
        match text_at(&event, "/type") {
            "system" if text_at(&event, "/subtype") == "init" => {
                let model = Some(text_at(&event, "/model").to_owned());
                said.push(Said::Session { id: text_at(&event, "/session_id").to_owned(), model });
            }
            "assistant" => {
                blocks.into_iter().flatten().for_each(|block| speak(block, said));
                self.count(tokens(&event["message"]), None, said);
            }
            "user" => {
                for block in blocks.into_iter().flatten().filter(|block| text_at(block, "/type") == "tool_result") {
                    let id = text_at(block, "/tool_use_id").to_owned();
                    said.push(Said::ToolEnd { id, denied: false });
                }
            }
            "result" => {
                let rest = tokens(&event).saturating_sub(self.tokens);
                self.count(rest, price_at(&event, "/total_cost_usd"), said);
                match (&event["is_error"], text_at(&event, "/subtype")) {
                    (Value::Bool(false), "success") => said.push(Said::End { ok: true }),
                    _ => {
                        let texts = [text_at(&event, "/error/message"), text_at(&event, "/result")];
                        let message = texts.into_iter().find(|text| !text.is_empty());
                        fail(message.unwrap_or_else(|| text_at(&event, "/subtype")), said);
                    }
                }
            }
            _ => {}
        }
    }
}

impl ClaudeStream {
    fn count(&mut self, tokens: u64, usd: Option<f64>, said: &mut Vec<Said>) {
        self.tokens = self.tokens.saturating_add(tokens);
        if tokens > 0 || usd.is_some() {
            said.push(Said::Usage { tokens, usd });
        }
    }
}

/// Qwen adds a total, because its input includes what was read from the cache.
fn tokens(message: &Value) -> u64 {
    match number_at(message, "/usage/total_tokens") {
        0 => sum_at(message, &USAGE),
        total => total,
    }
}

fn speak(block: &Value, said: &mut Vec<Said>) {
    match text_at(block, "/type") {
        "text" => said.push(Said::Text(text_at(block, "/text").to_owned())),
        "tool_use" => said.push(Said::ToolStart {
            id: text_at(block, "/id").to_owned(),
            tool: text_at(block, "/name").to_owned(),
            input: block["input"].clone(),
        }),
        _ => {}
    }
}
