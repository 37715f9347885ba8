//! Keeps the list in sync with the run on a separate thread, while a process drives the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mahabharatha_core::ids::TaskId;
use mahabharatha_core::run::effect::Answer;
use mahabharatha_core::run::event::Event;
use mahabharatha_core::run::{LevelStatus, Phase, Run};
use mahabharatha_core::view::RunView;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::store::watch::on_change;
use notify::RecommendedWatcher;

use super::dir::ListDir;
use super::entry::Entry;
use super::{MAX_LISTED_TASKS, MAX_LOCK_WAIT, RETRY_INTERVAL, TaskList, adopt, is_too_long};

/// Minimum interval between two passes over the list.
const MIN_SYNC_INTERVAL: Duration = Duration::from_millis(200);

pub struct Mirror {
    list: TaskList,
    messages: Sender<Message>,
    thread: JoinHandle<()>,
}

enum Message {
    /// The desired entries, and whether the run accepts claims now.
    Run(Vec<Entry>, bool),
    /// Claims that the run refused.
    Refused(Vec<TaskId>),
    /// The list has changed, perhaps by our own write.
    Changed,
    Finish,
}

impl Mirror {
    /// Starts the mirror; writes the list before it returns, unless another process holds a lock.
    /// `warn` must not block.
    pub fn start(list: TaskList, run: &Run, warn: impl Fn(String) + Send + 'static, events: Sender<Event>) -> Mirror {
        let (messages, inbox) = mpsc::channel();
        if is_too_long(run.graph()) {
            warn(format!("Claude Code's task list {list} stays empty: it shows at most {MAX_LISTED_TASKS} tasks"));
        }
        let mut state = MirrorThread {
            entries: list.entries(&RunView::of(run), run.graph()),
            takes_claims: takes_claims(run),
            sent: BTreeMap::new(),
            refused: BTreeSet::new(),
            list: list.clone(),
            warn: Box::new(warn),
            events,
            messages: messages.clone(),
            watched: None,
            warned: false,
        };
        let is_done = state.sync();
        let thread = thread::spawn(move || state.run(&inbox, is_done));
        Mirror { list, messages, thread }
    }

    pub fn update(&self, view: &RunView, run: &Run) {
        let _ = self.messages.send(Message::Run(self.list.entries(view, run.graph()), takes_claims(run)));
    }

    /// Passes on the answer to a claim. Call it after an update with the effect of that claim.
    pub fn answered(&self, answer: &Answer) {
        let _ =
            self.messages.send(Message::Refused(answer.refused.iter().map(|refusal| refusal.task.clone()).collect()));
    }

    /// Returns when the list matches the last update, or cannot be brought in line.
    pub fn finish(self) {
        let _ = self.messages.send(Message::Finish);
        let _ = self.thread.join();
    }
}

/// Returns whether the run accepts claims for tasks of its current level.
fn takes_claims(run: &Run) -> bool {
    let is_running = run.current_level().is_some_and(|level| matches!(level.status, LevelStatus::Running));
    is_running && matches!(run.phase(), Phase::Working)
}

/// State of the mirror's thread.
struct MirrorThread {
    list: TaskList,
    entries: Vec<Entry>,
    takes_claims: bool,
    /// Claims that the run was sent, each with the task's latest attempt at that time.
    sent: BTreeMap<TaskId, u32>,
    /// Refused claims, whose entries are to be reset.
    refused: BTreeSet<TaskId>,
    warn: Box<dyn Fn(String) + Send>,
    events: Sender<Event>,
    messages: Sender<Message>,
    /// The watched directory, which may have been replaced by another.
    watched: Option<((u64, u64), RecommendedWatcher)>,
    warned: bool,
}

impl MirrorThread {
    fn run(mut self, inbox: &Receiver<Message>, mut is_done: bool) {
        let mut due = Instant::now() + MIN_SYNC_INTERVAL;
        loop {
            let message = match is_done {
                true => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => inbox.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            match message {
                Ok(Message::Run(entries, takes_claims)) => {
                    is_done &= (&entries, takes_claims) == (&self.entries, self.takes_claims);
                    (self.entries, self.takes_claims) = (entries, takes_claims);
                }
                Ok(Message::Refused(tasks)) => {
                    is_done &= tasks.is_empty();
                    self.refuse(tasks);
                }
                Ok(Message::Changed) => is_done = false,
                Err(RecvTimeoutError::Timeout) => {
                    let started = Instant::now();
                    is_done = self.sync();
                    // A list with thousands of tasks must not keep a CPU busy.
                    due = Instant::now() + MIN_SYNC_INTERVAL.max(4 * started.elapsed());
                }
                Ok(Message::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let deadline = Instant::now() + MAX_LOCK_WAIT;
        while !self.sync() && Instant::now() < deadline {
            thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Makes one pass; returns whether nothing is left to do. Warns about the first failure only, and tries again with
    /// the next change.
    fn sync(&mut self) -> bool {
        match self.try_sync() {
            Ok(is_done) => is_done,
            Err(error) => {
                if !std::mem::replace(&mut self.warned, true) {
                    (self.warn)(format!(
                        "cannot update Claude Code's task list {}, so the run continues without it: {error}",
                        self.list
                    ));
                }
                true
            }
        }
    }

    fn try_sync(&mut self) -> Result<bool> {
        let dir = self.list.create_dir()?;
        // Watch before reading, so that no change is missed.
        let watched = self.watch(&dir);
        let pass = self.list.owner.sync_all(&dir, &self.entries, &self.refused)?;
        if !pass.held {
            self.refused.clear();
        }
        if self.takes_claims {
            self.send_claims(pass.claims);
        }
        watched.map(|()| !pass.held)
    }

    /// Sends claims to the run, each one once per attempt.
    fn send_claims(&mut self, claims: Vec<TaskId>) {
        for task in claims {
            let entry = self.entries.iter().find(|entry| entry.key.task() == Some(&task));
            let attempt = entry.map_or(0, |entry| entry.attempt);
            if self.sent.insert(task.clone(), attempt) != Some(attempt) {
                let _ = self.events.send(adopt(task));
            }
        }
    }

    /// Marks claims as refused. If the run no longer accepts claims, they stay for the next process that drives it.
    fn refuse(&mut self, tasks: Vec<TaskId>) {
        for task in tasks {
            self.sent.remove(&task);
            if self.takes_claims {
                self.refused.insert(task);
            }
        }
    }

    fn watch(&mut self, dir: &ListDir) -> Result<()> {
        let identity = dir.identity();
        if self.watched.as_ref().map(|(watched, _)| *watched) == identity {
            return Ok(());
        }
        dir.sweep();
        let messages = self.messages.clone();
        let watcher = on_change(dir.path(), move || drop(messages.send(Message::Changed)))?;
        self.watched = identity.map(|identity| (identity, watcher));
        Ok(())
    }
}
