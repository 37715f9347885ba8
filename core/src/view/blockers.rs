//! What keeps a run from going on, why, and the way out.

use std::fmt;

use serde::{Serialize, Serializer};

use super::first_line;
use crate::ids::Level;
use crate::run::event::{GateFailure, Obstacle};
use crate::run::{End, LevelFailure, LevelStatus, Run, TaskStatus};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// The task or level, or `run`.
    pub what: String,
    /// In one line.
    pub cause: String,
    /// What a person can do.
    pub resolution: String,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.cause)
    }
}

/// One sentence, as programs read it.
impl Serialize for Blocker {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

pub(super) fn blockers_of(run: &Run) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    for (task, state) in run.graph().tasks().iter().zip(run.tasks()) {
        let id = task.id.as_str();
        match &state.status {
            TaskStatus::Blocked { reason, .. } => blockers.push(blocked_task(id, reason)),
            TaskStatus::Waiting => blockers.push(waiting_task(id)),
            _ => {}
        }
    }
    let failed = run.levels().iter().filter_map(|level| match &level.status {
        LevelStatus::Failed { failure } => Some((level.level, failure)),
        _ => None,
    });
    let before = blockers.len();
    blockers.extend(failed.map(|(level, failure)| failed_level(level, failure)));
    if blockers.len() == before {
        blockers.extend(run.ended().and_then(stopped_run));
    }
    blockers
}

fn blocked_task(id: &str, reason: &str) -> Blocker {
    Blocker {
        what: id.to_string(),
        cause: first_line(reason).to_string(),
        resolution: format!(
            "mend the cause, then `mahabharatha retry {id}`; or go on without it: `mahabharatha skip {id} --reason TEXT`"
        ),
    }
}

fn waiting_task(id: &str) -> Blocker {
    Blocker {
        what: id.to_string(),
        cause: "waits for a person".to_string(),
        resolution: format!(
            "do it in a session that begins with `mahabharatha task claim {id}`; or go on without it: \
             `mahabharatha skip {id} --reason TEXT`"
        ),
    }
}

fn failed_level(level: Level, failure: &LevelFailure) -> Blocker {
    let (cause, resolution) = match failure {
        LevelFailure::Gate { failure, why } => failed_gate(failure, why),
        LevelFailure::Obstacle(obstacle) => obstacle_text(obstacle),
    };
    Blocker { what: format!("level {level}"), cause, resolution }
}

fn failed_gate(failure: &GateFailure, why: &str) -> (String, String) {
    let cause = format!("gate {} failed; {}", failure.gate, first_line(why));
    let resolution = "mend the cause (`mahabharatha retry TASK` does a task again), then `mahabharatha merge --retry`";
    (cause, resolution.to_string())
}

fn obstacle_text(obstacle: &Obstacle) -> (String, String) {
    match obstacle {
        Obstacle::BaseMoved => (
            "the base branch kept moving while the gates ran".to_string(),
            "`mahabharatha merge --retry` when it has come to rest".to_string(),
        ),
        Obstacle::BaseRewritten { was, .. } => (
            format!("the base branch was rewritten: it no longer contains {}", was.short()),
            format!("put {} back into it (`git reflog` shows where it was), then `mahabharatha run`", was.short()),
        ),
        Obstacle::Conflict { files, worktree } => (
            format!("conflict in {}", files.join(", ")),
            format!("resolve and commit in {worktree}, then `mahabharatha merge --retry`"),
        ),
        Obstacle::CheckoutInTheWay { files, worktree, why } => (
            format!("the checkout at {worktree} is in the way: {why} ({})", files.join(", ")),
            "commit, stash or move these files, then `mahabharatha merge --retry`".to_string(),
        ),
    }
}

/// What stopped the run as a whole, where no task and no level tells it.
fn stopped_run(end: &End) -> Option<Blocker> {
    let (cause, resolution) = match end {
        End::Paused { why } => (why.clone(), "`mahabharatha run` goes on when that has changed"),
        End::Failed { why } => (first_line(why).to_string(), "mend the cause, then `mahabharatha run` goes on"),
        End::RedBase { gates } => (
            format!("gates are red on the base before anything ran: {}", gates.join(", ")),
            "make them green and commit, or `mahabharatha run --allow-red-base`",
        ),
        _ => return None,
    };
    Some(Blocker { what: "run".to_string(), cause, resolution: resolution.to_string() })
}
