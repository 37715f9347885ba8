//! Formats: small parsers from the lines that an agent prints to what they mean, one for each format.

mod acp;
mod claude_stream;
mod codex;
mod copilot;
mod gemini;
mod opencode;
mod pi;
#[cfg(test)]
mod tests;
mod text;

use std::path::PathBuf;

use mahabharatha_core::config::Format;
use mahabharatha_core::graph::OwnedPath;
use serde_json::Value;

pub use acp::begin;

/// What an agent said. Amounts are those since the last time.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    Session {
        id: String,
        model: Option<String>,
    },
    /// A whole message of the agent.
    Text(String),
    ToolStart {
        id: String,
        tool: String,
        input: Value,
    },
    ToolEnd {
        id: String,
        denied: bool,
    },
    Usage {
        tokens: u64,
        usd: Option<f64>,
    },
    /// A request failed, and the agent sends it again.
    Retry(String),
    /// A request failed; this is final unless the agent continues.
    Error {
        status: Option<u16>,
        message: String,
    },
    /// The agent is done, or has given up.
    End {
        ok: bool,
    },
    /// A line for the agent's standard input.
    Send(String),
    /// The line that asks the agent to stop, from now on.
    StopWith(String),
}

/// Reads what an agent prints.
pub trait Parser: Send {
    fn line(&mut self, line: &str, said: &mut Vec<Said>);

    /// Called after the last line.
    fn end(&mut self, _said: &mut Vec<Said>) {}
}

/// What an agent that asks for permission is answered by.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The worktree as the agent sees it.
    pub worktree: PathBuf,
    pub owned: Vec<OwnedPath>,
    /// The model to choose, for agents that offer a choice in a conversation.
    pub model: Option<String>,
    /// The first message, for agents that take it as a part of a conversation.
    pub prompt: String,
}

/// Returns the parser of a format; none for those that have a driver of their own.
pub fn parser(format: Format, scope: Scope) -> Option<Box<dyn Parser>> {
    Some(match format {
        Format::Command | Format::Claude => return None,
        Format::ClaudeStream => Box::new(claude_stream::ClaudeStream::default()),
        Format::Codex => Box::new(codex::Codex),
        Format::Opencode => Box::new(opencode::Opencode::default()),
        Format::Gemini => Box::new(gemini::Gemini::default()),
        Format::Copilot => Box::new(copilot::Copilot),
        Format::Pi => Box::new(pi::Pi::default()),
        Format::Text => Box::new(text::Text::default()),
        Format::Acp => Box::new(acp::Acp::new(scope)),
    })
}

/// Returns the text at a JSON pointer; empty if there is none.
fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number_at(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

/// Returns the sum of the numbers at JSON pointers.
fn sum_at(value: &Value, pointers: &[&str]) -> u64 {
    pointers.iter().map(|pointer| number_at(value, pointer)).fold(0, u64::saturating_add)
}

/// Returns a cost. Agents report 0 for models without a price, which is not known to be free.
fn price_at(value: &Value, pointer: &str) -> Option<f64> {
    value.pointer(pointer).and_then(Value::as_f64).filter(|usd| *usd > 0.0)
}

/// Adds an error and the end that follows from it, with the HTTP status that the message names.
fn fail(message: &str, said: &mut Vec<Said>) {
    said.push(Said::Error { status: status_in(message), message: message.to_owned() });
    said.push(Said::End { ok: false });
}

/// Returns the HTTP status in an error message: the first number of three digits from 400 to 599.
fn status_in(message: &str) -> Option<u16> {
    let numbers = message.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.len() == 3);
    numbers.filter_map(|word| word.parse().ok()).find(|status| (400..600).contains(status))
}
