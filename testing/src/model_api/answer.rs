//! Writes answers and errors in each dialect.

mod chat;
mod gemini;
mod responses;

use serde_json::{Value, json};

use super::tools::Call;
use super::{Ask, Dialect, Usage};
use crate::loopback::Response;
use crate::messages_api;

/// What the model answers.
pub struct Answer {
    pub text: String,
    pub calls: Vec<Call>,
    pub usage: Usage,
}

impl Answer {
    pub fn response(&self, ask: &Ask) -> Response {
        if ask.streams { Response::events(self.stream(ask)) } else { Response::json(200, &self.whole(ask)) }
    }

    /// The answer in one piece.
    fn whole(&self, ask: &Ask) -> Value {
        match ask.dialect {
            Dialect::Messages => messages_api::whole(&ask.body, &self.blocks(), self.usage),
            Dialect::Chat => chat::whole(self, &ask.model),
            Dialect::Responses => responses::whole(self, &ask.model),
            Dialect::Gemini => gemini::whole(self, &ask.model),
        }
    }

    /// The answer as the stream of events that the service sends.
    pub fn stream(&self, ask: &Ask) -> String {
        match ask.dialect {
            Dialect::Messages => messages_api::events(&ask.body, &self.blocks(), self.usage),
            Dialect::Chat => chat::stream(self, &ask.model),
            Dialect::Responses => responses::stream(self, &ask.model),
            Dialect::Gemini => gemini::stream(self, &ask.model),
        }
    }

    /// The content of a message of the Messages API.
    fn blocks(&self) -> Vec<Value> {
        let text = (!self.text.is_empty()).then(|| json!({ "type": "text", "text": self.text }));
        let uses = self.calls.iter().map(|call| messages_api::tool_use(&call.name, call.input.clone()));
        text.into_iter().chain(uses).collect()
    }

    /// The text in two halves, so that a stream can break between them.
    fn halves(&self) -> (&str, &str) {
        let middle = (self.text.len() / 2..).find(|at| self.text.is_char_boundary(*at));
        self.text.split_at(middle.unwrap_or_default())
    }
}

fn data(event: &Value) -> String {
    format!("data: {event}\n\n")
}

pub fn error(dialect: Dialect, status: u16) -> Value {
    let message = format!("scripted failure {status}");
    match dialect {
        Dialect::Messages => json!({ "type": "error", "error": { "type": kind(status), "message": message } }),
        Dialect::Chat | Dialect::Responses => {
            json!({ "error": { "type": kind(status), "code": kind(status), "message": message } })
        }
        Dialect::Gemini => {
            let word = match status {
                401 => "UNAUTHENTICATED",
                429 => "RESOURCE_EXHAUSTED",
                _ => "INTERNAL",
            };
            json!({ "error": { "code": status, "status": word, "message": message } })
        }
    }
}

fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        429 => "rate_limit_error",
        _ => "api_error",
    }
}
