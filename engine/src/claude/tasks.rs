//! The feature's task list in Claude Code: made from the run, never what a run goes by. It shows people and their
//! sessions where the tasks stand; of what they change there, one thing is heard: that a task is done.

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
use mahabharatha_sys::error::{Error, ExitCode, Result};
use mahabharatha_sys::project::Project;
use serde::Serialize;

use self::dir::{ListDir, STALE};
use self::entry::{Entry, entries};
pub use self::entry::{Phase, Status};
pub use self::listed::{Listed, TaskCompleted};
pub use self::mirror::Mirror;
use self::pass::{Owner, is_as_written, status_of};
use super::commands::Home;
use crate::specs::load_config;

/// Between two looks at a list that somebody else holds.
const PAUSE: Duration = Duration::from_millis(20);
/// How long we wait for others: a lock that is not given back is stale by then.
const LONGEST_WAIT: Duration = Duration::from_secs(STALE.as_secs() + 2);

/// One feature's list.
#[derive(Debug, Clone)]
pub struct TaskList {
    /// The client's directory in the person's home.
    home: PathBuf,
    owner: Owner,
}

/// Where list and journal differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    pub task: TaskId,
    /// Our status.
    pub ours: &'static str,
    /// The status there, or `missing`.
    pub claude: String,
}

/// Nothing where the configuration turns lists off, or cannot be read.
pub fn list_of(project: &Project, feature: &Feature) -> Option<Result<TaskList>> {
    let is_on = load_config(project).is_ok_and(|config| config.claude_tasks.enabled);
    is_on.then(|| TaskList::of(project, feature))
}

/// Shows in the feature's list that it is being planned or designed, or that this is done: `[Plan] …`, `[Design] …`.
///
/// To be called by the commands at their start with `Status::InProgress` and at their end with `Status::Completed`, or
/// with `Status::Pending` where they gave up. An error is worth a warning, and no more.
pub fn phase(project: &Project, feature: &Feature, phase: Phase, status: Status) -> Result<()> {
    let Some(list) = list_of(project, feature) else { return Ok(()) };
    list?.put_phase(phase, status)
}

impl TaskList {
    pub fn of(project: &Project, feature: &Feature) -> Result<TaskList> {
        Ok(TaskList::at(home()?, project.root(), feature))
    }

    fn at(home: PathBuf, project: &Path, feature: &Feature) -> TaskList {
        TaskList { home, owner: Owner { project: project.display().to_string(), feature: feature.clone() } }
    }

    /// Its name, which is the feature's.
    pub fn id(&self) -> &str {
        self.owner.feature.as_str()
    }

    fn entries(&self, view: &RunView, graph: &TaskGraph) -> Vec<Entry> {
        entries(view, graph, &self.owner.feature)
    }

    fn make(&self) -> Result<ListDir> {
        ListDir::make(&self.home, self.id())
    }

    fn put_phase(&self, phase: Phase, status: Status) -> Result<()> {
        let (dir, entry) = (self.make()?, Entry::of_phase(phase, &self.owner.feature, status));
        in_the_end(|| Ok(!self.owner.put(&dir, std::slice::from_ref(&entry), &BTreeSet::new())?.held))
    }

    /// Makes the list what the run says, waiting for others where they are at it. Who drives a run has a `Mirror` instead.
    pub fn write(&self, view: &RunView, graph: &TaskGraph) -> Result<()> {
        let (dir, entries) = (self.make()?, self.entries(view, graph));
        in_the_end(|| Ok(!self.owner.put_all(&dir, &entries, &BTreeSet::new())?.held))
    }

    /// Tasks that somebody says are done in the list, though nobody is at them.
    pub fn claims(&self, view: &RunView, graph: &TaskGraph) -> Result<Vec<TaskId>> {
        let Some(dir) = ListDir::open(&self.home, self.id())? else { return Ok(Vec::new()) };
        let found = self.owner.find(&dir)?;
        let is_claimed = |entry: &&Entry| found.task(&entry.key).is_some_and(|task| entry.is_claimed(task));
        Ok(self.entries(view, graph).iter().filter(is_claimed).filter_map(|entry| entry.key.task().cloned()).collect())
    }

    /// Where the list differs from the run. As long as somebody drives it, what is only not written yet does not count.
    pub fn mismatches(&self, view: &RunView, graph: &TaskGraph, driven: bool) -> Result<Vec<Mismatch>> {
        let found = ListDir::open(&self.home, self.id())?.map(|dir| self.owner.find(&dir)).transpose()?;
        let mut mismatches = Vec::new();
        for entry in self.entries(view, graph) {
            let Some(task) = entry.key.task() else { continue };
            let there = found.as_ref().and_then(|found| found.task(&entry.key));
            let claude = match there {
                None if driven || !entry.made => continue,
                None => "missing",
                Some(there) if driven && is_as_written(there) => continue,
                Some(there) => status_of(there).unwrap_or("missing"),
            };
            if claude != entry.status.word() {
                mismatches.push(Mismatch { task: task.clone(), ours: entry.ours, claude: claude.to_string() });
            }
        }
        Ok(mismatches)
    }

    /// Whether there is anything of ours in it.
    pub fn is_there(&self) -> Result<bool> {
        let Some(dir) = ListDir::open(&self.home, self.id())? else { return Ok(false) };
        Ok(!self.owner.find(&dir)?.is_empty())
    }

    /// Takes what is ours out of it, and nothing else.
    pub fn remove(&self) -> Result<()> {
        let Some(dir) = ListDir::open(&self.home, self.id())? else { return Ok(()) };
        in_the_end(|| self.owner.remove(&dir, |_| true))
    }

    /// The list that the Claude Code session shows which this is called from, where it is another.
    pub fn shown_instead(&self) -> Option<String> {
        shown_list(std::env::var("CLAUDE_CODE_SESSION_ID").ok()).filter(|shown| shown != self.id())
    }

    /// Where it is kept, if it is there: for those who want to know when it changes.
    pub fn dir(&self) -> Option<PathBuf> {
        let dir = ListDir::open(&self.home, self.id()).ok().flatten()?;
        Some(dir.path().to_owned())
    }
}

/// The client's directory in the person's home.
fn home() -> Result<PathBuf> {
    let home = Home::of_user().ok().map(|home| home.dir().to_owned()).filter(|home| home.is_absolute());
    home.ok_or_else(|| {
        Error::new(ExitCode::Failed, "neither CLAUDE_CONFIG_DIR nor HOME says where Claude Code keeps its task lists")
    })
}

/// The name of the list that a session of the client shows: where none is given to it, it has one of its own.
fn shown_list(session: Option<String>) -> Option<String> {
    let named = std::env::var("CLAUDE_CODE_TASK_LIST_ID").ok();
    let shown = named.into_iter().chain(session).find(|list| !list.is_empty())?;
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' };
    Some(shown.chars().map(safe).collect())
}

/// Has what there is of a task looked at, because somebody says in the list that it is done.
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

/// Tries until it is done, or for as long as others can be expected to be at it.
fn in_the_end(mut is_done: impl FnMut() -> Result<bool>) -> Result<()> {
    let give_up = Instant::now() + LONGEST_WAIT;
    while !is_done()? {
        if Instant::now() > give_up {
            return Err(Error::new(ExitCode::Failed, "somebody else holds the task list, and does not let go of it"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
