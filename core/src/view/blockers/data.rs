//! A blocker as data: as a sentence for people, and in parts for programs.

use std::fmt;
use std::ops::{Deref, DerefMut};

use schemars::JsonSchema;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::ids::{Level, TaskId};
use crate::run::event::{FailCause, JobEnd};
use crate::run::{Run, TaskState, TaskStatus};
use crate::view::Stamp;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Blocker {
    /// The task or level, or `run`.
    pub what: String,
    pub task: Option<TaskId>,
    /// Also of a task.
    pub level: Option<Level>,
    /// `question`, `grant`, `person`, `budget`, `died`, the cause of the last failure (`verification`, `strays`, …),
    /// `gate`, `conflict`, `lost_work`, `obstacle`, `approval`, `paused`, `failed`, `setup`, `red_base`, `undriven`,
    /// `design`.
    pub kind: &'static str,
    /// The cause in one line.
    pub cause: String,
    /// All that is known of the cause, such as the whole question of an agent.
    pub text: String,
    /// What the user can do.
    pub resolution: String,
    /// Commands that resolve it, the most likely first. `…` stands for the user's words.
    pub commands: Vec<String>,
    pub since: Option<Stamp>,
    /// Tasks that depend on it, directly or not.
    pub holds: Vec<TaskId>,
}

impl Blocker {
    pub fn new(
        what: impl Into<String>,
        kind: &'static str,
        cause: impl Into<String>,
        resolution: impl Into<String>,
    ) -> Blocker {
        let cause = cause.into();
        Blocker {
            what: what.into(),
            task: None,
            level: None,
            kind,
            text: cause.clone(),
            cause,
            resolution: resolution.into(),
            commands: Vec::new(),
            since: None,
            holds: Vec::new(),
        }
    }

    /// Whether it is about the run as a whole.
    pub fn is_of_run(&self) -> bool {
        self.task.is_none() && self.level.is_none()
    }

    /// Whether it is about a level as a whole.
    pub fn is_of_level(&self, level: Level) -> bool {
        self.task.is_none() && self.level == Some(level)
    }

    pub fn commands(self, commands: impl IntoIterator<Item = String>) -> Blocker {
        Blocker { commands: commands.into_iter().collect(), ..self }
    }

    pub(super) fn text(self, text: &str) -> Blocker {
        if text.trim().is_empty() { self } else { Blocker { text: text.to_string(), ..self } }
    }

    pub(super) fn of_task(self, run: &Run, task: &TaskId) -> Blocker {
        let level = run.graph().task(task).map(|task| task.level);
        let since = match run.task(task).map(|state| &state.status) {
            Some(TaskStatus::Blocked { at, .. }) => Some(*at),
            _ => run.levels().iter().find(|state| Some(state.level) == level).and_then(|state| state.started_at),
        };
        let mut holds = run.graph().dependents(task);
        holds.retain(|task| run.task(task).is_some_and(TaskState::is_open));
        Blocker { task: Some(task.clone()), level, since: since.map(Stamp), holds, ..self }
    }

    /// Every later level waits for this one.
    pub(super) fn of_level(self, run: &Run, level: Level) -> Blocker {
        let tasks = run.graph().tasks().iter().zip(run.tasks());
        let later = tasks.filter(|(task, state)| task.level > level && state.is_open());
        let holds = later.map(|(task, _)| task.id.clone()).collect();
        Blocker { level: Some(level), since: run.ended_at().map(Stamp), holds, ..self }
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.cause)
    }
}

/// Returns why a task is blocked whose agent asks nothing.
pub(super) fn kind_of_failure(state: &TaskState) -> &'static str {
    if matches!(state.status, TaskStatus::Blocked { over_budget: true, .. }) {
        return "budget";
    }
    let ended = state.attempts.iter().rev().find_map(|record| record.ended.as_ref());
    match ended.map(|(_, report)| &report.end) {
        Some(JobEnd::Failed { cause, .. }) => match cause {
            FailCause::Agent => "agent",
            FailCause::Strays => "strays",
            FailCause::Missing => "missing",
            FailCause::Unchanged => "unchanged",
            FailCause::Verification => "verification",
            FailCause::Secrets => "secrets",
            FailCause::Timeout => "timeout",
            FailCause::Stalled => "stalled",
            FailCause::Setup => "setup",
        },
        Some(JobEnd::Died { .. }) => "died",
        _ => "failed",
    }
}

/// What keeps a run from continuing. Written twice: `blockers` are sentences, `problems` has their parts.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema)]
#[schemars(with = "Written")]
pub struct Blockers(pub Vec<Blocker>);

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only for the schema")]
struct Written {
    blockers: Vec<String>,
    problems: Vec<Blocker>,
}

impl Serialize for Blockers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sentences: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        let mut written = serializer.serialize_struct("Blockers", 2)?;
        written.serialize_field("blockers", &sentences)?;
        written.serialize_field("problems", &self.0)?;
        written.end()
    }
}

impl Deref for Blockers {
    type Target = Vec<Blocker>;

    fn deref(&self) -> &Vec<Blocker> {
        &self.0
    }
}

impl DerefMut for Blockers {
    fn deref_mut(&mut self) -> &mut Vec<Blocker> {
        &mut self.0
    }
}
