//! Waits for a program that may be cancelled or may stall.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use mahabharatha_sys::bounded::{self, SMALL_FILE_BYTES};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::proc::{self, Canceller, Ended, Running};
use mahabharatha_sys::signals;

use super::files;

/// Cancellation by a signal: the first signal cancels gracefully, the second one exits at once.
#[derive(Clone)]
pub struct CancelSignal(Arc<Mutex<State>>);

struct State {
    cancelled: bool,
    /// This process is about to exit, so results no longer matter.
    dying: bool,
    grace: Duration,
    running: Option<Canceller>,
    /// Called once, when the attempt is cancelled.
    wake: Option<Box<dyn FnOnce() + Send>>,
}

impl CancelSignal {
    /// Listens for signals. If the file `wanted` exists when a signal comes, its milliseconds replace `grace`.
    pub fn listen(grace: Duration, wanted: PathBuf) -> Result<CancelSignal> {
        CancelSignal::listen_unless(grace, wanted, |_| false)
    }

    /// Listens for signals that `handled` does not handle, which gets their numbers.
    pub fn listen_unless(
        grace: Duration,
        wanted: PathBuf,
        mut handled: impl FnMut(i32) -> bool + Send + 'static,
    ) -> Result<CancelSignal> {
        let cancel = CancelSignal(Arc::new(Mutex::new(State {
            cancelled: false,
            dying: false,
            grace,
            running: None,
            wake: None,
        })));
        let heard = cancel.clone();
        signals::listen(move |_, signal| {
            if handled(signal) {
                return;
            }
            let wanted =
                bounded::read_to_string(&wanted, SMALL_FILE_BYTES).ok().and_then(|text| text.trim().parse().ok());
            if !heard.cancel(wanted.map(Duration::from_millis)) {
                heard.state().dying = true;
                die();
            }
        })?;
        Ok(cancel)
    }

    pub fn cancelled(&self) -> bool {
        self.state().cancelled
    }

    /// Calls `wake` when the attempt is cancelled, or now if it is already.
    pub fn when_cancelled(&self, wake: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        if state.cancelled {
            wake();
        } else {
            state.wake = Some(Box::new(wake));
        }
    }

    /// Waits for the program; cancels it if the attempt is cancelled.
    pub fn wait(&self, running: Running) -> io::Result<Ended> {
        let canceller = running.canceller();
        let mut state = self.state();
        if state.cancelled {
            canceller.cancel(state.grace);
        }
        state.running = Some(canceller);
        drop(state);
        let ended = running.wait();
        let mut state = self.state();
        state.running = None;
        let dying = state.dying;
        drop(state);
        if dying {
            loop {
                std::thread::park();
            }
        }
        ended
    }

    /// Cancels the attempt; returns `false` if it was cancelled already.
    fn cancel(&self, grace: Option<Duration>) -> bool {
        let mut state = self.state();
        state.grace = grace.unwrap_or(state.grace);
        if std::mem::replace(&mut state.cancelled, true) {
            return false;
        }
        if let Some(canceller) = &state.running {
            canceller.cancel(state.grace);
        }
        if let Some(wake) = state.wake.take() {
            wake();
        }
        true
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills all descendants and exits without a result.
fn die() -> ! {
    proc::end_descendants(Duration::ZERO);
    std::process::exit(1)
}

/// Exits after `limit`, whatever hangs: the orchestrator that would end this worker may be gone.
pub fn die_after(limit: Duration) -> io::Result<()> {
    std::thread::Builder::new().name("last-resort".into()).spawn(move || {
        std::thread::sleep(limit);
        die()
    })?;
    Ok(())
}

/// Waits for the agent. Returns `true` if it was cancelled because it wrote and changed nothing for as long as `stall`.
pub fn wait_for_agent(
    running: Running,
    cancel: &CancelSignal,
    stall: Duration,
    grace: Duration,
    worktree: &Path,
) -> io::Result<(Ended, bool)> {
    let canceller = running.canceller();
    let stalled = AtomicBool::new(false);
    let (over, told) = mpsc::channel::<()>();
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let told = told;
            let mut idle = canceller.silent_for();
            while matches!(told.recv_timeout(stall.saturating_sub(idle)), Err(RecvTimeoutError::Timeout)) {
                idle = canceller.silent_for();
                if idle >= stall {
                    idle = idle.min(unchanged_for(worktree));
                }
                if idle >= stall {
                    stalled.store(true, Ordering::Relaxed);
                    canceller.cancel(grace);
                    break;
                }
            }
        });
        let ended = cancel.wait(running);
        drop(over);
        ended
    })?;
    Ok((ended, stalled.into_inner()))
}

/// Returns the time since the last change in the directory, by change times, which programs cannot set.
fn unchanged_for(dir: &Path) -> Duration {
    let newest = newest_change(dir);
    SystemTime::now().duration_since(newest).unwrap_or(Duration::ZERO)
}

fn newest_change(dir: &Path) -> SystemTime {
    let changed = |found: &Metadata| {
        let (seconds, nanos) = (found.ctime().max(0) as u64, found.ctime_nsec().max(0) as u32);
        SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos)
    };
    let mut newest = fs::symlink_metadata(dir).map_or(SystemTime::UNIX_EPOCH, |found| changed(&found));
    files::walk(dir, |_, entry| {
        newest = entry.metadata().map_or(newest, |found| newest.max(changed(&found)));
        true
    });
    newest
}
