//! Waiting for a program that may be cancelled, or may do nothing any more.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use mahabharatha_sys::proc::{self, Canceller, Ended, Running};
use mahabharatha_sys::signals;

use super::files;

/// A request from outside to end: the first in good order, the second at once.
#[derive(Clone)]
pub struct CancelSignal(Arc<Mutex<State>>);

struct State {
    cancelled: bool,
    /// Everything is being ended, us included: nobody looks at what is left any more.
    dying: bool,
    grace: Duration,
    running: Option<Canceller>,
    /// Called once when the request comes.
    wake: Option<Box<dyn FnOnce() + Send>>,
}

impl CancelSignal {
    /// `wanted` is a file with the milliseconds to use in place of `grace`, should it be there when the request comes.
    pub fn listen(grace: Duration, wanted: PathBuf) -> io::Result<CancelSignal> {
        let cancel = CancelSignal(Arc::new(Mutex::new(State {
            cancelled: false,
            dying: false,
            grace,
            running: None,
            wake: None,
        })));
        let heard = cancel.clone();
        signals::listen(move |_, _| {
            let wanted = fs::read_to_string(&wanted).ok().and_then(|text| text.trim().parse().ok());
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

    /// Calls `wake` when a request to end comes, or now if it has come.
    pub fn when_cancelled(&self, wake: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        if state.cancelled {
            wake();
        } else {
            state.wake = Some(Box::new(wake));
        }
    }

    /// Waits for the program; a request ends it.
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

    /// `false` if that had been asked already.
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

/// Ends everything below us and then us, without a result.
fn die() -> ! {
    proc::end_descendants(Duration::ZERO);
    std::process::exit(1)
}

/// No attempt outlives this, whatever hangs: a worker may have lost the orchestrator that would end it.
pub fn die_after(limit: Duration) -> io::Result<()> {
    std::thread::Builder::new().name("last-resort".into()).spawn(move || {
        std::thread::sleep(limit);
        die()
    })?;
    Ok(())
}

/// Waits for the agent; `true` if it was ended because it had neither written nor changed anything for so long.
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

/// How long ago anything in the directory was last changed, by a time that programs cannot set.
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
