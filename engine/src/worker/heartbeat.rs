//! Worker heartbeat: tells a worker that is suspended or hangs from one whose agent is just slow.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::store::state_file;

const FILE: &str = "heartbeat";
/// Checks by the watcher within one heartbeat limit.
const CHECKS_PER_LIMIT: u32 = 8;
/// Heartbeats by the worker within one heartbeat limit.
const BEATS_PER_LIMIT: u32 = 4;
/// Shortest heartbeat limit: on a busy machine a worker may not get to run more often.
const MIN_LIMIT: Duration = Duration::from_secs(2);
/// Longest interval between heartbeats, so that the last one tells when a worker was killed.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// Starts a thread that writes heartbeats until this process ends.
pub fn beat(job_dir: &Path, limit: Duration) -> Result<()> {
    let path = job_dir.join(FILE);
    let file = state_file::open(&path).map_err(io("create", &path))?;
    let pause = (limit.max(MIN_LIMIT) / BEATS_PER_LIMIT).min(MAX_INTERVAL);
    let beat = move || {
        loop {
            // Sets only the modification time, which works even on a full disk.
            let _ = file.set_modified(SystemTime::now());
            thread::sleep(pause);
        }
    };
    thread::Builder::new().name("heartbeat".into()).spawn(beat).map_err(io("start a thread for", job_dir))?;
    Ok(())
}

/// Thread that watches the heartbeat of one worker.
pub struct Watch {
    over: Sender<()>,
    watcher: JoinHandle<bool>,
}

impl Watch {
    /// Calls `end` if the job's worker writes no heartbeat within `limit`.
    pub fn start(job_dir: &Path, limit: Duration, end: impl FnOnce() + Send + 'static) -> Watch {
        let (over, told) = mpsc::channel::<()>();
        let (path, pause) = (job_dir.join(FILE), limit.max(MIN_LIMIT) / CHECKS_PER_LIMIT);
        let watcher = thread::spawn(move || {
            let (mut seen, mut missed) = (last_beat(&path), 0);
            // Counts checks, not time: a machine that slept or a clock that jumped must not end a worker.
            while matches!(told.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                let now = last_beat(&path);
                missed = if now == seen { missed + 1 } else { 0 };
                seen = now;
                if missed == CHECKS_PER_LIMIT {
                    end();
                    return true;
                }
            }
            false
        });
        Watch { over, watcher }
    }

    /// Stops watching because the worker has exited; returns whether the watcher ended it.
    pub fn end(self) -> bool {
        drop(self.over);
        self.watcher.join().unwrap_or(false)
    }
}

/// Returns when the job's worker wrote its last heartbeat.
pub fn last(job_dir: &Path) -> Option<SystemTime> {
    last_beat(&job_dir.join(FILE))
}

fn last_beat(path: &PathBuf) -> Option<SystemTime> {
    fs::metadata(path).and_then(|found| found.modified()).ok()
}
