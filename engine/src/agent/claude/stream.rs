//! What the client tells while it works, and what it is told in between.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::Time;
use mahabharatha_sys::proc::{Ended, Exit, Feed, Lines, bounded_text};
use serde_json::{Map, Value, json};

use super::super::{AgentEvent, Said, Tell};
use super::user_message;
use super::window::Window;
use super::wire::{Block, Content, Line, Message, Outcome, System};

/// A longer line holds more than anybody reads, such as a file as a whole; half of it is no JSON, and not heard.
const MAX_LINE: usize = 16 << 20;
/// Limits are of hours, days, or a month.
const LONGEST_LIMIT: Duration = Duration::from_secs(32 * 24 * 3600);
/// So many tools it may use after each request to stop before the next, less polite one.
const PATIENCE: u32 = 3;
const FEEDBACK: (usize, usize) = (6 * 1024, 10 * 1024);
const FINISHED: &str = "FINISHED";
/// How the client's answer to a tool call begins that it did not carry out: not permitted, or no such tool.
const REFUSALS: [&str; 2] = ["Permission to use", "<tool_use_error>Error: No such tool available"];

const STOP: &str = "\
Your context is nearly full. Stop here: start nothing new and use no more tools, unless a file of yours would be left \
broken. Your work stays in the worktree, and a fresh worker goes on from your next answer, which is all that it will know of \
what you did. If the task is finished and its verification passes, answer with the one word FINISHED. If not, write down \
what is done, what is left, what you found out, and what to do next.";

/// Everything that an attempt's client said that still matters.
pub struct Conversation {
    feed: Feed,
    threshold: f64,
    window: Window,
    /// The tokens that the latest answer was based on; subagents' answers are not counted.
    context: u64,
    worktree: PathBuf,
    tell: Tell,
    /// How many tools were used since it was asked to stop.
    asked: Option<u32>,
    interrupted: bool,
    /// What the tools do whose results are to come.
    tools: BTreeMap<String, String>,
    /// Messages whose tokens are counted; each block of a message comes on its own.
    counted: BTreeSet<String>,
    tokens: u64,
    /// The most that any result told; each tells the whole. `None` as long as none did.
    cost_usd: Option<f64>,
    last_text: String,
    /// Of the latest failure to reach the service: the client's word for it and the status, where there was one.
    trouble: (Option<String>, Option<u16>),
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
            tell: Box::new(|_| ()),
            asked: None,
            interrupted: false,
            tools: BTreeMap::new(),
            counted: BTreeSet::new(),
            tokens: 0,
            cost_usd: None,
            last_text: String::new(),
            trouble: (None, None),
            limited_until: None,
            outcome: None,
        }
    }

    pub fn begin(&mut self, worktree: &Path, tell: Tell) {
        self.worktree = worktree.to_owned();
        self.tell = tell;
    }

    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }

    pub fn cost(&self) -> Cost {
        let told = self.outcome.as_ref().map_or(0, Outcome::tokens);
        Cost::of(self.cost_usd, told.max(self.tokens))
    }

    /// The last that it said.
    pub fn answer(&self) -> &str {
        let result = self.outcome.as_ref().map(|outcome| outcome.result.trim()).unwrap_or_default();
        if result.is_empty() { self.last_text.trim() } else { result }
    }

    fn hear(&mut self, line: &[u8]) {
        let Ok(line) = serde_json::from_slice::<Line>(line) else { return };
        match line {
            Line::System(system) => self.system(system),
            Line::Assistant { message, error, parent_tool_use_id } => {
                if error.is_some() {
                    // The client's own words in place of an answer, which the result repeats.
                    self.trouble.0 = error;
                } else {
                    (self.trouble, self.limited_until) = ((None, None), None);
                    self.assistant(message, parent_tool_use_id.is_none());
                }
            }
            Line::User { message } => self.results(message),
            Line::ControlResponse { response } => {
                // A tool may have begun to run while the answer was awaited. An agent that was asked to stop before a late
                // answer is not asked again: only its tool uses count.
                if self.window.answered(&response) && !self.tools.is_empty() && self.asked.is_none() {
                    self.stop_if_full(Instant::now());
                }
            }
            Line::RateLimitEvent { rate_limit_info } if rate_limit_info.status == "rejected" => {
                self.limited_until = rate_limit_info.resets_at.map(|seconds| Time((seconds * 1000.0) as i64));
                // A later time is nonsense, for which a run would wait for ever.
                let latest = Time(Timestamp::now().as_millisecond()) + LONGEST_LIMIT;
                self.limited_until = self.limited_until.filter(|until| *until < latest);
                (self.tell)(AgentEvent::RateLimited { until: self.limited_until });
            }
            Line::Result(outcome) => {
                let text = if outcome.result.is_empty() { outcome.errors.join("; ") } else { outcome.result.clone() };
                (self.tell)(AgentEvent::Finished(format!(
                    "{} after {} turns: {text}",
                    outcome.subtype, outcome.num_turns
                )));
                // An urgent request ends a turn and begins the next, whose result is the one that counts.
                let urged = outcome.terminal_reason.as_deref() == Some("aborted_tools") && !self.interrupted;
                if !(urged && self.asked.is_some()) {
                    // It would wait for another task.
                    self.feed.close();
                }
                let told = self.cost_usd.into_iter().chain(outcome.total_cost_usd);
                self.cost_usd = told.reduce(f64::max);
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
                (self.tell)(AgentEvent::Started { session: session_id, model });
            }
            System::ApiRetry { attempt, max_retries, error_status, error } => {
                let word = error.clone().unwrap_or_else(|| "no answer".to_owned());
                let why = error_status.map_or(word.clone(), |status| format!("{status} {word}"));
                self.trouble = (error, error_status);
                (self.tell)(AgentEvent::Retrying { retry: attempt, of: max_retries, why });
            }
            System::CompactBoundary { compact_metadata } => {
                (self.tell)(AgentEvent::Compacted { from: compact_metadata.pre_tokens });
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
            self.tokens = self.tokens.saturating_add(context).saturating_add(message.usage.output_tokens);
            let usage = AgentEvent::Usage { tokens: self.tokens, context: self.percent(context) };
            (self.tell)(usage);
        }
        let Content::Blocks(blocks) = message.content else { return };
        for block in blocks {
            match block {
                Block::Text { text } if !text.trim().is_empty() => {
                    (self.tell)(AgentEvent::Text(text.clone()));
                    self.last_text = text;
                }
                Block::ToolUse { id, name, input } => {
                    let doing = doing(&self.worktree, &name, &input);
                    (self.tell)(AgentEvent::ToolUse(doing.clone()));
                    self.tools.insert(id, doing);
                    // Asked at a tool, as the client passes a message on when one has ended; asked at an end, it would begin anew.
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

    /// Asks the agent to stop where its context is full, once the window is known, and less politely with each tool that it
    /// uses after that.
    fn stop_if_full(&mut self, now: Instant) {
        let full = self.context as f64 >= self.threshold * self.window.tokens() as f64;
        if self.asked.is_some() || full && !self.window.is_awaited(now) {
            self.ask_to_stop(self.percent(self.context));
        }
    }

    fn ask_to_stop(&mut self, context: u64) {
        let used = self.asked.map_or(0, |used| used.saturating_add(1));
        self.asked = Some(used);
        if used == 0 {
            (self.tell)(AgentEvent::AskedToStop { context });
            self.feed.give(user_message(STOP));
        } else if used == PATIENCE {
            let message = json!({ "role": "user", "content": STOP });
            self.feed.give(format!("{}\n", json!({ "type": "user", "priority": "now", "message": message })));
        } else if used == 2 * PATIENCE {
            self.interrupted = true;
            self.feed.give(interrupt());
        }
    }

    fn results(&mut self, message: Message) {
        let Content::Blocks(blocks) = message.content else { return };
        for block in blocks {
            if let Block::ToolResult { tool_use_id, is_error, content } = block {
                let what = self.tools.remove(&tool_use_id);
                let text = content.as_str().unwrap_or_default();
                if is_error && REFUSALS.iter().any(|refusal| text.starts_with(refusal)) {
                    (self.tell)(AgentEvent::ToolDenied(what.unwrap_or_else(|| "something".to_owned())));
                }
            }
        }
    }

    pub fn said(&self, ended: &Ended) -> Said {
        let Some(outcome) = &self.outcome else {
            let output = bounded_text(&ended.stderr, FEEDBACK);
            return Said::Failed(format!("The agent ended with {} and without a result.\n\n{output}", ended.status));
        };
        if self.asked.is_some() && outcome.is_overflow() {
            return Said::Checkpoint(self.note_of_overflow());
        }
        if outcome.is_error && outcome.subtype == "success" {
            return self.service_error(outcome);
        }
        let answer = bounded_text(self.answer().as_bytes(), FEEDBACK);
        let completed = !outcome.is_error
            && outcome.subtype == "success"
            && outcome.terminal_reason.as_deref() == Some("completed")
            && ended.status == Exit::Code(0);
        if self.asked.is_some() {
            return match answer.as_str() {
                FINISHED if completed => Said::Done,
                "" => Said::Checkpoint("It ran out of context before it wrote down where it stood.".to_owned()),
                _ => Said::Checkpoint(answer),
            };
        }
        if outcome.subtype == "error_max_budget_usd" {
            let spent = outcome.total_cost_usd.unwrap_or_default();
            return Said::Blocked(format!(
                "the budget of this task is used up: {spent:.2} USD spent in this attempt; raise budget.max_usd_per_task"
            ));
        }
        if !completed {
            let reason = outcome.terminal_reason.as_deref().unwrap_or("no reason");
            let errors = outcome.errors.join("\n");
            return Said::Failed(format!(
                "The agent did not finish ({}, {reason}).\n{errors}\n\n{answer}",
                outcome.subtype
            ));
        }
        let mark = |mark: &str| answer.strip_prefix(mark).map(|rest| rest.trim().to_owned());
        match (mark("BLOCKED:"), mark("ESCALATE:")) {
            (Some(reason), _) => Said::Blocked(reason),
            (_, Some(question)) => Said::Escalated(question),
            _ => Said::Done,
        }
    }

    /// Returns what the next worker is told where the agent had no room left to write a note itself.
    fn note_of_overflow(&self) -> String {
        let overflow =
            "The context overflowed before the agent wrote down where it stood; its work is in the worktree.";
        let last_text = bounded_text(self.last_text.trim().as_bytes(), FEEDBACK);
        if last_text.is_empty() { overflow.to_owned() } else { format!("{overflow} It said last:\n\n{last_text}") }
    }

    /// The service gave no answer: whether that says anything about the task.
    fn service_error(&self, outcome: &Outcome) -> Said {
        let (word, status) =
            (self.trouble.0.as_deref().unwrap_or_default(), outcome.api_error_status.or(self.trouble.1));
        let limited = word == "rate_limit" || status == Some(429);
        let trouble = match (word, status) {
            _ if limited => "its limit is reached",
            ("authentication_failed" | "billing_error", _) | (_, Some(401 | 403)) => "it does not let us in",
            ("overloaded", _) | (_, Some(500..)) => "it is overloaded or out of order",
            ("server_error" | "unknown", None) => "it cannot be reached",
            _ => return Said::Failed(format!("The agent's service refused the request: {}", outcome.result)),
        };
        let until = self.limited_until.filter(|_| limited);
        Said::Unserved { why: format!("{trouble} ({})", outcome.result.trim()), until }
    }
}

/// Ends what the client is at. It tells its result, and with that what it cost, which it does not when a signal ends it.
pub fn interrupt() -> String {
    let request = json!({ "subtype": "interrupt" });
    format!("{}\n", json!({ "type": "control_request", "request_id": "stop", "request": request }))
}

/// What a tool does, in words for people.
fn doing(worktree: &Path, tool: &str, input: &Map<String, Value>) -> String {
    let text = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default();
    let path = || {
        let path = Path::new(text("file_path"));
        path.strip_prefix(worktree).unwrap_or(path).display().to_string()
    };
    match tool {
        "Read" => format!("reading {}", path()),
        "Write" | "Edit" | "NotebookEdit" => format!("editing {}", path()),
        "Bash" => {
            let command: String = text("command").lines().next().unwrap_or_default().chars().take(200).collect();
            format!("running {command}")
        }
        "TaskGet" | "TaskList" => "reading the task list".to_owned(),
        "TaskUpdate" => "noting how far it is".to_owned(),
        other => format!("using {other}"),
    }
}

/// Hears the client's output.
pub fn listener(conversation: Arc<Mutex<Conversation>>) -> impl Write + Send + 'static {
    Lines::new(MAX_LINE, move |line| conversation.lock().unwrap_or_else(PoisonError::into_inner).hear(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_about_the_window_is_no_tool_use() {
        let mut conversation = Conversation::new(Feed::default(), 0.7);
        let mut hear = |line: Value| conversation.hear(line.to_string().as_bytes());
        hear(json!({ "type": "system", "subtype": "init", "session_id": "s", "model": "sonnet" }));
        hear(json!({ "type": "assistant", "parent_tool_use_id": null, "message": {
            "id": "m", "usage": { "input_tokens": 150_000 },
            "content": [{ "type": "tool_use", "id": "t", "name": "Read", "input": {} }] } }));
        assert_eq!(conversation.asked, None, "the answer is awaited");
        // As after the time limit for the answer.
        conversation.stop_if_full(Instant::now() + Duration::from_secs(3600));
        assert_eq!(conversation.asked, Some(0));
        let answer = json!({ "subtype": "success", "request_id": "window", "response": { "maxTokens": 200_000 } });
        conversation.hear(json!({ "type": "control_response", "response": answer }).to_string().as_bytes());
        assert_eq!(conversation.asked, Some(0));
    }
}
