//! What the agent of an attempt says and does, as server-sent events: all so far, then as it comes, then the end.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use mahabharatha_core::ids::TaskId;
use mahabharatha_engine::report::logs::LogTail;
use mahabharatha_sys::project::Place;
use serde_json::json;
use tokio::sync::watch;

use super::events::sse;
use super::live::{Live, Snapshot};
use super::shared::blocking;
use crate::observe::{OutputLine, TAIL_BYTES, output_lines};

/// The id of the last event. A browser that connects again with it has got everything.
const END: &str = "end";

/// The attempt whose output is wanted.
pub struct Attempt {
    pub place: Place,
    pub task: TaskId,
    pub attempt: u32,
}

struct Output {
    live: Arc<Live>,
    looks: watch::Receiver<u64>,
    /// Keeps the feed reading.
    _status: watch::Receiver<Arc<Snapshot>>,
    task: TaskId,
    attempt: u32,
    tail: LogTail,
    state: State,
}

#[derive(PartialEq)]
enum State {
    First,
    Running,
    Over,
    Ended,
}

/// Follows the output. May block before the first event.
pub fn follow(live: Arc<Live>, of: Attempt, last_event: Option<&str>) -> Response {
    if last_event == Some(END) {
        // Tells the browser not to connect again.
        return StatusCode::NO_CONTENT.into_response();
    }
    let mut tail = LogTail::new(of.place.paths.task_log(&of.task), TAIL_BYTES);
    tail.read = last_event.and_then(|id| id.parse().ok()).unwrap_or(0);
    let (looks, status) = (live.looks(), live.subscribe());
    let (task, attempt) = (of.task, of.attempt);
    let output = Output { live, looks, _status: status, task, attempt, tail, state: State::First };
    sse(unfold(output, |output| output.next()))
}

impl Output {
    async fn next(mut self) -> Option<(Event, Output)> {
        loop {
            match self.state {
                State::First => {}
                State::Running => self.looks.changed().await.ok()?,
                State::Over => {
                    self.state = State::Ended;
                    return Some((Event::default().event("end").id(END).data("{}"), self));
                }
                State::Ended => return None,
            }
            self.looks.mark_unchanged();
            let is_first = self.state == State::First;
            let (output, lines) = blocking(move || Ok(self.read_on())).await.ok()?;
            self = output;
            // The first event comes at once, so that the page knows that nothing was said yet.
            if is_first || !lines.is_empty() {
                let event = Event::default().event("lines").id(self.tail.read.to_string());
                return Some((event.data(json!(lines).to_string()), self));
            }
        }
    }

    fn read_on(mut self) -> (Output, Vec<OutputLine>) {
        // Asked first: if the attempt is over, what is read below is all of it.
        let is_over = self.live.is_over(&self.task, self.attempt);
        let records = self.tail.read_on();
        let of_attempt = records.iter().filter(|record| record.attempt == Some(self.attempt));
        let lines = of_attempt.flat_map(output_lines).collect();
        self.state = if is_over { State::Over } else { State::Running };
        (self, lines)
    }
}
