//! Reads the requests of each dialect.

use serde_json::{Value, json};

use super::tools::Tool;
use crate::loopback::{Request, Response};
use crate::prompt_text::{self, collect_texts};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Google's `generateContent`.
    Gemini,
}

/// What an agent asked.
#[derive(Debug, Clone)]
pub struct Ask {
    pub dialect: Dialect,
    pub body: Value,
    pub model: String,
    /// Number of answers that the conversation has already.
    pub turn: usize,
    /// Number of earlier requests for the same turn of the task.
    pub tries: usize,
    pub(super) tools: Vec<Tool>,
    pub(super) streams: bool,
}

impl Ask {
    /// Returns nothing for a request that asks the model nothing.
    pub(super) fn read(request: &Request) -> Option<Ask> {
        let path = request.path.as_str();
        let dialect = match path {
            _ if request.method != "POST" => return None,
            _ if path.ends_with("/messages") => Dialect::Messages,
            _ if path.ends_with("/chat/completions") => Dialect::Chat,
            _ if path.ends_with("/responses") => Dialect::Responses,
            _ if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") => Dialect::Gemini,
            _ => return None,
        };
        let body: Value = serde_json::from_slice(&request.body).ok()?;
        let named = path.rsplit_once('/').and_then(|(_, name)| name.split_once(':')).map(|(model, _)| model);
        let model = body["model"].as_str().or(named).unwrap_or_default().to_owned();
        let streams = body["stream"] == true || path.ends_with(":streamGenerateContent");
        let turn = turns(since_prompt(messages(dialect, &body)));
        Some(Ask { dialect, model, turn, tries: 0, tools: Tool::all(dialect, &body), streams, body })
    }

    pub(super) fn is_repeated_by(&self, other: &Ask) -> bool {
        let key = |ask: &Ask| (ask.turn, ask.has_tools(), ask.task());
        key(self) == key(other)
    }

    /// Whether the model can do anything but talk. Agents ask without tools for the title of a session and the like.
    pub fn has_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Everything that anyone but the model said.
    pub fn text(&self) -> String {
        let mut texts = Vec::new();
        let said = messages(self.dialect, &self.body).iter().filter(|message| !is_of_model(message));
        said.for_each(|message| collect_texts(message, &mut texts));
        texts.join("\n")
    }

    pub fn task(&self) -> String {
        prompt_text::fact(&self.text(), "Task")
    }

    pub fn attempt(&self) -> String {
        prompt_text::fact(&self.text(), "Attempt")
    }

    /// The path of a file in the attempt's worktree.
    pub fn file(&self, path: &str) -> String {
        format!("{}/{path}", prompt_text::worktree(&self.text()))
    }
}

fn messages(dialect: Dialect, body: &Value) -> &[Value] {
    let key = match dialect {
        Dialect::Messages | Dialect::Chat => "messages",
        Dialect::Responses => "input",
        Dialect::Gemini => "contents",
    };
    body[key].as_array().map_or(&[], Vec::as_slice)
}

fn is_of_model(message: &Value) -> bool {
    let of_model = ["function_call", "custom_tool_call", "reasoning"];
    message["role"] == "assistant" || message["role"] == "model" || of_model.iter().any(|kind| message["type"] == *kind)
}

/// Returns the conversation from the worker's prompt on: some agents begin with one of their own, as an example.
fn since_prompt(messages: &[Value]) -> &[Value] {
    let is_prompt = |message: &Value| {
        let mut texts = Vec::new();
        collect_texts(message, &mut texts);
        !is_of_model(message) && !prompt_text::fact(&texts.join("\n"), "Task").is_empty()
    };
    &messages[messages.iter().position(is_prompt).unwrap_or_default()..]
}

/// An answer can be several messages in a row.
fn turns(messages: &[Value]) -> usize {
    messages.chunk_by(|one, next| is_of_model(one) == is_of_model(next)).filter(|run| is_of_model(&run[0])).count()
}

/// Answers a request that asks the model nothing.
pub(super) fn not_asked(request: &Request) -> Response {
    match request.path.rsplit(['/', ':']).next() {
        Some("models") => Response::json(200, &json!({ "object": "list", "data": [], "models": [] })),
        Some("countTokens" | "count_tokens") => Response::json(200, &json!({ "totalTokens": 1, "input_tokens": 1 })),
        _ => Response::json(404, &json!({ "error": { "message": "there is nothing here" } })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_several_items_is_one_turn() {
        let items = [
            json!({ "type": "message", "role": "user" }),
            json!({ "type": "reasoning" }),
            json!({ "type": "function_call" }),
            json!({ "type": "function_call_output" }),
            json!({ "type": "message", "role": "assistant" }),
        ];
        assert_eq!([0, 1, 3, 4, 5].map(|length| turns(&items[..length])), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn an_example_before_the_prompt_is_no_turn() {
        let message = |role: &str, text: &str| json!({ "role": role, "content": text });
        let prompt = message("user", "Hello\n- **Task:** `A-1`\n");
        let messages =
            [message("user", "An example"), message("assistant", "Fine."), prompt, message("assistant", "Done.")];
        assert_eq!(turns(since_prompt(&messages)), 1);
        assert_eq!(turns(since_prompt(&messages[..2])), 1);
    }
}
