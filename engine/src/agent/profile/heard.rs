//! What was heard of an agent so far: turns what its parser makes of the output into events, cost and outcome.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use mahabharatha_core::config::Format;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::excerpt::{failure_report, key_line};
use mahabharatha_core::run::event::Reason;
use mahabharatha_core::secrets::Redactor;
use mahabharatha_sys::proc::{Ended, Exit, Feed, Lines, bounded_text};
use serde_json::Map;

use super::super::format::{self, Parser, Said, Scope};
use super::super::protocol::{doing, meaning, unserved};
use super::super::{AgentEvent, AgentOutcome, EventSink, FEEDBACK_BYTES};

/// Longer lines, such as a whole file, are cut off and then ignored as invalid.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Words by which services report that a quota is used up, where they give no status.
const LIMIT_WORDS: [&str; 4] = ["rate limit", "usage limit", "quota", "too many requests"];
/// Words by which agents report that they have no login, before they ask their service anything.
const LOGIN_WORDS: [&str; 4] =
    ["auth method", "no auth type is selected", "no api key found", "no authentication information found"];
/// Words by which agents report a lost connection to their service.
const NETWORK_WORDS: [&str; 7] = [
    "api error: terminated",
    "fetch failed",
    "econnreset",
    "econnrefused",
    "socket hang up",
    "stream disconnected",
    "network error",
];

#[derive(Default)]
pub struct Heard {
    parser: Option<Box<dyn Parser>>,
    feed: Feed,
    worktree: PathBuf,
    redactor: Redactor,
    events: Option<EventSink>,
    /// Descriptions of tool uses that have not ended, by id.
    tools: BTreeMap<String, String>,
    /// What the agent reported of its cost.
    cost: Option<Cost>,
    retries: u64,
    last_text: String,
    /// The last error that the agent did not recover from.
    error: Option<(Option<u16>, String)>,
    /// Whether the agent said that it is done; none while it works.
    ended: Option<bool>,
}

impl Heard {
    pub fn begin(&mut self, format: Format, scope: Scope, feed: Feed, redactor: Redactor, events: EventSink) {
        self.worktree.clone_from(&scope.worktree);
        (self.parser, self.feed) = (format::parser(format, scope), feed);
        (self.redactor, self.events) = (redactor, Some(events));
    }

    /// Returns the agent's last answer.
    pub fn answer(&self) -> &str {
        self.last_text.trim()
    }

    pub fn cost(&self) -> Option<Cost> {
        self.cost
    }

    fn line(&mut self, line: &[u8]) {
        self.parse(|parser, said| parser.line(&String::from_utf8_lossy(line), said));
    }

    /// Takes what the parser keeps until the last line.
    fn end(&mut self) {
        self.parse(|parser, said| parser.end(said));
    }

    fn parse(&mut self, read: impl FnOnce(&mut dyn Parser, &mut Vec<Said>)) {
        let Some(mut parser) = self.parser.take() else { return };
        let mut said = Vec::new();
        read(parser.as_mut(), &mut said);
        self.parser = Some(parser);
        said.into_iter().for_each(|said| self.hear(said));
    }

    fn tell(&mut self, event: AgentEvent) {
        if let Some(events) = &mut self.events {
            events(event);
        }
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Session { id, model } => {
                self.tell(AgentEvent::Started { session: id, model: model.unwrap_or_else(|| "its own model".into()) });
            }
            Said::Text(text) => {
                if text.trim().is_empty() {
                    return;
                }
                self.goes_on();
                self.last_text = self.redactor.redacted(&text);
                self.tell(AgentEvent::Text(self.last_text.clone()));
            }
            Said::ToolStart { id, tool, input } => {
                self.goes_on();
                let none = Map::new();
                let doing = doing(&self.worktree, &self.redactor, &tool, input.as_object().unwrap_or(&none));
                self.tell(AgentEvent::ToolUse(doing.clone()));
                self.tools.insert(id, doing);
            }
            Said::ToolEnd { id, denied } => {
                let tool = self.tools.remove(&id);
                if denied {
                    self.tell(AgentEvent::ToolDenied(tool.unwrap_or_else(|| "an unknown tool use".to_owned())));
                }
            }
            Said::Usage { tokens, usd } => {
                let cost = self.cost.unwrap_or_default() + Cost::of(usd, tokens);
                self.cost = Some(cost);
                self.tell(AgentEvent::Usage { tokens: cost.tokens(), context: None });
            }
            Said::Retry(why) => {
                self.retries += 1;
                let why = self.redactor.redacted(&why);
                self.tell(AgentEvent::Retrying { retry: self.retries, of: None, why });
            }
            Said::Error { status, message } => self.error = Some((status, self.redactor.redacted(&message))),
            Said::End { ok } => {
                self.ended = Some(ok);
                if ok {
                    self.error = None;
                }
                // An agent that waits for messages ends now.
                self.feed.close();
                let text = self.error.as_ref().map_or(self.answer(), |(_, message)| message).to_owned();
                self.tell(AgentEvent::Finished(text));
            }
            Said::Send(line) => self.feed.give(line),
            Said::StopWith(line) => self.feed.stop_with(line),
        }
    }

    /// The agent works: an error before this was not its last word.
    fn goes_on(&mut self) {
        (self.ended, self.error, self.retries) = (None, None, 0);
    }

    /// Tells whether the model said or used anything.
    fn has_worked(&self) -> bool {
        !self.last_text.is_empty() || self.cost.is_some()
    }

    /// Returns the result of an agent that ended by itself: done only if it said so and its exit code agrees.
    pub fn outcome(&self, ended: &Ended) -> AgentOutcome {
        if self.ended == Some(true) && ended.status == Exit::Code(0) {
            return meaning(bounded_text(self.answer().as_bytes(), FEEDBACK_BYTES));
        }
        let stderr = bounded_text(&ended.stderr, FEEDBACK_BYTES);
        let no_login = stderr.lines().find(|line| !self.has_worked() && has_one_of(line, &LOGIN_WORDS));
        let error = self.error.as_ref().map(|(status, message)| (*status, message.as_str()));
        let Some((status, message)) = error.or_else(|| no_login.map(|line| (None, line))) else {
            let what = match self.ended {
                None => format!("The agent ended with {} before it was done", ended.status),
                Some(_) => format!("The agent failed with {}", ended.status),
            };
            let said = bounded_text(self.answer().as_bytes(), FEEDBACK_BYTES);
            return AgentOutcome::Failed(failure_report(&what, None, &format!("{said}\n{stderr}")));
        };
        let cause = match status {
            None if has_one_of(message, &LIMIT_WORDS) => Some(("the API limit is reached", Some(Reason::ApiLimit))),
            None if has_one_of(message, &LOGIN_WORDS) => Some(("the agent has no login", Some(Reason::ApiAccess))),
            None if has_one_of(message, &NETWORK_WORDS) => Some(("the connection to the API was lost", None)),
            status => unserved(status),
        };
        let message = message.trim();
        match cause {
            Some((cause, reason)) => {
                AgentOutcome::Unserved { why: format!("{cause} ({message})"), reason, until: None }
            }
            None => {
                let what = format!("The agent failed: {}", key_line(message).unwrap_or_else(|| message.to_owned()));
                AgentOutcome::Failed(format!("{what}\n\n{message}\n\n{stderr}").trim_end().to_owned())
            }
        }
    }
}

fn has_one_of(message: &str, words: &[&str]) -> bool {
    let message = message.to_ascii_lowercase();
    words.iter().any(|word| message.contains(word))
}

/// Returns the sink for the agent's output.
pub fn listener(heard: Arc<Mutex<Heard>>) -> impl Write + Send + 'static {
    let lines = Arc::clone(&heard);
    Listener {
        lines: Some(Lines::new(MAX_LINE_BYTES, move |line: &[u8]| {
            lines.lock().unwrap_or_else(PoisonError::into_inner).line(line);
        })),
        heard,
    }
}

struct Listener<F: FnMut(&[u8])> {
    lines: Option<Lines<F>>,
    heard: Arc<Mutex<Heard>>,
}

impl<F: FnMut(&[u8])> Write for Listener<F> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.lines.as_mut().map_or(Ok(bytes.len()), |lines| lines.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The output has ended.
impl<F: FnMut(&[u8])> Drop for Listener<F> {
    fn drop(&mut self) {
        // Reports a last line without a line break.
        drop(self.lines.take());
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).end();
    }
}
