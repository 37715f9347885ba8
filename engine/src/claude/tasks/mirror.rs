//! Keeps the list what the run says, on a thread of its own, as long as a process drives the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
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
use mahabharatha_sys::ui::Ui;
use notify::RecommendedWatcher;

use super::dir::ListDir;
use super::entry::Entry;
use super::{LONGEST_WAIT, PAUSE as BETWEEN_TRIES, TaskList, adopt};

/// The list is looked at so often at most.
const PAUSE: Duration = Duration::from_millis(200);

pub struct Mirror {
    list: TaskList,
    news: Sender<News>,
    thread: JoinHandle<()>,
}

enum News {
    /// What there should be, and whether the run hears what is said to be done.
    Run(Vec<Entry>, bool),
    /// What is said to be done, and cannot be looked at.
    Refused(Vec<TaskId>),
    /// Somebody changed the list; perhaps we did.
    Changed,
    Finish,
}

impl Mirror {
    /// Writes the list before it returns, unless somebody holds it.
    pub fn start(list: TaskList, run: &Run, ui: &Arc<Ui>, events: Sender<Event>) -> Mirror {
        let (news, inbox) = mpsc::channel();
        let mut wip_ref = WipRef {
            entries: list.entries(&RunView::of(run), run.graph()),
            takes_claims: takes_claims(run),
            asked: BTreeMap::new(),
            refused: BTreeSet::new(),
            list: list.clone(),
            ui: Arc::clone(ui),
            events,
            news: news.clone(),
            watched: None,
            complained: false,
        };
        let is_done = wip_ref.look();
        let thread = thread::spawn(move || wip_ref.keep(&inbox, is_done));
        Mirror { list, news, thread }
    }

    pub fn update(&self, view: &RunView, run: &Run) {
        let _ = self.news.send(News::Run(self.list.entries(view, run.graph()), takes_claims(run)));
    }

    /// Follows on an update that has what became of the request.
    pub fn answered(&self, answer: &Answer) {
        let _ = self.news.send(News::Refused(answer.refused.iter().map(|refusal| refusal.task.clone()).collect()));
    }

    /// Returns when the list is what was told last, or nothing more can be done about it.
    pub fn finish(self) {
        let _ = self.news.send(News::Finish);
        let _ = self.thread.join();
    }
}

/// Whether it is time to tell the run that a task of its level is said to be done.
fn takes_claims(run: &Run) -> bool {
    let is_running = run.current_level().is_some_and(|level| matches!(level.status, LevelStatus::Running));
    is_running && matches!(run.phase(), Phase::Working)
}

struct WipRef {
    list: TaskList,
    entries: Vec<Entry>,
    takes_claims: bool,
    /// Claims that the run was told of, each with the latest attempt at its time.
    asked: BTreeMap<TaskId, u32>,
    /// Claims that are to be put right.
    refused: BTreeSet<TaskId>,
    ui: Arc<Ui>,
    events: Sender<Event>,
    news: Sender<News>,
    /// The directory that is watched, which may have been replaced by another.
    watched: Option<((u64, u64), RecommendedWatcher)>,
    complained: bool,
}

impl WipRef {
    fn keep(mut self, inbox: &Receiver<News>, mut is_done: bool) {
        let mut due = Instant::now() + PAUSE;
        loop {
            let news = match is_done {
                true => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => inbox.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            match news {
                Ok(News::Run(entries, takes_claims)) => {
                    is_done &= (&entries, takes_claims) == (&self.entries, self.takes_claims);
                    (self.entries, self.takes_claims) = (entries, takes_claims);
                }
                Ok(News::Refused(tasks)) => {
                    is_done &= tasks.is_empty();
                    self.refuse(tasks);
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
        let done = self.list.owner.put_all(&dir, &self.entries, &self.refused)?;
        if !done.held {
            self.refused.clear();
        }
        if self.takes_claims {
            self.ask_for(done.claims);
        }
        watched.map(|()| !done.held)
    }

    /// Has the run look at what is said to be done, once for each time that it is said.
    fn ask_for(&mut self, claims: Vec<TaskId>) {
        for task in claims {
            let entry = self.entries.iter().find(|entry| entry.key.task() == Some(&task));
            let attempt = entry.map_or(0, |entry| entry.attempt);
            if self.asked.insert(task.clone(), attempt) != Some(attempt) {
                let _ = self.events.send(adopt(task));
            }
        }
    }

    /// Where the run ends or waits, whoever drives it next may still take the claim.
    fn refuse(&mut self, tasks: Vec<TaskId>) {
        for task in tasks {
            self.asked.remove(&task);
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
        let news = self.news.clone();
        let watcher = on_change(dir.path(), move || drop(news.send(News::Changed)))?;
        self.watched = identity.map(|identity| (identity, watcher));
        Ok(())
    }
}
