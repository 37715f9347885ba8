//! The features as they go on: one feed for each, which all its connections share.
//!
//! A feed waits for changes of the journal, of workers and of logs; it does not poll, except that a process which drives a run
//! can vanish without a change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mahabharatha_core::ids::{Feature, TaskId};
use mahabharatha_core::run::Run;
use mahabharatha_core::view::RunView;
use mahabharatha_engine::report::status::StatusJson;
use mahabharatha_engine::session::control;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::watch::{self as changes, Changes};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use super::problem::Problem;
use crate::observe::{Data, Feed, planned, run_json};

/// Shortest time between two looks at a run.
const MIN_INTERVAL: Duration = Duration::from_millis(250);
/// Longest time between two looks at a run in progress. A lease that expires changes no file.
const MAX_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum age of a cached status whose inputs have not changed, after a change of files and without one. The rest of it
/// (requirements, Claude Code's task list) takes long to read and is not watched.
const MAX_AGE: Duration = Duration::from_secs(10);
const MAX_IDLE_AGE: Duration = Duration::from_secs(120);

/// All feeds that a connection has asked for. They stay, and rest while no connection wants them.
#[derive(Default)]
pub struct Hub {
    feeds: Mutex<BTreeMap<Feature, Arc<Live>>>,
}

/// The feed of one feature.
pub struct Live {
    source: Mutex<Source>,
    latest: watch::Sender<Arc<Snapshot>>,
    /// Counts the polls, for connections that follow a log.
    looks: watch::Sender<u64>,
}

/// A feature's status at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Number of the journal's latest event; 0 before a run.
    pub seq: u64,
    /// Grows with each snapshot of this feed.
    pub version: u64,
    /// The status without its tasks, as JSON.
    head: String,
    tasks: Vec<TaskText>,
    /// Why the status cannot be read, as JSON.
    pub problem: Option<String>,
}

/// A task of the status as JSON, and the version of the snapshot that it last changed with.
#[derive(Debug, Clone)]
struct TaskText {
    text: Arc<str>,
    changed: u64,
}

impl Snapshot {
    /// Returns the id of its event. Not every change is in the journal, so `seq` alone is not enough.
    pub fn id(&self) -> String {
        format!("{}-{}", self.seq, self.version)
    }

    /// Returns the status with the tasks that have changed since a version; with all of them if none is given.
    pub fn since(&self, version: Option<u64>) -> String {
        let is_new = |task: &&TaskText| version.is_none_or(|version| task.changed > version);
        let tasks: Vec<&str> = self.tasks.iter().filter(is_new).map(|task| &*task.text).collect();
        let rest = self.head.strip_prefix('{').unwrap_or_default();
        format!("{{\"tasks\":[{}],{rest}", tasks.join(","))
    }

    /// Returns the status for the first paint, in at most this many bytes: without its tasks if it is larger with them, and
    /// none if it is larger even so. The events bring what is missing.
    pub fn within(&self, bytes: usize) -> Option<String> {
        [None, Some(self.version)].into_iter().map(|version| self.since(version)).find(|text| text.len() <= bytes)
    }

    /// Returns the next snapshot; none if it would be the same.
    fn next(&self, mut fields: Value, tasks: &[impl Serialize]) -> Option<Snapshot> {
        let version = self.version + 1;
        fields.as_object_mut().map(|fields| fields.remove("tasks"));
        let text = |(index, task): (usize, _)| {
            let text = serde_json::to_string(task).expect("a task has string keys only");
            match self.tasks.get(index).filter(|before| *before.text == text) {
                Some(before) => before.clone(),
                None => TaskText { text: text.into(), changed: version },
            }
        };
        let tasks: Vec<TaskText> = tasks.iter().enumerate().map(text).collect();
        let head = fields.to_string();
        let is_same = self.problem.is_none()
            && head == self.head
            && tasks.len() == self.tasks.len()
            && tasks.iter().all(|task| task.changed != version);
        let seq = fields["seq"].as_u64().unwrap_or(0);
        (!is_same).then_some(Snapshot { seq, version, head, tasks, problem: None })
    }
}

/// What a feed reads from.
struct Source {
    place: Place,
    /// None before the first run.
    run: Option<(Feed, Data)>,
    /// What the latest status was made of, and when.
    made_of: Option<(Data, Instant)>,
}

impl Source {
    /// Returns the next snapshot; none if it would be the same. Does not make a status, which takes time, if one was made of
    /// the same within `max_age`.
    fn next(&mut self, before: &Snapshot, max_age: Duration) -> Result<Option<Snapshot>> {
        match &mut self.run {
            Some((feed, data)) => feed.refresh(data)?,
            None => {
                if let Some(mut feed) = Feed::find(&self.place)? {
                    let data = feed.read()?;
                    self.run = Some((feed, data));
                }
            }
        }
        let Some((feed, data)) = &mut self.run else {
            let mut planned = planned(&self.place)?;
            let StatusJson { fields, tasks } = planned.json(&self.place)?;
            return Ok(before.next(fields, tasks));
        };
        if self.made_of.as_ref().is_some_and(|(known, at)| known == data && at.elapsed() < max_age) {
            return Ok(None);
        }
        let StatusJson { fields, tasks } = run_json(&self.place, feed.run(), data)?;
        let next = before.next(fields, tasks);
        self.made_of = Some((data.clone(), Instant::now()));
        Ok(next)
    }
}

impl Hub {
    /// Returns the feed of a feature. May block.
    pub fn live(&self, place: &Place) -> Result<Arc<Live>> {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = feeds.get(&place.feature) {
            return Ok(Arc::clone(live));
        }
        let live = Live::start(place)?;
        feeds.insert(place.feature.clone(), Arc::clone(&live));
        Ok(live)
    }
}

impl Live {
    fn start(place: &Place) -> Result<Arc<Live>> {
        let is_driven = control::is_at_work(place)?;
        // Watch before the first look, so that no change is missed.
        let changes = changes::feature_changes(place.paths.dir())?;
        let live = Arc::new(Live {
            source: Mutex::new(Source { place: place.clone(), run: None, made_of: None }),
            latest: watch::Sender::default(),
            looks: watch::Sender::default(),
        });
        let (place, feed) = (place.clone(), Arc::clone(&live));
        thread::spawn(move || feed.follow(&place, changes, is_driven));
        Ok(live)
    }

    /// Looks at each change, as long as the program runs.
    fn follow(&self, place: &Place, mut changes: Changes, mut was_driven: bool) {
        // Directories that appear late, or are removed and made again.
        let logs = ["tasks", "gates"].map(|dir| place.paths.logs().join(dir));
        let watched = [logs.to_vec(), vec![place.paths.dir().join("slots"), place.paths.specs().to_owned()]].concat();
        let mut max_age = MAX_AGE;
        loop {
            let is_driven = control::is_at_work(place).unwrap_or(was_driven);
            if is_driven && !was_driven {
                // Another process: only a new watch sees it exit.
                changes = changes::feature_changes(place.paths.dir()).unwrap_or(changes);
            }
            was_driven = is_driven;
            watched.iter().for_each(|dir| changes.watch_also(dir));
            let looked = Instant::now();
            if self.latest.receiver_count() > 0 {
                self.look(max_age);
            }
            self.looks.send_modify(|looks| *looks += 1);
            max_age = if changes.wait(is_driven.then_some(MAX_INTERVAL)) { MAX_AGE } else { MAX_IDLE_AGE };
            thread::sleep(MIN_INTERVAL.saturating_sub(looked.elapsed()));
        }
    }

    /// Reads the status, and hands it to the connections if it has changed.
    fn look(&self, max_age: Duration) {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let before = Arc::clone(&self.latest.borrow());
        let next = match source.next(&before, max_age) {
            Ok(next) => next,
            Err(error) => {
                let problem =
                    Some(Problem::from(error).to_json()).filter(|problem| before.problem.as_ref() != Some(problem));
                // Read from the start the next time: what was read before may be what is wrong.
                (source.run, source.made_of) = (None, None);
                problem.map(|problem| Snapshot {
                    version: before.version + 1,
                    problem: Some(problem),
                    ..Snapshot::default()
                })
            }
        };
        if let Some(next) = next {
            self.latest.send_replace(Arc::new(next));
        }
    }

    /// Returns the snapshots from now on; the first is up to date. May block.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        let receiver = self.latest.subscribe();
        // While others are connected, the feed is up to date.
        if self.latest.receiver_count() == 1 || receiver.borrow().version == 0 {
            self.look(MAX_AGE);
        }
        receiver
    }

    /// Returns the latest status. May block.
    pub fn now(&self) -> Arc<Snapshot> {
        Arc::clone(&self.subscribe().borrow())
    }

    /// Returns a receiver that changes with each look at the run and its logs.
    pub fn looks(&self) -> watch::Receiver<u64> {
        self.looks.subscribe()
    }

    /// Reads from the run as it is now; none if there has been no run. May block.
    pub fn with_run<T>(&self, read: impl FnOnce(&Run, &RunView) -> T) -> Option<T> {
        self.now();
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        source.run.as_ref().map(|(feed, data)| read(feed.run(), &data.view))
    }

    /// Returns the log of a gate's run by the name of its file, and whether the run is over, by the latest look.
    pub fn gate_log(&self, name: &str) -> Option<(PathBuf, bool)> {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, data) = source.run.as_ref()?;
        let gate = data.gates.iter().find(|gate| gate.log.file_name().is_some_and(|file| file == name))?;
        Some((gate.log.clone(), gate.status != "running"))
    }

    /// Tells whether nothing more comes of an attempt, by the latest look.
    pub fn is_over(&self, task: &TaskId, attempt: u32) -> bool {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, data)) = &source.run else { return true };
        let record = data.task(task.as_str()).and_then(|task| task.attempts.iter().find(|one| one.attempt == attempt));
        let works = |id: u32| data.view.workers.iter().any(|worker| worker.id == id && worker.status == "running");
        record.is_none_or(|record| record.outcome != "running" || !data.driven && !works(record.worker))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_snapshot_tells_what_has_changed_since_another() {
        let tasks = |last: &str| [json!({ "id": "A" }), json!({ "id": last })];
        let fields = |cost: u64| json!({ "seq": 7, "tasks": [], "cost": cost });
        let first = Snapshot::default().next(fields(1), &tasks("B")).unwrap();
        assert_eq!(parsed(&first.since(None)), json!({ "seq": 7, "tasks": tasks("B"), "cost": 1 }));
        assert_eq!(parsed(&first.since(Some(first.version))), fields(1));
        assert!(first.next(fields(1), &tasks("B")).is_none());
        let (whole, head) = (first.since(None), first.since(Some(first.version)));
        assert_eq!(first.within(whole.len()), Some(whole.clone()));
        assert_eq!(first.within(whole.len() - 1), Some(head.clone()));
        assert_eq!(first.within(head.len() - 1), None);
        let second = first.next(fields(2), &tasks("B")).unwrap();
        let third = second.next(fields(2), &tasks("C")).unwrap();
        for seen in [first.version, second.version] {
            assert_eq!(parsed(&third.since(Some(seen)))["tasks"], json!([{ "id": "C" }]));
        }
        let shorter = third.next(fields(2), &tasks("C")[..1]).unwrap();
        assert_eq!(parsed(&shorter.since(None))["tasks"], json!([{ "id": "A" }]));
    }
}
