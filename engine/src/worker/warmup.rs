//! Lets one worker fill the service's prompt cache before the others send the same prefix.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mahabharatha_sys::error::Result;
use mahabharatha_sys::store::prompt_cache::{self, Filling, Turn};

use super::log::Log;
use super::watch::CancelSignal;
use crate::agent::EventSink;

/// Longest time a worker waits for another worker's first answer. By then the service has most likely read the prefix,
/// even if no block of the answer is complete.
const WAIT_LIMIT: Duration = Duration::from_secs(20);
const EVENT: &str = "prompt_cache";

/// A worker's turn at filling the cache, shared with the event sink that sees the first answer.
#[derive(Clone, Default)]
pub struct Warmup(Arc<Mutex<Option<(Filling, PathBuf)>>>);

enum News {
    Turn(Result<Turn>),
    Cancelled,
}

impl Warmup {
    /// Waits for the worker that fills the cache, or becomes it. Errors with the lock file are ignored.
    pub fn wait_for_turn(&self, path: &Path, cancel: &CancelSignal, log: &Log) {
        let turn = match prompt_cache::enter(path) {
            Ok(Turn::Wait) => {
                log.info(EVENT, "waiting for the worker that fills it");
                let (turn, what) = match wait_for_another(path, cancel).recv_timeout(WAIT_LIMIT) {
                    Ok(News::Turn(Ok(turn))) => (turn, "the worker that filled it is done"),
                    Ok(News::Turn(Err(_))) => (Turn::Warm, "its file cannot be locked"),
                    Ok(News::Cancelled) => (Turn::Warm, "cancelled"),
                    Err(_) => (Turn::Warm, "waited long enough"),
                };
                log.info(EVENT, if matches!(turn, Turn::Fill(_)) { "filled by this worker now" } else { what });
                turn
            }
            Ok(turn) => turn,
            Err(_) => return,
        };
        if let Turn::Fill(filling) = turn {
            *self.lock() = Some((filling, path.to_owned()));
        }
    }

    /// Returns a sink that passes events on and releases the other workers at the first answer of the service.
    pub fn event_sink(&self, mut sink: EventSink) -> EventSink {
        let warmup = self.clone();
        Box::new(move |event| {
            if event.is_answer()
                && let Some((filling, path)) = warmup.lock().take()
            {
                // If this cannot be recorded, the next worker fills the cache.
                let _ = filling.filled(&path);
            }
            sink(event);
        })
    }

    /// Lets the next worker fill the cache, if no answer came.
    pub fn end(&self) {
        self.lock().take();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Filling, PathBuf)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait_for_another(path: &Path, cancel: &CancelSignal) -> Receiver<News> {
    let (sender, news) = mpsc::channel();
    let (path, cancelled) = (path.to_owned(), sender.clone());
    cancel.when_cancelled(move || drop(cancelled.send(News::Cancelled)));
    // The thread may wait longer than its worker does; it then releases the lock at once.
    std::thread::spawn(move || sender.send(News::Turn(prompt_cache::wait(&path))));
    news
}
