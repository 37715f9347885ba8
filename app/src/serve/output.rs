//! The output of an attempt's agent or of a gate, as server-sent events: all so far, then as it comes, then the end.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use mahabharatha_core::ids::TaskId;
use mahabharatha_engine::report::logs::LogTail;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::events::sse;
use super::live::{Live, Snapshot};
use super::shared::blocking;
use crate::observe::{TAIL_BYTES, leaves_out, output_lines};

/// The id of the last event. A browser that connects again with it has got everything.
const END: &str = "end";

/// What output is wanted.
pub enum Of {
    Attempt {
        task: TaskId,
        attempt: u32,
    },
    /// A gate's run, by the file name of its log.
    Gate(String),
}

struct Output {
    live: Arc<Live>,
    looks: watch::Receiver<u64>,
    /// Keeps the feed reading.
    _status: watch::Receiver<Arc<Snapshot>>,
    of: Of,
    log: PathBuf,
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
pub fn follow(live: Arc<Live>, of: Of, log: PathBuf, last_event: Option<&str>) -> Response {
    if last_event == Some(END) {
        // Tells the browser not to connect again.
        return StatusCode::NO_CONTENT.into_response();
    }
    let mut tail = LogTail::new(log.clone(), TAIL_BYTES);
    tail.read = last_event.and_then(|id| id.parse().ok()).unwrap_or(0);
    let (looks, status) = (live.looks(), live.subscribe());
    let output = Output { live, looks, _status: status, of, log, tail, state: State::First };
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
            let (output, data) = blocking(move || Ok(self.read_on())).await.ok()?;
            self = output;
            // The first event comes at once, so that the page knows that nothing was said yet.
            if is_first || data["lines"] != json!([]) {
                let event = Event::default().event("lines").id(self.tail.read.to_string());
                return Some((event.data(data.to_string()), self));
            }
        }
    }

    fn read_on(mut self) -> (Output, Value) {
        // Asked first: if it is over, what is read below is all of it.
        let (is_over, attempt) = match &self.of {
            Of::Attempt { task, attempt } => (self.live.is_over(task, *attempt), Some(*attempt)),
            Of::Gate(name) => (self.live.gate_log(name).is_none_or(|(_, is_over)| is_over), None),
        };
        let leaves_out = leaves_out(&self.log, self.tail.read);
        let records = self.tail.read_on();
        // What was skipped before records of an earlier attempt belongs to that one.
        let first = records.first().and_then(|record| record.attempt);
        let is_earlier = first.zip(attempt).is_some_and(|(first, wanted)| first < wanted);
        let wanted = records.iter().filter(|record| attempt.is_none() || record.attempt == attempt);
        let lines: Vec<_> = wanted.flat_map(output_lines).collect();
        self.state = if is_over { State::Over } else { State::Running };
        (self, json!({ "left_out": leaves_out && !is_earlier, "lines": lines }))
    }
}
