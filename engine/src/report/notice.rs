//! Finds the events of a run about which the user wants to be told.

use mahabharatha_core::config::NoticeKind;
use mahabharatha_core::excerpt::summary;
use mahabharatha_core::ids::{TaskId, Time};
use mahabharatha_core::run::{End, PauseCause, Run, TaskState, TaskStatus};
use mahabharatha_core::view::Stamp;
use mahabharatha_core::view::{RunView, merged_phrase};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Notice {
    pub version: u32,
    pub at: Stamp,
    pub event: NoticeKind,
    pub feature: String,
    /// None if it is about the run.
    pub task: Option<TaskId>,
    pub message: String,
}

impl Notice {
    pub fn new(at: Time, event: NoticeKind, feature: &str, task: Option<TaskId>, message: String) -> Notice {
        Notice { version: 1, at: Stamp(at), event, feature: feature.to_owned(), task, message }
    }
}

/// What was told already.
#[derive(Debug)]
pub struct Notices {
    tasks: Vec<bool>,
    waits_for_service: bool,
    ended: bool,
}

impl Notices {
    fn of(run: &Run) -> Notices {
        Notices {
            tasks: run.tasks().iter().map(needs_user).collect(),
            waits_for_service: run.service_pause().is_some(),
            ended: run.ended().is_some(),
        }
    }

    /// For a run that this process begins to follow: a new one may wait for a person from its start.
    pub fn at_start(run: &Run) -> Notices {
        let mut notices = Notices::of(run);
        if run.tasks().iter().all(|task| task.attempts.is_empty()) {
            notices.tasks.clear();
        }
        notices
    }

    /// Returns what the latest event gives reason to tell.
    pub fn next(&mut self, run: &Run) -> Vec<Notice> {
        let before = std::mem::replace(self, Notices::of(run));
        let notice = |event, task, message| Notice::new(run.updated_at(), event, run.feature().as_str(), task, message);
        let mut notices = Vec::new();
        for (index, (task, state)) in run.graph().tasks().iter().zip(run.tasks()).enumerate() {
            if before.tasks.get(index) == Some(&true) {
                continue;
            }
            if let Some((event, message)) = of_task(state) {
                notices.push(notice(event, Some(task.id.clone()), message));
            }
        }
        if let Some(pause) = run.service_pause().filter(|_| !before.waits_for_service) {
            notices.push(notice(
                NoticeKind::Quota,
                None,
                format!("no launches until {}: {}", pause.until, summary(&pause.why)),
            ));
        }
        if let Some(end) = run.ended().filter(|_| !before.ended) {
            notices.extend(of_end(run, end).map(|(event, message)| notice(event, None, message)));
        }
        notices
    }
}

fn needs_user(state: &TaskState) -> bool {
    matches!(state.status, TaskStatus::Blocked { .. } | TaskStatus::Waiting)
}

fn of_task(state: &TaskState) -> Option<(NoticeKind, String)> {
    match &state.status {
        TaskStatus::Waiting => Some((NoticeKind::Question, "it needs a person".to_owned())),
        TaskStatus::Blocked { reason, over_budget, .. } => {
            let kind = match (state.question().is_some(), over_budget) {
                (true, _) => NoticeKind::Question,
                (false, true) => NoticeKind::Budget,
                (false, false) => NoticeKind::Blocked,
            };
            Some((kind, summary(reason)))
        }
        _ => None,
    }
}

fn of_end(run: &Run, end: &End) -> Option<(NoticeKind, String)> {
    Some(match end {
        End::Completed => (NoticeKind::Completed, merged_phrase(&RunView::of(run).levels)),
        End::LevelMerged { level } => (NoticeKind::Completed, run.merged_level_phrase(*level)),
        End::Blocked => (NoticeKind::Blocked, "only blocked or waiting tasks remain".to_owned()),
        End::Paused { cause: PauseCause::Budget, why } => (NoticeKind::Budget, summary(why)),
        End::Paused { why, .. } => (NoticeKind::Blocked, summary(why)),
        End::RedBase { gates } => (NoticeKind::Failed, format!("gates fail on the base: {}", gates.join(", "))),
        End::SetupFailed { failure } => (NoticeKind::Failed, failure.summary()),
        End::GateFailed { level, gate } => (NoticeKind::Failed, format!("gate {gate} of level {level} failed")),
        End::Conflict { level, .. } => (NoticeKind::Failed, format!("level {level} conflicts with the base branch")),
        End::Failed { why } => (NoticeKind::Failed, summary(why)),
        // The user did that.
        End::Stopped | End::Undone => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::support::Story;
    use super::*;

    #[test]
    fn a_run_tells_of_what_needs_the_user_once() {
        let story = Story::stuck();
        let mut notices = Notices { tasks: Vec::new(), waits_for_service: false, ended: false };
        let told: Vec<String> =
            notices.next(&story.run).iter().map(|notice| format!("{:?} {:?}", notice.event, notice.task)).collect();
        assert!(told.iter().any(|notice| notice.contains("TASK-001")), "{told:?}");
        assert_eq!(notices.next(&story.run), []);
    }
}
