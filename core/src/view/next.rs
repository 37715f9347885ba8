//! Next step for a session that runs the tasks itself.

use serde::Serialize;

use super::blockers::{approval_command, blockers_of, resolution_of, retry_all, unapproved_level};
use crate::ids::{Level, TaskId};
use crate::run::effect::Effect;
use crate::run::event::Obstacle;
use crate::run::{End, LevelFailure, LevelStatus, Run, TaskStatus};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Next {
    pub feature: String,
    pub level: Option<Level>,
    pub step: Step,
    /// Tasks that the step applies to.
    pub tasks: Vec<TaskId>,
    /// Those of them that need the user, or tools that only the session itself has.
    pub foreground: Vec<TaskId>,
    pub in_progress: Vec<TaskId>,
    /// Most tasks at once.
    pub workers: u32,
    pub why: Option<String>,
    /// Command for the step.
    pub command: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Open the run.
    Start,
    /// Claim these tasks and do them.
    Claim,
    /// Nothing more can be claimed before something in progress has ended.
    Wait,
    /// Merge the level, which is completed or fixed.
    Merge,
    /// A gate failed: claim the task that must fix it.
    Fix,
    Completed,
    /// Only blocked tasks are left in the level, or the level waits for approval.
    Blocked,
    /// The level as a whole has failed.
    Failed,
}

impl Next {
    pub fn of(run: &Run) -> Next {
        let feature = run.feature().to_string();
        let jobs = run.outstanding().filter_map(|(_, effect)| match effect {
            Effect::RunJob(job) => Some(job.task.clone()),
            _ => None,
        });
        let in_progress: Vec<TaskId> = jobs.collect();
        let mut next = Next {
            level: run.current_level().map(|level| level.level),
            step: Step::Wait,
            tasks: Vec::new(),
            foreground: Vec::new(),
            in_progress,
            workers: run.policy().workers,
            why: None,
            command: None,
            feature,
        };
        let Some(level) = run.current_level() else {
            // Only closing the run remains, which a merge does.
            next.step = if run.ended() == Some(&End::Completed) { Step::Completed } else { Step::Merge };
            next.level = run.levels().last().map(|level| level.level);
            return next.with_command();
        };
        match &level.status {
            LevelStatus::Pending => next.step = Step::Start,
            LevelStatus::Running if level.open == 0 => next.step = Step::Merge,
            LevelStatus::Running => next.work(run, level.tasks.clone()),
            LevelStatus::Fixing { job: Some(_), .. } => next.step = Step::Wait,
            LevelStatus::Fixing { failure, task, job: None, .. } => {
                next.step = Step::Fix;
                next.tasks = vec![task.clone()];
                next.why = Some(format!("gate {} failed: {}\n\n{}", failure.gate, failure.command, failure.output));
            }
            LevelStatus::Failed { failure } => next.of_failure(failure),
            LevelStatus::AwaitingApproval { candidate } => {
                let blocker = unapproved_level(run, level.level, candidate);
                next.step = Step::Blocked;
                next.why = Some(format!("{} {}: {}", blocker.what, blocker.cause, blocker.resolution));
                next.command = Some(approval_command(run, level.level, candidate));
            }
            LevelStatus::Staging
            | LevelStatus::Gating
            | LevelStatus::Blaming { .. }
            | LevelStatus::Landing { .. }
            | LevelStatus::Merged { .. } => next.step = Step::Merge,
        }
        next.with_command()
    }

    fn of_failure(&mut self, failure: &LevelFailure) {
        self.step = Step::Failed;
        self.why = Some(match failure {
            LevelFailure::Gate { failure, why, .. } => {
                format!("gate {} failed; {why}\n\n{}", failure.gate, failure.output)
            }
            LevelFailure::Obstacle(obstacle) => {
                self.command = Some(match obstacle {
                    Obstacle::WorkLost { tasks } | Obstacle::Outdated { tasks } => retry_all(tasks, &self.feature),
                    _ => format!("mahabharatha merge --retry -f {}", self.feature),
                });
                format!("{obstacle}; {}", resolution_of(obstacle, &self.feature))
            }
        });
    }

    fn work(&mut self, run: &Run, tasks: std::ops::Range<usize>) {
        let of_level = || run.graph().tasks()[tasks.clone()].iter().zip(&run.tasks()[tasks.clone()]);
        let room = (self.workers as usize).saturating_sub(self.in_progress.len());
        let all: Vec<TaskId> = run.startable().into_iter().map(|task| run.graph().tasks()[task].id.clone()).collect();
        if !all.is_empty() && room > 0 {
            self.step = Step::Claim;
            self.tasks = all.into_iter().take(room).collect();
            let is_foreground = |id: &&TaskId| run.graph().task(id).is_some_and(|task| task.spec.foreground);
            self.foreground = self.tasks.iter().filter(is_foreground).cloned().collect();
        } else if !all.is_empty() || !self.in_progress.is_empty() {
            self.step = Step::Wait;
        } else {
            let blocked = |status: &TaskStatus| matches!(status, TaskStatus::Blocked { .. });
            let done = of_level().any(|(_, state)| matches!(state.status, TaskStatus::Completed { .. }));
            self.step = if done { Step::Blocked } else { Step::Failed };
            self.tasks =
                of_level().filter(|(_, state)| blocked(&state.status)).map(|(task, _)| task.id.clone()).collect();
            let causes: Vec<String> = blockers_of(run).iter().map(ToString::to_string).collect();
            self.why = Some(causes.join("\n"));
        }
    }

    fn with_command(mut self) -> Next {
        let feature = &self.feature;
        let names: Vec<&str> = self.tasks.iter().map(TaskId::as_str).collect();
        self.command = match (self.step, self.level) {
            (Step::Start, _) => Some(format!("mahabharatha task start -f {feature}")),
            (Step::Claim | Step::Fix, _) => Some(format!("mahabharatha task claim {} -f {feature}", names.join(" "))),
            (Step::Merge, Some(level)) => Some(format!("mahabharatha merge --level {level} -f {feature}")),
            _ => self.command,
        };
        self
    }
}
