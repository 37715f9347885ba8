//! The status as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use tokio::sync::watch;

use super::live::Snapshot;

/// Interval of comments while nothing happens, by which both sides see that the other is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Time after which a browser connects again.
const RECONNECT: Duration = Duration::from_secs(1);

/// Answers with a stream of events that ends when the client leaves.
pub fn sse(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = events.map(Ok::<_, Infallible>);
    Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

/// What one connection has got.
struct Follower {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    /// Version of the last snapshot that was sent.
    seen: Option<u64>,
    /// Id of the event that the client has from an earlier connection.
    has: Option<String>,
}

/// Returns the id of the event that the client has from an earlier connection.
pub fn last_event(headers: &HeaderMap) -> Option<&str> {
    headers.get("last-event-id")?.to_str().ok().map(str::trim)
}

/// Returns the status now, then whenever it changes, with the tasks that are new to the client.
pub fn status_events(snapshots: watch::Receiver<Arc<Snapshot>>, has: Option<String>) -> Response {
    sse(unfold(Follower { snapshots, seen: None, has }, |mut follower| async move {
        let event = follower.next().await?;
        Some((event, follower))
    }))
}

impl Follower {
    async fn next(&mut self) -> Option<Event> {
        let is_first = self.seen.is_none();
        if !is_first {
            self.snapshots.changed().await.ok()?;
        }
        let snapshot = Arc::clone(&self.snapshots.borrow_and_update());
        let event = match &snapshot.problem {
            Some(problem) => {
                // What comes after the problem may have nothing to do with what was before.
                self.seen = Some(0);
                Event::default().event("problem").data(problem)
            }
            None => {
                let up_to_date = is_first && self.has == Some(snapshot.id());
                let seen = if up_to_date { Some(snapshot.version) } else { self.seen };
                self.seen = Some(snapshot.version);
                Event::default().event("status").id(snapshot.id()).data(snapshot.since(seen))
            }
        };
        Some(if is_first { event.retry(RECONNECT) } else { event })
    }
}
