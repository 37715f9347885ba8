//! Mirrors the feature's tasks into a task list of Claude Code, which shows users and their sessions the state of each
//! task.
//!
//! The run never depends on the list. Of the changes that users make in it only one is read: a *claim*, that is, a task
//! that is marked as completed in the list but not in the run.

mod dir;
mod entry;
mod listed;
mod mirror;
mod pass;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mahabharatha_core::graph::TaskGraph;
use mahabharatha_core::ids::{Feature, TaskId};
use mahabharatha_core::run::event::{Command, Event};
use mahabharatha_core::view::RunView;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Project;
use serde::Serialize;

use self::dir::{ListDir, STALE_AFTER};
use self::entry::{Entry, entries};
pub use self::entry::{Phase, Status};
pub use self::listed::{ListedTask, TaskCompleted};
pub use self::mirror::Mirror;
use self::pass::{Owner, is_as_written, status_of};
use super::commands::Home;
use crate::specs::load_config;

/// Interval between two tries while the client holds a lock or is writing a file.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Time to wait for a lock; long enough that an abandoned lock has become stale.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(STALE_AFTER.as_secs() + 2);

/// Most tasks of a feature that are shown in a list. Every entry is a file that the client and we read at each change.
const MAX_LISTED_TASKS: usize = 1_000;

/// The task list of one feature.
#[derive(Debug, Clone)]
pub struct TaskList {
    /// The client's directory in the user's home.
    home: PathBuf,
    owner: Owner,
}

/// A difference between the list and the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    pub task: TaskId,
    /// The task's status in the run.
    pub ours: &'static str,
    /// The task's status in the list, or `missing`.
    pub claude: String,
}

/// Returns the feature's list; `None` if the configuration turns lists off or cannot be read.
pub fn list_of(project: &Project, feature: &Feature) -> Option<Result<TaskList>> {
    let is_on = load_config(project).is_ok_and(|config| config.claude_tasks.enabled);
    is_on.then(|| TaskList::of(project, feature))
}

/// Shows the state of planning or designing in the feature's list: `[Plan] …`, `[Design] …`.
///
/// The commands call this with `Status::InProgress` at their start and with `Status::Completed` at their end, or with
/// `Status::Pending` if they fail. Callers should only warn about an error.
pub fn show_phase(project: &Project, feature: &Feature, phase: Phase, status: Status) -> Result<()> {
    let Some(list) = list_of(project, feature) else { return Ok(()) };
    list?.put_phase(phase, status)
}

fn is_too_long(graph: &TaskGraph) -> bool {
    graph.tasks().len() > MAX_LISTED_TASKS
}

impl TaskList {
    pub fn of(project: &Project, feature: &Feature) -> Result<TaskList> {
        Ok(TaskList::at(home()?, project.root(), feature))
    }

    fn at(home: PathBuf, project: &Path, feature: &Feature) -> TaskList {
        TaskList { home, owner: Owner { project: project.display().to_string(), feature: feature.clone() } }
    }

    /// Returns the list's name, which is the feature's.
    pub fn id(&self) -> &str {
        self.owner.feature.as_str()
    }

    /// Returns the wanted entries; none for a feature with too many tasks.
    fn entries(&self, view: &RunView, graph: &TaskGraph) -> Vec<Entry> {
        match is_too_long(graph) {
            true => Vec::new(),
            false => entries(view, graph, &self.owner.feature),
        }
    }

    /// Opens the list's directory, and creates it if it does not exist.
    fn create_dir(&self) -> Result<ListDir> {
        ListDir::create(&self.home, self.id())
    }

    fn put_phase(&self, phase: Phase, status: Status) -> Result<()> {
        let (dir, entry) = (self.create_dir()?, Entry::of_phase(phase, &self.owner.feature, status));
        retry_while_held(|| Ok(!self.owner.sync(&dir, std::slice::from_ref(&entry), &BTreeSet::new())?.held))
    }

    /// Brings the list in line with the run, waiting for locks. A process that drives a run uses a `Mirror` instead.
    pub fn write(&self, view: &RunView, graph: &TaskGraph) -> Result<()> {
        let (dir, entries) = (self.create_dir()?, self.entries(view, graph));
        retry_while_held(|| Ok(!self.owner.sync_all(&dir, &entries, &BTreeSet::new())?.held))
    }

    /// Returns the tasks that are claimed: marked as completed in the list while no attempt is running.
    pub fn claims(&self, view: &RunView, graph: &TaskGraph) -> Result<Vec<TaskId>> {
        let Some(dir) = ListDir::open(&self.home, self.id())? else { return Ok(Vec::new()) };
        let found = self.owner.find(&dir)?;
        let is_claimed = |entry: &&Entry| found.task(&entry.key).is_some_and(|task| entry.is_claimed(task));
        Ok(self.entries(view, graph).iter().filter(is_claimed).filter_map(|entry| entry.key.task().cloned()).collect())
    }

    /// Returns the differences between list and run. While the run is driven, entries that are merely not written yet
    /// do not count.
    pub fn mismatches(&self, view: &RunView, graph: &TaskGraph, driven: bool) -> Result<Vec<Mismatch>> {
        let found = ListDir::open(&self.home, self.id())?.map(|dir| self.owner.find(&dir)).transpose()?;
        let mut mismatches = Vec::new();
        for entry in self.entries(view, graph) {
            let Some(task) = entry.key.task() else { continue };
            let listed = found.as_ref().and_then(|found| found.task(&entry.key));
            let claude = match listed {
                None if driven || !entry.create_if_missing => continue,
                None => "missing",
                Some(listed) if driven && is_as_written(listed) => continue,
                Some(listed) => status_of(listed).unwrap_or("missing"),
            };
            if claude != entry.status.word() {
                mismatches.push(Mismatch { task: task.clone(), ours: entry.our_status, claude: claude.to_string() });
            }
        }
        Ok(mismatches)
    }

    /// Returns whether the list contains entries of ours.
    pub fn has_entries(&self) -> Result<bool> {
        let Some(dir) = ListDir::open(&self.home, self.id())? else { return Ok(false) };
        Ok(!self.owner.find(&dir)?.is_empty())
    }

    /// Removes our entries from the list, and nothing else.
    pub fn remove(&self) -> Result<()> {
        let Some(dir) = ListDir::open(&self.home, self.id())? else { return Ok(()) };
        retry_while_held(|| self.owner.remove(&dir, |_| true))
    }

    /// Returns the list that the calling Claude Code session shows, if it is another one.
    pub fn shown_instead(&self) -> Option<String> {
        shown_list(std::env::var("CLAUDE_CODE_SESSION_ID").ok()).filter(|shown| shown != self.id())
    }

    /// Returns the list's directory if it exists, for watching it.
    pub fn dir(&self) -> Option<PathBuf> {
        let dir = ListDir::open(&self.home, self.id()).ok().flatten()?;
        Some(dir.path().to_owned())
    }
}

/// Returns the client's directory in the user's home.
fn home() -> Result<PathBuf> {
    let home = Home::of_user().ok().map(|home| home.dir().to_owned()).filter(|home| home.is_absolute());
    home.ok_or_else(|| {
        Error::new(
            Kind::Failed,
            "cannot find Claude Code's task lists: neither CLAUDE_CONFIG_DIR nor HOME is an absolute path",
        )
    })
}

/// Returns the name of the list that a client's session shows: the configured one, otherwise the session's own.
fn shown_list(session: Option<String>) -> Option<String> {
    let named = std::env::var("CLAUDE_CODE_TASK_LIST_ID").ok();
    let shown = named.into_iter().chain(session).find(|list| !list.is_empty())?;
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' };
    Some(shown.chars().map(safe).collect())
}

/// Returns the event that makes the run check the existing work of a claimed task.
pub fn adopt(task: TaskId) -> Event {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (now, count) = (jiff::Timestamp::now().as_millisecond(), COUNT.fetch_add(1, Ordering::Relaxed));
    let request = format!("task-list-{now}-{}-{count}", std::process::id());
    Event::Asked { request, command: Command::Adopt { task } }
}

impl std::fmt::Display for TaskList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.home.join("tasks").join(self.id()).display())
    }
}

/// Retries until `is_done` returns true; fails after `MAX_LOCK_WAIT`.
fn retry_while_held(mut is_done: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + MAX_LOCK_WAIT;
    while !is_done()? {
        if Instant::now() > deadline {
            return Err(Error::new(Kind::Failed, "another process holds the lock of Claude Code's task list"));
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
    Ok(())
}
