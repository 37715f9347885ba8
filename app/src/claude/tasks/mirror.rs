//! Keeps the list what the run says, on a thread of its own, as long as a process drives the run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mahabharatha_core::graph::TaskGraph;
use mahabharatha_core::view::RunView;
use notify::RecommendedWatcher;

use super::dir::ListDir;
use super::entry::Entry;
use super::{LONGEST_WAIT, PAUSE as BETWEEN_TRIES, TaskList};
use crate::error::Result;
use crate::store::watch::on_change;
use crate::ui::Ui;

/// The list is looked at so often at most.
const PAUSE: Duration = Duration::from_millis(200);

pub struct Mirror {
    list: TaskList,
    news: Sender<News>,
    thread: JoinHandle<()>,
}

enum News {
    Run(Vec<Entry>),
    /// Somebody changed the list; perhaps we did.
    Changed,
    Finish,
}

impl Mirror {
    /// Writes the list before it returns, unless somebody holds it.
    pub fn start(list: TaskList, view: &RunView, graph: &TaskGraph, ui: &Arc<Ui>) -> Mirror {
        let (news, inbox) = mpsc::channel();
        let mut keeper = Keeper {
            entries: list.entries(view, graph),
            list: list.clone(),
            ui: Arc::clone(ui),
            news: news.clone(),
            watched: None,
            complained: false,
        };
        let is_done = keeper.look();
        let thread = thread::spawn(move || keeper.keep(&inbox, is_done));
        Mirror { list, news, thread }
    }

    pub fn update(&self, view: &RunView, graph: &TaskGraph) {
        let _ = self.news.send(News::Run(self.list.entries(view, graph)));
    }

    /// Returns when the list is what was told last, or nothing more can be done about it.
    pub fn finish(self) {
        let _ = self.news.send(News::Finish);
        let _ = self.thread.join();
    }
}

struct Keeper {
    list: TaskList,
    entries: Vec<Entry>,
    ui: Arc<Ui>,
    news: Sender<News>,
    /// The directory that is watched, which may have been replaced by another.
    watched: Option<((u64, u64), RecommendedWatcher)>,
    complained: bool,
}

impl Keeper {
    fn keep(mut self, inbox: &Receiver<News>, mut is_done: bool) {
        let mut due = Instant::now() + PAUSE;
        loop {
            let news = match is_done {
                true => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => inbox.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            match news {
                Ok(News::Run(entries)) => {
                    is_done &= entries == self.entries;
                    self.entries = entries;
                }
                Ok(News::Changed) => is_done = false,
                Err(RecvTimeoutError::Timeout) => {
                    let begun = Instant::now();
                    is_done = self.look();
                    // A list of thousands must not keep a processor busy.
                    due = Instant::now() + PAUSE.max(4 * begun.elapsed());
                }
                Ok(News::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let give_up = Instant::now() + LONGEST_WAIT;
        while !self.look() && Instant::now() < give_up {
            thread::sleep(BETWEEN_TRIES);
        }
    }

    /// Whether nothing is left to do. What fails is told once, and tried again with the next change.
    fn look(&mut self) -> bool {
        match self.try_look() {
            Ok(is_done) => is_done,
            Err(error) => {
                if !std::mem::replace(&mut self.complained, true) {
                    self.ui.warn(&format!(
                        "Claude Code's task list {} cannot be kept, and the run goes on without it: {error}",
                        self.list
                    ));
                }
                true
            }
        }
    }

    fn try_look(&mut self) -> Result<bool> {
        let dir = self.list.make()?;
        // Watched before it is looked at, so that no change is missed.
        let watched = self.watch(&dir);
        let done = self.list.owner.put_all(&dir, &self.entries, &BTreeSet::new())?;
        watched.map(|()| !done.held)
    }

    fn watch(&mut self, dir: &ListDir) -> Result<()> {
        let identity = dir.identity();
        if self.watched.as_ref().map(|(watched, _)| *watched) == identity {
            return Ok(());
        }
        dir.sweep();
        let news = self.news.clone();
        let watcher = on_change(dir.path(), move || drop(news.send(News::Changed)))?;
        self.watched = identity.map(|identity| (identity, watcher));
        Ok(())
    }
}
