//! Runs the commands that tool calls stand for, side by side, and cancels them when the client stops waiting for them.

use std::ffi::OsString;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mahabharatha_engine::lease::MCP_SESSION;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc::{self, Canceller, Cmd, Ended};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;

/// Most calls at once: more than a session holds tasks, so that it can always ask for the status.
pub const MAX_CALLS: u32 = 16;
/// Time that a cancelled command has to end its programs and to record what it did.
const GRACE_PERIOD: Duration = Duration::from_secs(15);
/// Most bytes of an answer.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

pub struct Calls {
    /// Words before those of every command.
    first: Vec<OsString>,
    /// The session that the commands belong to; none if they find it in the environment.
    session: Option<String>,
    places: Arc<Semaphore>,
    ending: watch::Sender<bool>,
}

impl Calls {
    pub fn new(first: Vec<OsString>, session: Option<String>) -> Calls {
        let places = Arc::new(Semaphore::new(MAX_CALLS as usize));
        Calls { first, session, places, ending: watch::Sender::new(false) }
    }

    /// Runs a command until it has ended. Cancels it when `cancelled` or the server ends.
    pub async fn run(&self, words: Vec<String>, cancelled: impl Future<Output = ()>) -> Result<Ended> {
        let mut ending = self.ending.subscribe();
        let stopped = || Error::new(Kind::Stopped, "the server is about to exit");
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| stopped())?;
        if *ending.borrow_and_update() {
            return Err(stopped());
        }
        let running = self.command(&words)?.spawn().map_err(Error::caused("cannot run the command"))?;
        // Also ends the command if this call is dropped.
        let canceller = CancelOnDrop(running.canceller());
        let mut ended = spawn_blocking(move || {
            let ended = running.wait();
            drop(place);
            ended
        });
        let finished = tokio::select! {
            finished = &mut ended => Some(finished),
            () = cancelled => None,
            _ = ending.changed() => None,
        };
        let finished = match finished {
            Some(finished) => finished,
            None => {
                drop(canceller);
                ended.await
            }
        };
        let gone = |_| Error::new(Kind::Failed, "the command was interrupted");
        finished.map_err(gone)?.map_err(Error::caused("cannot wait for the command"))
    }

    fn command(&self, words: &[String]) -> Result<Cmd> {
        let program = proc::own_program().map_err(Error::caused("cannot find the path of this executable"))?;
        let session = self.session.iter().map(|name| (OsString::from(MCP_SESSION), OsString::from(name)));
        Ok(Cmd::new(program)
            .args(&self.first)
            .args(words)
            .envs(std::env::vars_os().chain(session).collect())
            .keep(MAX_ANSWER_BYTES / 4, MAX_ANSWER_BYTES - MAX_ANSWER_BYTES / 4))
    }

    /// Cancels all commands and waits until they have ended.
    pub async fn end(&self) {
        self.ending.send_replace(true);
        let ended = tokio::time::timeout(2 * GRACE_PERIOD, self.places.acquire_many(MAX_CALLS));
        // What cannot be killed must not keep the server.
        drop(ended.await);
    }
}

struct CancelOnDrop(Canceller);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // Of a command that has ended this does nothing.
        self.0.cancel(GRACE_PERIOD);
    }
}
