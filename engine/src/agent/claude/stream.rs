//! Handles the client's output while it works, and sends it messages in between: above all the request to stop when its
//! context is nearly full.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::excerpt::{failure_report, key_line, last_words};
use mahabharatha_core::ids::Time;
use mahabharatha_core::run::event::Reason;
use mahabharatha_core::secrets::Redactor;
use mahabharatha_sys::proc::{Ended, Exit, Feed, Lines, bounded_text};
use serde_json::json;

use super::super::protocol::{doing, meaning, unserved};
use super::super::{AgentEvent, AgentOutcome, EventSink, FEEDBACK_BYTES};
use super::user_message;
use super::window::Window;
use super::wire::{Block, Content, Line, Message, Outcome, System};

/// Longer lines, such as a whole file, are cut off and then ignored as invalid JSON.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Longest plausible wait for an API limit to reset: limits last hours, days, or a month.
const MAX_LIMIT_WAIT: Duration = Duration::from_secs(32 * 24 * 3600);
/// Number of tools that the agent may use after a request to stop before the next, stronger one.
const TOOLS_PER_STOP_REQUEST: u32 = 3;
/// Answer to the request to stop if the task is done.
const FINISHED: &str = "FINISHED";
/// Prefixes of the client's result for a tool call that it denied: not permitted, or no such tool.
const DENIALS: [&str; 2] = ["Permission to use", "<tool_use_error>Error: No such tool available"];

const STOP: &str = "\
Your context is nearly full. Stop here: start nothing new and use no more tools, unless one of your files would be left \
broken. Your work stays in the worktree. A new worker will continue from your next answer, which is all it will know about \
your work. If the task is finished and its verification passes, answer with the one word FINISHED. If not, write down what is \
done, what is left, what you found out, and what to do next.";

/// State of an attempt's conversation with the client.
pub struct Conversation {
    feed: Feed,
    threshold: f64,
    window: Window,
    /// Context tokens of the agent's latest answer; answers of subagents do not count.
    context: u64,
    worktree: PathBuf,
    redactor: Redactor,
    events: EventSink,
    /// Number of tools used since the request to stop; `None` before it.
    tools_since_stop: Option<u32>,
    interrupted: bool,
    /// Descriptions of tool uses that have no result yet, by id.
    tools: BTreeMap<String, String>,
    /// Ids of messages whose tokens are counted; the client sends each block of a message separately.
    counted: BTreeSet<String>,
    tokens: u64,
    /// Highest cost of any result so far; each result reports the total. `None` before the first.
    cost_usd: Option<f64>,
    last_text: String,
    /// Latest API failure: the client's error code and the HTTP status, if there was one.
    api_error: (Option<String>, Option<u16>),
    limited_until: Option<Time>,
    outcome: Option<Outcome>,
}

impl Conversation {
    pub fn new(feed: Feed, threshold: f64) -> Conversation {
        Conversation {
            feed,
            threshold,
            window: Window::new(),
            context: 0,
            worktree: PathBuf::new(),
            redactor: Redactor::default(),
            events: Box::new(|_| ()),
            tools_since_stop: None,
            interrupted: false,
            tools: BTreeMap::new(),
            counted: BTreeSet::new(),
            tokens: 0,
            cost_usd: None,
            last_text: String::new(),
            api_error: (None, None),
            limited_until: None,
            outcome: None,
        }
    }

    pub fn begin(&mut self, worktree: &Path, redactor: Redactor, events: EventSink) {
        (self.worktree, self.redactor, self.events) = (worktree.to_owned(), redactor, events);
    }

    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }

    pub fn cost(&self) -> Cost {
        let reported = self.outcome.as_ref().map_or(0, Outcome::tokens);
        Cost::of(self.cost_usd, reported.max(self.tokens))
    }

    /// Returns the agent's last answer.
    pub fn answer(&self) -> &str {
        let result = self.outcome.as_ref().map(|outcome| outcome.result.trim()).unwrap_or_default();
        if result.is_empty() { self.last_text.trim() } else { result }
    }

    /// Handles one line of the client's output.
    fn handle_line(&mut self, line: &[u8]) {
        let Ok(line) = serde_json::from_slice::<Line>(line) else { return };
        match line {
            Line::System(system) => self.system(system),
            Line::Assistant { message, error, parent_tool_use_id } => {
                if error.is_some() {
                    // The client's own message in place of an answer; the result repeats it.
                    self.api_error.0 = error;
                } else {
                    (self.api_error, self.limited_until) = ((None, None), None);
                    self.assistant(message, parent_tool_use_id.is_none());
                }
            }
            Line::User { message } => self.tool_results(message),
            Line::ControlResponse { response } => {
                // A tool may have started while the answer was awaited. If the agent was already asked to stop, a late
                // answer must not count as a tool use.
                if self.window.answered(&response) && !self.tools.is_empty() && self.tools_since_stop.is_none() {
                    self.stop_if_full(Instant::now());
                }
            }
            Line::RateLimitEvent { rate_limit_info } if rate_limit_info.status == "rejected" => {
                self.limited_until = rate_limit_info.resets_at.map(|seconds| Time((seconds * 1000.0) as i64));
                // Ignore an implausibly late time, for which a run would wait forever.
                let latest = Time(Timestamp::now().as_millisecond()) + MAX_LIMIT_WAIT;
                self.limited_until = self.limited_until.filter(|until| *until < latest);
                (self.events)(AgentEvent::RateLimited { until: self.limited_until });
            }
            Line::Result(mut outcome) => {
                outcome.result = self.redactor.redacted(&outcome.result);
                outcome.errors.iter_mut().for_each(|error| *error = self.redactor.redacted(error));
                let text = if outcome.result.is_empty() { outcome.errors.join("; ") } else { outcome.result.clone() };
                (self.events)(AgentEvent::Finished(format!(
                    "{} after {} turns: {text}",
                    outcome.subtype, outcome.num_turns
                )));
                // An urgent request to stop aborts the turn and begins the next, whose result is the one that counts.
                let aborted_by_stop = outcome.terminal_reason.as_deref() == Some("aborted_tools") && !self.interrupted;
                if !(aborted_by_stop && self.tools_since_stop.is_some()) {
                    // Otherwise the client would wait for another message.
                    self.feed.close();
                }
                let reported = self.cost_usd.into_iter().chain(outcome.total_cost_usd);
                self.cost_usd = reported.reduce(f64::max);
                self.outcome = Some(outcome);
            }
            Line::RateLimitEvent { .. } | Line::Other => {}
        }
    }

    fn system(&mut self, system: System) {
        match system {
            System::Init { session_id, model } => {
                if let Some(request) = self.window.ask(&model, Instant::now()) {
                    self.feed.give(request);
                }
                (self.events)(AgentEvent::Started { session: session_id, model });
            }
            System::ApiRetry { attempt, max_retries, error_status, error } => {
                let code = error.clone().unwrap_or_else(|| "no answer".to_owned());
                let why = error_status.map_or(code.clone(), |status| format!("{status} {code}"));
                self.api_error = (error, error_status);
                (self.events)(AgentEvent::Retrying { retry: attempt, of: Some(max_retries), why });
            }
            System::CompactBoundary { compact_metadata } => {
                (self.events)(AgentEvent::Compacted { from: compact_metadata.pre_tokens });
            }
            System::Other => {}
        }
    }

    fn assistant(&mut self, message: Message, is_main: bool) {
        let context = message.usage.context();
        if is_main {
            self.context = context;
        }
        if context > 0 && self.counted.insert(message.id) {
            self.tokens = self.tokens.saturating_add(message.usage.total());
            let usage = AgentEvent::Usage { tokens: self.tokens, context: Some(self.percent(context)) };
            (self.events)(usage);
        }
        let Content::Blocks(blocks) = message.content else { return };
        for block in blocks {
            match block {
                Block::Text { text } if !text.trim().is_empty() => {
                    let text = self.redactor.redacted(&text);
                    (self.events)(AgentEvent::Text(text.clone()));
                    self.last_text = text;
                }
                Block::ToolUse { id, name, input } => {
                    let doing = doing(&self.worktree, &self.redactor, &name, &input);
                    (self.events)(AgentEvent::ToolUse(doing.clone()));
                    self.tools.insert(id, doing);
                    // Send the request during a tool use: the client delivers messages when a tool ends. Sent after the
                    // last answer, the request would start another turn.
                    if is_main {
                        self.stop_if_full(Instant::now());
                    }
                }
                _ => {}
            }
        }
    }

    fn percent(&self, context: u64) -> u64 {
        context.saturating_mul(100) / self.window.tokens()
    }

    /// Asks the agent to stop if its context is full and the window is known; escalates as the agent uses more tools
    /// after that.
    fn stop_if_full(&mut self, now: Instant) {
        let full = self.context as f64 >= self.threshold * self.window.tokens() as f64;
        if self.tools_since_stop.is_some() || full && !self.window.is_awaited(now) {
            self.ask_to_stop(self.percent(self.context));
        }
    }

    /// Sends a polite request to stop first, then an urgent one, and finally cancels the agent.
    fn ask_to_stop(&mut self, context: u64) {
        let used = self.tools_since_stop.map_or(0, |used| used.saturating_add(1));
        self.tools_since_stop = Some(used);
        if used == 0 {
            (self.events)(AgentEvent::AskedToStop { context });
            self.feed.give(user_message(STOP));
        } else if used == TOOLS_PER_STOP_REQUEST {
            let message = json!({ "role": "user", "content": STOP });
            self.feed.give(format!("{}\n", json!({ "type": "user", "priority": "now", "message": message })));
        } else if used == 2 * TOOLS_PER_STOP_REQUEST {
            self.interrupted = true;
            self.feed.give(cancel());
        }
    }

    fn tool_results(&mut self, message: Message) {
        let Content::Blocks(blocks) = message.content else { return };
        for block in blocks {
            if let Block::ToolResult { tool_use_id, is_error, content } = block {
                let tool = self.tools.remove(&tool_use_id);
                let text = content.as_str().unwrap_or_default();
                if is_error && DENIALS.iter().any(|denial| text.starts_with(denial)) {
                    (self.events)(AgentEvent::ToolDenied(tool.unwrap_or_else(|| "an unknown tool use".to_owned())));
                }
            }
        }
    }

    pub fn agent_outcome(&self, ended: &Ended) -> AgentOutcome {
        let Some(outcome) = &self.outcome else {
            let output = bounded_text(&ended.stderr, FEEDBACK_BYTES);
            let what = format!("The agent ended with {} and gave no result", ended.status);
            return AgentOutcome::Failed(failure_report(&what, None, &output));
        };
        if self.tools_since_stop.is_some() && outcome.is_overflow() {
            return AgentOutcome::Checkpoint(self.overflow_note());
        }
        if outcome.is_error && outcome.subtype == "success" {
            return self.service_error(outcome);
        }
        let answer = bounded_text(self.answer().as_bytes(), FEEDBACK_BYTES);
        let completed = !outcome.is_error
            && outcome.subtype == "success"
            && outcome.terminal_reason.as_deref() == Some("completed")
            && ended.status == Exit::Code(0);
        if self.tools_since_stop.is_some() {
            return match answer.as_str() {
                FINISHED if completed => AgentOutcome::Done,
                "" => AgentOutcome::Checkpoint(
                    "The agent ran out of context before it wrote a checkpoint note.".to_owned(),
                ),
                _ => AgentOutcome::Checkpoint(answer),
            };
        }
        if outcome.subtype == "error_max_budget_usd" {
            let spent = outcome.total_cost_usd.unwrap_or_default();
            return AgentOutcome::OverBudget(format!(
                "the budget of this task is used up ({spent:.2} USD spent in this attempt); raise \
                 budget.max_usd_per_task"
            ));
        }
        if !completed {
            let reason = outcome.terminal_reason.as_deref().unwrap_or("no reason");
            let errors = outcome.errors.join("\n");
            let what = format!("The agent did not finish ({}, {reason})", outcome.subtype);
            let said = key_line(&errors).or_else(|| last_words(&answer));
            let said = said.map(|said| format!(": {said}")).unwrap_or_default();
            return AgentOutcome::Failed(format!("{what}{said}\n\n{errors}\n\n{answer}").trim_end().to_owned());
        }
        meaning(answer)
    }

    /// Returns a checkpoint note for an agent that had no context left to write one.
    fn overflow_note(&self) -> String {
        let overflow = "The context overflowed before the agent wrote a checkpoint note; its work is in the worktree.";
        let last_text = bounded_text(self.last_text.trim().as_bytes(), FEEDBACK_BYTES);
        if last_text.is_empty() { overflow.to_owned() } else { format!("{overflow} Its last message:\n\n{last_text}") }
    }

    /// Tells an unavailable API, which says nothing about the task, from a request that the API rejected.
    fn service_error(&self, outcome: &Outcome) -> AgentOutcome {
        let (code, status) =
            (self.api_error.0.as_deref().unwrap_or_default(), outcome.api_error_status.or(self.api_error.1));
        let cause = match (code, status) {
            ("rate_limit", _) => unserved(Some(429)),
            ("authentication_failed" | "billing_error", _) if status != Some(429) => unserved(Some(401)),
            ("overloaded", _) if !matches!(status, Some(401 | 403 | 429)) => unserved(Some(529)),
            ("server_error" | "unknown", None) => Some(("the API cannot be reached", None)),
            _ => unserved(status),
        };
        let Some((cause, reason)) = cause else {
            return AgentOutcome::Failed(format!("The API rejected the request: {}", outcome.result));
        };
        let until = self.limited_until.filter(|_| reason == Some(Reason::ApiLimit));
        AgentOutcome::Unserved { why: format!("{cause} ({})", outcome.result.trim()), reason, until }
    }
}

/// Returns the request that interrupts the client. The client then reports its result and cost, which it does not do
/// when killed by a signal.
pub fn cancel() -> String {
    let request = json!({ "subtype": "interrupt" });
    format!("{}\n", json!({ "type": "control_request", "request_id": "stop", "request": request }))
}

/// Returns the sink for the client's output.
pub fn listener(conversation: Arc<Mutex<Conversation>>) -> impl Write + Send + 'static {
    Lines::new(MAX_LINE_BYTES, move |line| {
        conversation.lock().unwrap_or_else(PoisonError::into_inner).handle_line(line)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_late_answer_about_the_window_does_not_count_as_a_tool_use() {
        let mut conversation = Conversation::new(Feed::default(), 0.7);
        let mut handle = |line: Value| conversation.handle_line(line.to_string().as_bytes());
        handle(json!({ "type": "system", "subtype": "init", "session_id": "s", "model": "sonnet" }));
        handle(json!({ "type": "assistant", "parent_tool_use_id": null, "message": {
            "id": "m", "usage": { "input_tokens": 150_000 },
            "content": [{ "type": "tool_use", "id": "t", "name": "Read", "input": {} }] } }));
        assert_eq!(conversation.tools_since_stop, None, "the answer is awaited");
        // After the timeout for the answer.
        conversation.stop_if_full(Instant::now() + Duration::from_secs(3600));
        assert_eq!(conversation.tools_since_stop, Some(0));
        let answer = json!({ "subtype": "success", "request_id": "window", "response": { "maxTokens": 200_000 } });
        conversation.handle_line(json!({ "type": "control_response", "response": answer }).to_string().as_bytes());
        assert_eq!(conversation.tools_since_stop, Some(0));
    }
}
