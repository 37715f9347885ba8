//! The size of the model's context window: what the client says, and an assumption where it says nothing.

use std::time::{Duration, Instant};

use serde_json::json;

use super::wire::ControlAnswer;

/// What models had before clients could be asked.
const USUAL: u64 = 200_000;
const LARGE: u64 = 1_000_000;
/// The id of our request for the window.
const REQUEST: &str = "window";
/// How long the client may take to answer before the assumption holds.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

pub struct Window {
    assumed: u64,
    state: State,
}

enum State {
    NotAsked,
    AskedAt(Instant),
    Told(u64),
    /// The client cannot say.
    Refused,
}

impl Window {
    pub fn new() -> Window {
        Window { assumed: USUAL, state: State::NotAsked }
    }

    /// Returns the request to send when a session begins; nothing if the client was asked already.
    pub fn ask(&mut self, model: &str, now: Instant) -> Option<String> {
        self.assumed = if model.ends_with("[1m]") { LARGE } else { USUAL };
        if !matches!(self.state, State::NotAsked) {
            return None;
        }
        self.state = State::AskedAt(now);
        // A summary costs no requests to the service; older clients ignore the word and count tokens there.
        let request = json!({ "subtype": "get_context_usage", "detail": "summary" });
        Some(format!("{}\n", json!({ "type": "control_request", "request_id": REQUEST, "request": request })))
    }

    /// Takes the client's answer; `false` if it answers another request.
    pub fn answered(&mut self, answer: &ControlAnswer) -> bool {
        let ours = answer.request_id == REQUEST;
        if ours {
            let told = answer.response.as_ref().and_then(|usage| usage.max_tokens).filter(|tokens| *tokens > 0);
            self.state = told.map_or(State::Refused, State::Told);
        }
        ours
    }

    /// Returns the window, as far as it is known or assumed by now.
    pub fn tokens(&self) -> u64 {
        match self.state {
            State::Told(tokens) => tokens,
            _ => self.assumed,
        }
    }

    /// Whether the client's answer may still change the window, so that nothing should be decided by it yet.
    pub fn is_awaited(&self, now: Instant) -> bool {
        matches!(self.state, State::AskedAt(at) if now.saturating_duration_since(at) < ANSWER_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::ContextUsage;
    use super::*;

    fn answer(request_id: &str, max_tokens: Option<u64>) -> ControlAnswer {
        ControlAnswer { request_id: request_id.to_owned(), response: Some(ContextUsage { max_tokens }) }
    }

    #[test]
    fn the_client_is_asked_once_and_believed() {
        let now = Instant::now();
        let mut window = Window::new();
        assert!(!window.is_awaited(now));
        assert!(window.ask("sonnet", now).is_some_and(|request| request.contains("get_context_usage")));
        assert!(window.is_awaited(now));
        assert_eq!(window.ask("sonnet", now), None);
        assert!(!window.answered(&answer("stop", Some(7))) && window.is_awaited(now));
        assert!(window.answered(&answer(REQUEST, Some(1_000_000))) && !window.is_awaited(now));
        assert_eq!(window.tokens(), 1_000_000);
    }

    #[test]
    fn the_assumption_holds_where_the_client_gives_no_answer() {
        let now = Instant::now();
        let silent = |model: &str| {
            let mut window = Window::new();
            window.ask(model, now);
            window
        };
        for (model, assumed) in [("sonnet", 200_000), ("sonnet[1m]", 1_000_000)] {
            let mut window = silent(model);
            assert!(window.is_awaited(now + ANSWER_LIMIT / 2) && !window.is_awaited(now + ANSWER_LIMIT));
            assert_eq!(window.tokens(), assumed);
            for unusable in [None, Some(0)] {
                window.answered(&answer(REQUEST, unusable));
                assert_eq!((window.tokens(), window.is_awaited(now)), (assumed, false));
            }
        }
        let mut window = silent("sonnet");
        window.answered(&ControlAnswer { request_id: REQUEST.to_owned(), response: None });
        assert_eq!((window.tokens(), window.is_awaited(now)), (200_000, false));
    }
}
