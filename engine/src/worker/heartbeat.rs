//! Signs of life: a worker that was stopped, or hangs, is told from one whose agent takes its time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use mahabharatha_sys::error::{Result, io};

const FILE: &str = "heartbeat";
/// So often a watcher looks within the time that a worker may be silent, and so often a worker gives a sign.
const LOOKS: u32 = 8;
const BEATS: u32 = 4;
/// On a busy machine a worker may not get to it in less.
const LEAST: Duration = Duration::from_secs(2);

/// Gives signs of life until this process ends.
pub fn beat(job_dir: &Path, limit: Duration) -> Result<()> {
    let path = job_dir.join(FILE);
    let file = File::create(&path).map_err(io("create", &path))?;
    let pause = limit.max(LEAST) / BEATS;
    let beat = move || {
        loop {
            // The time alone: a full disk takes that still.
            let _ = file.set_modified(SystemTime::now());
            thread::sleep(pause);
        }
    };
    thread::Builder::new().name("heartbeat".into()).spawn(beat).map_err(io("start a thread for", job_dir))?;
    Ok(())
}

/// Somebody who looks after a worker.
pub struct Watch {
    over: Sender<()>,
    watcher: JoinHandle<bool>,
}

impl Watch {
    /// Calls `end` where the worker of the job gives no sign of life for so long.
    pub fn start(job_dir: &Path, limit: Duration, end: impl FnOnce() + Send + 'static) -> Watch {
        let (over, told) = mpsc::channel::<()>();
        let (path, pause) = (job_dir.join(FILE), limit.max(LEAST) / LOOKS);
        let watcher = thread::spawn(move || {
            let (mut seen, mut missed) = (last_sign(&path), 0);
            // Looks are counted, not time: a machine that slept, or a clock that jumped, ends nobody.
            while matches!(told.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                let now = last_sign(&path);
                missed = if now == seen { missed + 1 } else { 0 };
                seen = now;
                if missed == LOOKS {
                    end();
                    return true;
                }
            }
            false
        });
        Watch { over, watcher }
    }

    /// The worker is gone; whether that was the watcher's doing.
    pub fn end(self) -> bool {
        drop(self.over);
        self.watcher.join().unwrap_or(false)
    }
}

fn last_sign(path: &PathBuf) -> Option<SystemTime> {
    fs::metadata(path).and_then(|found| found.modified()).ok()
}
