//! Blockers of a run: what keeps it from continuing, why, and what the user can do.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::excerpt::{key_line, summary};
use crate::ids::{Level, TaskId};
use crate::names::{argument_list, shell_word};
use crate::run::event::{Candidate, GateFailure, Obstacle};
use crate::run::{End, LevelFailure, LevelStatus, Run, TaskStatus};

/// Names the run as a whole in a blocker.
pub(super) const RUN: &str = "run";

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct Blocker {
    /// The task or level, or `run`.
    pub what: String,
    /// The cause in one line.
    pub cause: String,
    /// What the user can do.
    pub resolution: String,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.cause)
    }
}

/// Serializes as one sentence.
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
            TaskStatus::Blocked { reason, .. } => {
                let answer = answer_to(run, &task.id);
                blockers.push(blocked_task(id, reason, answer));
            }
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
    blockers.extend(run.awaiting_approval().map(|(level, candidate)| unapproved_level(level, candidate)));
    if blockers.len() == before {
        blockers.extend(run.ended().and_then(stopped_run));
    }
    if run.is_paused() && run.ended().is_none() {
        blockers.push(Blocker {
            what: RUN.to_string(),
            cause: "paused by `mahabharatha pause`".to_string(),
            resolution: "`mahabharatha resume` lets it go on".to_string(),
        });
    }
    blockers
}

/// Returns the commands that answer the agent of a blocked task; none if it asks nothing.
pub fn answer_to(run: &Run, task: &TaskId) -> Option<String> {
    run.task(task)?.question()?;
    let needs = run.needs_of(task);
    let paths = argument_list(needs.iter().map(|need| need.path.as_str()));
    Some(match paths.is_empty() {
        true => format!("answer it: `mahabharatha retry {task} --note \"…\"`"),
        false => format!(
            "grant it: `mahabharatha task grant {task} {paths}`; refuse it: `mahabharatha retry {task} --note \"…\"`"
        ),
    })
}

fn blocked_task(id: &str, reason: &str, answer: Option<String>) -> Blocker {
    let cause = match summary(reason) {
        line if line.is_empty() => "no reason was given".to_string(),
        line => line,
    };
    let retry = answer.unwrap_or_else(|| format!("fix the cause, then `mahabharatha retry {id}`"));
    Blocker {
        what: id.to_string(),
        cause,
        resolution: format!("{retry}; or go on without it: `mahabharatha skip {id} --reason TEXT`"),
    }
}

fn waiting_task(id: &str) -> Blocker {
    Blocker {
        what: id.to_string(),
        cause: "waits for a person".to_string(),
        resolution: format!(
            "do it in Claude Code with `/mahabharatha:worker {id}`, or by hand after `mahabharatha task claim {id}`; or go on \
             without it: `mahabharatha skip {id} --reason TEXT`"
        ),
    }
}

fn failed_level(level: Level, failure: &LevelFailure) -> Blocker {
    let (cause, resolution) = match failure {
        LevelFailure::Gate { failure, why } => failed_gate(failure, why),
        LevelFailure::Obstacle(obstacle) => (obstacle.to_string(), resolution_of(obstacle)),
    };
    Blocker { what: format!("level {level}"), cause, resolution }
}

/// Returns the command that approves what waits in a level, and nothing else.
pub fn approval_command(level: Level, candidate: &Candidate) -> String {
    format!("mahabharatha merge --approve={} --level {level}", candidate.tree.short())
}

pub(super) fn unapproved_level(level: Level, candidate: &Candidate) -> Blocker {
    let (base, staging) = (candidate.base.short(), candidate.staging.short());
    Blocker {
        what: format!("level {level}"),
        cause: "waits for your approval".to_string(),
        resolution: format!(
            "`git diff {base}...{staging}` shows it; `{}` merges it, or `mahabharatha retry TASK` repeats a task",
            approval_command(level, candidate)
        ),
    }
}

fn failed_gate(failure: &GateFailure, why: &str) -> (String, String) {
    let mut cause = format!("gate {} failed", failure.gate);
    cause.extend(key_line(failure.output_and_end().0).map(|line| format!(": {line}")));
    cause.push_str(&format!("; {}", summary(why)));
    cause.extend(failure.cause.iter().map(|likely| format!(". Likely cause: {likely}")));
    let resolution = "`mahabharatha run` tries to fix it once more; before that, `mahabharatha retry TASK` repeats a \
                      task, or commit a fix in the staging worktree";
    (cause, resolution.to_string())
}

/// Returns what the user can do about an obstacle.
pub(super) fn resolution_of(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::BaseMoved => "`mahabharatha run` once the branch no longer moves".to_string(),
        Obstacle::BaseRewritten { was, now: None } => {
            let set = format!("git update-ref --no-deref refs/heads/NAME {}", was.short());
            format!("create it again (`{set}`) or rename it back, then `mahabharatha run`")
        }
        Obstacle::BaseRewritten { was, now: Some(_) } => format!(
            "nothing was brought back: if it was lost by mistake, `git merge {0}` into the base branch (or reset it to \
             {0}), then `mahabharatha run`",
            was.short()
        ),
        Obstacle::Conflict { worktree, .. } => {
            format!("resolve and commit in {worktree}, then `mahabharatha merge --retry`")
        }
        Obstacle::CheckoutLeftBehind { branch, worktree, was, now } => format!(
            "if you did not move it, move it back: `git update-ref {} {was}`; otherwise update the \
             files: `git -C {} read-tree -m -u {was} {now}`; then `mahabharatha run`",
            shell_word(&format!("refs/heads/{branch}")),
            shell_word(worktree)
        ),
        Obstacle::CheckoutInTheWay { .. } => "fix that, then `mahabharatha run`".to_string(),
        Obstacle::WorkLost { tasks } | Obstacle::Outdated { tasks } => {
            let tasks: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
            format!("`mahabharatha retry {}` rebuilds it, then `mahabharatha run`", tasks.join(" "))
        }
        Obstacle::Forged { .. } => {
            "an agent or a damaged disk changed them: `mahabharatha retry` the tasks of these files, remove the named \
             objects, then `mahabharatha run`"
                .to_string()
        }
        Obstacle::StagingLost => "check the disk and the repository (`git fsck`), then `mahabharatha run`".to_string(),
    }
}

/// Returns what stopped the run as a whole, if no level failed.
fn stopped_run(end: &End) -> Option<Blocker> {
    let (cause, resolution) = match end {
        End::Paused { why, .. } => (
            why.clone(),
            "change that, in .mahabharatha/config.yaml where it is a setting, then `mahabharatha run` goes on",
        ),
        End::Failed { why } => (summary(why), "fix the cause, then `mahabharatha run` goes on"),
        End::SetupFailed { why } => (
            summary(why),
            "try the command with `mahabharatha sandbox -- COMMAND`, correct it or worktrees.setup in \
             .mahabharatha/config.yaml, then `mahabharatha run` goes on",
        ),
        End::RedBase { gates } => (
            format!("gates are red on the base before anything ran: {}", gates.join(", ")),
            "make them green and commit, or `mahabharatha run --allow-red-base`",
        ),
        _ => return None,
    };
    Some(Blocker { what: RUN.to_string(), cause, resolution: resolution.to_string() })
}
