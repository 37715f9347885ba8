//! Size of the model's context window: as the client reports it, otherwise an assumption.

use std::time::{Duration, Instant};

use serde_json::json;

use super::wire::ControlAnswer;

/// Window size in tokens that is assumed unless the client reports another.
const DEFAULT_TOKENS: u64 = 200_000;
/// Window size in tokens that is assumed for models with the suffix `[1m]`.
const LARGE_TOKENS: u64 = 1_000_000;
/// Id of the control request for the window.
const REQUEST_ID: &str = "window";
/// Time after which the assumption is used if the client has not answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Window {
    assumed: u64,
    state: State,
}

enum State {
    NotAsked,
    AskedAt(Instant),
    Reported(u64),
    /// The client could not report it.
    Refused,
}

impl Window {
    pub fn new() -> Window {
        Window { assumed: DEFAULT_TOKENS, state: State::NotAsked }
    }

    /// Returns the request to send when a session begins; `None` if it was already sent.
    pub fn ask(&mut self, model: &str, now: Instant) -> Option<String> {
        self.assumed = if model.ends_with("[1m]") { LARGE_TOKENS } else { DEFAULT_TOKENS };
        if !matches!(self.state, State::NotAsked) {
            return None;
        }
        self.state = State::AskedAt(now);
        // A summary needs no API requests; older clients ignore `detail` and count tokens through the API.
        let request = json!({ "subtype": "get_context_usage", "detail": "summary" });
        Some(format!("{}\n", json!({ "type": "control_request", "request_id": REQUEST_ID, "request": request })))
    }

    /// Records the client's answer; returns `false` if it answers another request.
    pub fn answered(&mut self, answer: &ControlAnswer) -> bool {
        let ours = answer.request_id == REQUEST_ID;
        if ours {
            let reported = answer.response.as_ref().and_then(|usage| usage.max_tokens).filter(|tokens| *tokens > 0);
            self.state = reported.map_or(State::Refused, State::Reported);
        }
        ours
    }

    /// Returns the reported window, or the assumed one if none is reported so far.
    pub fn tokens(&self) -> u64 {
        match self.state {
            State::Reported(tokens) => tokens,
            _ => self.assumed,
        }
    }

    /// Returns whether the client may still report another window, so that no decision should depend on it yet.
    pub fn is_awaited(&self, now: Instant) -> bool {
        matches!(self.state, State::AskedAt(at) if now.saturating_duration_since(at) < ANSWER_TIMEOUT)
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
    fn the_window_is_requested_once_and_taken_as_reported() {
        let now = Instant::now();
        let mut window = Window::new();
        assert!(!window.is_awaited(now));
        assert!(window.ask("sonnet", now).is_some_and(|request| request.contains("get_context_usage")));
        assert!(window.is_awaited(now));
        assert_eq!(window.ask("sonnet", now), None);
        assert!(!window.answered(&answer("stop", Some(7))) && window.is_awaited(now));
        assert!(window.answered(&answer(REQUEST_ID, Some(1_000_000))) && !window.is_awaited(now));
        assert_eq!(window.tokens(), 1_000_000);
    }

    #[test]
    fn the_assumption_is_used_if_the_client_does_not_answer() {
        let now = Instant::now();
        let silent = |model: &str| {
            let mut window = Window::new();
            window.ask(model, now);
            window
        };
        for (model, assumed) in [("sonnet", 200_000), ("sonnet[1m]", 1_000_000)] {
            let mut window = silent(model);
            assert!(window.is_awaited(now + ANSWER_TIMEOUT / 2) && !window.is_awaited(now + ANSWER_TIMEOUT));
            assert_eq!(window.tokens(), assumed);
            for unusable in [None, Some(0)] {
                window.answered(&answer(REQUEST_ID, unusable));
                assert_eq!((window.tokens(), window.is_awaited(now)), (assumed, false));
            }
        }
        let mut window = silent("sonnet");
        window.answered(&ControlAnswer { request_id: REQUEST_ID.to_owned(), response: None });
        assert_eq!((window.tokens(), window.is_awaited(now)), (200_000, false));
    }
}
