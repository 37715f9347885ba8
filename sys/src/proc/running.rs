//! A running program: reads its output without blocking, and ends it with all its descendants.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::feed::Feed;
use super::id::ProcessId;
use super::output::Kept;
use super::process::Process;
use super::watchdog::Watchdog;
use super::{Ended, tree};

/// Maximum size of a copy of the output, so that a program that prints forever does not fill the disk.
const MAX_COPY_BYTES: u64 = 64 << 20;
/// Maximum content of a pipe whose writer has ended; anything beyond it comes from a process that detached.
const MAX_PIPE_BYTES: usize = 1 << 20;
/// Maximum number of bytes read from a stream in one round.
const CHUNK_BYTES: usize = 64 * 1024;
/// Maximum time between the stop message on standard input and SIGTERM.
const STOP_MESSAGE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct Plan {
    pub readers: Vec<PipeReader>,
    pub keep: (usize, usize),
    pub stdin: Option<(ChildStdin, Feed)>,
    pub timeout: Option<Duration>,
    pub grace: Duration,
    pub copy: Option<Box<dyn Write + Send>>,
    pub listener: Option<Box<dyn Write + Send>>,
    pub watchdog: Option<Watchdog>,
}

/// A program that runs. Killed with its descendants if it is dropped without being waited for.
pub struct Running {
    process: Process,
    id: ProcessId,
    streams: Vec<Stream>,
    input: Option<Input>,
    wake: PipeReader,
    control: Arc<Control>,
    started: Instant,
    timeout: Option<Duration>,
    grace: Duration,
    copy: Option<(Box<dyn Write + Send>, u64)>,
    listener: Option<Box<dyn Write + Send>>,
    /// Dropped last, when the program has ended.
    _watchdog: Option<Watchdog>,
}

struct Stream {
    reader: Option<PipeReader>,
    kept: Kept,
}

struct Input {
    pipe: ChildStdin,
    feed: Feed,
}

/// Ends a running program from another thread.
#[derive(Clone)]
pub struct Canceller(Arc<Control>);

struct Control {
    wake: PipeWriter,
    kill_at: Mutex<Option<Instant>>,
    started: Instant,
    last_output_ms: AtomicU64,
}

impl Canceller {
    /// Sends SIGTERM to the program's group, and SIGKILL to the whole tree after the grace period. If called more than
    /// once, the earliest kill time counts.
    pub fn cancel(&self, grace: Duration) {
        let mut kill_at = self.0.kill_at.lock().unwrap_or_else(PoisonError::into_inner);
        let at = later(Instant::now(), grace);
        *kill_at = Some(kill_at.map_or(at, |earlier| earlier.min(at)));
        drop(kill_at);
        let _ = (&self.0.wake).write(&[1]);
    }

    /// Returns the time since the program's last output.
    pub fn silent_for(&self) -> Duration {
        let last = Duration::from_millis(self.0.last_output_ms.load(Ordering::Relaxed));
        self.0.started.elapsed().saturating_sub(last)
    }
}

impl Running {
    pub(super) fn new(process: Process, plan: Plan) -> io::Result<Running> {
        let (wake, waker) = io::pipe()?;
        let started = Instant::now();
        let running = Running {
            id: process.id(),
            process,
            streams: plan
                .readers
                .into_iter()
                .map(|reader| Stream { reader: Some(reader), kept: Kept::new(plan.keep.0, plan.keep.1) })
                .collect(),
            input: plan.stdin.map(|(pipe, feed)| Input { pipe, feed }),
            wake,
            control: Arc::new(Control {
                wake: waker,
                kill_at: Mutex::new(None),
                started,
                last_output_ms: AtomicU64::new(0),
            }),
            started,
            timeout: plan.timeout,
            grace: plan.grace,
            copy: plan.copy.map(|sink| (sink, MAX_COPY_BYTES)),
            listener: plan.listener,
            _watchdog: plan.watchdog,
        };
        for stream in &running.streams {
            stream.reader.as_ref().map(set_nonblocking).transpose()?;
        }
        running.input.as_ref().map(|input| set_nonblocking(&input.pipe)).transpose()?;
        set_nonblocking(&running.wake)?;
        Ok(running)
    }

    pub fn id(&self) -> ProcessId {
        self.id
    }

    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.control))
    }

    /// Waits until the program itself has ended, kills what is left in its group, and reads what is left in its pipes.
    pub fn wait(mut self) -> io::Result<Ended> {
        let deadline = self.timeout.map(|timeout| later(self.started, timeout));
        let (mut timed_out, mut cancelled, mut terminated, mut killed) = (false, false, false, false);
        let mut term_at = None;
        loop {
            let kill_at = *self.control.kill_at.lock().unwrap_or_else(PoisonError::into_inner);
            cancelled |= kill_at.is_some() && !timed_out;
            term_at = kill_at.map(|kill_at| term_at.unwrap_or_else(|| self.send_stop_message(kill_at)).min(kill_at));
            if !terminated && term_at.is_some_and(|at| at <= Instant::now()) {
                terminated = true;
                self.process.terminate();
            }
            if !killed && kill_at.is_some_and(|at| at <= Instant::now()) {
                killed = true;
                self.process.kill();
            }
            let next = if killed { None } else { term_at.filter(|_| !terminated).or(kill_at).or(deadline) };
            if self.poll_until(next)? {
                break;
            }
            if kill_at.is_none() && deadline.is_some_and(|at| at <= Instant::now()) {
                timed_out = true;
                self.canceller().cancel(self.grace);
            }
        }
        let escaped = self.finish();
        let status = self.process.reap()?;
        if escaped || killed {
            tree::end_orphans();
        }
        let truncated = self.streams.iter().any(|stream| stream.kept.truncated());
        let mut kept = std::mem::take(&mut self.streams).into_iter().map(|stream| stream.kept.into_bytes());
        Ok(Ended {
            status,
            timed_out,
            cancelled,
            left_others: escaped,
            stdout: kept.next().unwrap_or_default(),
            stderr: kept.next().unwrap_or_default(),
            truncated,
            duration: self.started.elapsed(),
        })
    }

    /// Writes the stop message, if there is one, to standard input; returns when to send SIGTERM.
    fn send_stop_message(&mut self, kill_at: Instant) -> Instant {
        let now = Instant::now();
        let Some((input, message)) = self.input.as_ref().and_then(|input| Some((input, input.feed.take_stop()?)))
        else {
            return now;
        };
        input.feed.give(message);
        input.feed.close();
        now + STOP_MESSAGE_TIMEOUT.min(kill_at.saturating_duration_since(now) / 2)
    }

    /// Runs one round of reading and writing; returns `true` when the program has ended.
    fn poll_until(&mut self, until: Option<Instant>) -> io::Result<bool> {
        self.feed();
        let mut fds = vec![PollFd::new(&self.process, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
        for reader in self.streams.iter().filter_map(|stream| stream.reader.as_ref()) {
            fds.push(PollFd::new(reader, PollFlags::IN));
        }
        if let Some(input) = self.input.as_ref().filter(|input| input.feed.has_pending()) {
            fds.push(PollFd::new(&input.pipe, PollFlags::OUT));
        }
        let timeout = until.map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            // Capped, as poll takes the seconds as i64: a deadline that far away never matters.
            Timespec { tv_sec: left.as_secs().min(i32::MAX as u64) as i64, tv_nsec: left.subsec_nanos().into() }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_ended = !fds[0].revents().is_empty();
        drop(fds);
        for index in 0..self.streams.len() {
            self.read_some(index, CHUNK_BYTES);
        }
        match (&self.wake).read(&mut [0; 16]) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(has_ended),
        }
    }

    /// Reads what is available, up to about `limit` bytes.
    fn read_some(&mut self, index: usize, limit: usize) {
        let stream = &mut self.streams[index];
        let mut buffer = [0; 8192];
        let mut read = 0;
        while let (Some(reader), true) = (&mut stream.reader, read < limit) {
            match reader.read(&mut buffer) {
                Ok(0) => stream.reader = None,
                Ok(count) => {
                    read += count;
                    stream.kept.push(&buffer[..count]);
                    let since_start = self.started.elapsed().as_millis() as u64;
                    self.control.last_output_ms.store(since_start, Ordering::Relaxed);
                    if let Some(listener) = self.listener.as_mut().filter(|_| index == 0) {
                        let _ = listener.write_all(&buffer[..count]);
                    } else if let Some((sink, room)) = &mut self.copy {
                        let part = &buffer[..count.min(*room as usize)];
                        *room -= part.len() as u64;
                        // The copy is only for the user: a full disk is reported where a write matters.
                        let _ = sink.write_all(part);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => stream.reader = None,
            }
        }
    }

    fn feed(&mut self) {
        let is_open = self.input.as_mut().is_none_or(|input| input.feed.write_pending(&mut input.pipe));
        if !is_open {
            self.input = None;
        }
    }

    /// Kills what is left of the ended program's group and reads the rest of its output; returns `true` if another
    /// process still holds its pipes.
    fn finish(&mut self) -> bool {
        self.process.kill_group();
        self.input = None;
        for index in 0..self.streams.len() {
            self.read_some(index, MAX_PIPE_BYTES);
        }
        self.streams.iter().any(|stream| stream.reader.is_some())
    }
}

/// Adds a duration to a time; one that the clock cannot represent becomes a year.
fn later(start: Instant, by: Duration) -> Instant {
    start.checked_add(by).unwrap_or(start + Duration::from_secs(365 * 24 * 3600))
}

fn set_nonblocking(fd: &impl AsFd) -> io::Result<()> {
    Ok(fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?)
}
