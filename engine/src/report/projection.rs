//! Builds `.mahabharatha/state/<feature>.json` from a run: maps by name, with the status words that its readers know.
//!
//! It is written as it is serialized: a copy in memory would double what a run of thousands of tasks needs.

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Level, Oid, TaskId};
use mahabharatha_core::view::{AttemptView, Blocker, LevelView, RunView, Stamp, TaskView, WorkerView};
use serde::{Serialize, Serializer};

#[derive(Serialize)]
pub struct Projection<'a> {
    feature: &'a str,
    status: &'static str,
    /// A user stopped it, and nothing has driven it since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stopped: bool,
    mode: &'a str,
    base_branch: &'a str,
    current_level: Option<Level>,
    started_at: Stamp,
    updated_at: Stamp,
    #[serde(serialize_with = "tasks")]
    tasks: &'a [TaskView],
    #[serde(serialize_with = "workers")]
    workers: &'a [WorkerView],
    #[serde(serialize_with = "levels")]
    levels: &'a [LevelView],
    #[serde(serialize_with = "blockers")]
    blockers: &'a [Blocker],
    planning: Cost,
    /// `None` until the whole feature is completed.
    completion: Option<Completion<'a>>,
    #[serde(flatten)]
    cost: Cost,
}

#[derive(Serialize)]
struct Task<'a> {
    status: &'static str,
    title: &'a str,
    level: Level,
    dependencies: &'a [TaskId],
    worker_id: Option<u32>,
    started_at: Option<Stamp>,
    completed_at: Option<Stamp>,
    commit: Option<&'a Oid>,
    reason: Option<&'a str>,
    attempts: &'a [AttemptView],
}

#[derive(Serialize)]
struct Worker<'a> {
    status: &'static str,
    current_task: Option<&'a TaskId>,
    pid: Option<u32>,
    branch: &'a str,
}

#[derive(Serialize)]
struct LevelEntry<'a> {
    status: &'static str,
    started_at: Option<Stamp>,
    completed_at: Option<Stamp>,
    commit: Option<&'a Oid>,
}

#[derive(Serialize)]
struct Completion<'a> {
    completed_at: Option<Stamp>,
    commit: Option<&'a Oid>,
    tasks_completed: usize,
    tasks_skipped: usize,
    attempts: usize,
    duration_seconds: u64,
    #[serde(flatten)]
    cost: Cost,
}

pub fn projection(view: &RunView) -> Projection<'_> {
    Projection {
        feature: &view.feature,
        status: word(view.status),
        stopped: view.is_stopped,
        mode: &view.mode,
        base_branch: &view.base_branch,
        current_level: view.level,
        started_at: view.started_at,
        updated_at: view.updated_at,
        tasks: &view.tasks,
        workers: &view.workers,
        levels: &view.levels,
        blockers: &view.blockers,
        planning: view.planning,
        completion: (view.status == "completed").then(|| completion(view)),
        cost: view.cost,
    }
}

/// Maps every status of active work to `in_progress`.
fn word(status: &'static str) -> &'static str {
    match status {
        "running" | "merging" | "gating" => "in_progress",
        other => other,
    }
}

fn tasks<S: Serializer>(tasks: &[TaskView], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(tasks.iter().map(|task| {
        let entry = Task {
            status: task.status,
            title: &task.title,
            level: task.level,
            dependencies: &task.dependencies,
            worker_id: task.worker,
            started_at: task.started_at,
            completed_at: task.completed_at,
            commit: task.commit.as_ref(),
            reason: task.reason.as_deref(),
            attempts: &task.attempts,
        };
        (&task.id, entry)
    }))
}

fn workers<S: Serializer>(workers: &[WorkerView], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(workers.iter().map(|worker| {
        let WorkerView { id, status, task, pid, branch, .. } = worker;
        (id, Worker { status, current_task: task.as_ref(), pid: *pid, branch })
    }))
}

fn levels<S: Serializer>(levels: &[LevelView], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(levels.iter().map(|level| {
        let entry = LevelEntry {
            status: word(level.status),
            started_at: level.started_at,
            completed_at: level.merged_at,
            commit: level.commit.as_ref(),
        };
        (level.level, entry)
    }))
}

fn blockers<S: Serializer>(blockers: &[Blocker], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(blockers.iter().map(ToString::to_string))
}

fn completion(view: &RunView) -> Completion<'_> {
    let of = |status: &str| view.tasks.iter().filter(|task| task.status == status).count();
    Completion {
        completed_at: view.ended_at,
        commit: view.levels.iter().rev().find_map(|level| level.commit.as_ref()),
        tasks_completed: of("completed"),
        tasks_skipped: of("skipped"),
        attempts: view.tasks.iter().map(|task| task.attempts.len()).sum(),
        duration_seconds: view.elapsed.as_secs(),
        cost: view.cost,
    }
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::run::Event;

    use serde_json::{Value, json};

    use super::super::support::Story;
    use super::word;

    fn projection(story: &Story) -> Value {
        json!(super::projection(&story.view()))
    }

    #[test]
    fn a_run_under_way() {
        let mut story = Story::unattended();
        story.after(2.0).base_is_green().starts("TASK-001").starts("TASK-002").after(5.0).done("TASK-001");
        insta::assert_snapshot!(format!("{:#}", projection(&story)));
    }

    #[test]
    fn only_a_completed_feature_has_a_completion() {
        let mut story = Story::eventful();
        let closing = projection(&story);
        assert_eq!((&closing["status"], &closing["completion"]), (&json!("in_progress"), &Value::Null));
        assert_eq!(closing["levels"]["1"]["status"], "merged");
        story.answers(|effect| Event::Closed { effect });
        let completed = projection(&story);
        assert_eq!(completed["status"], "completed");
        insta::assert_snapshot!(completed["completion"], @r#"{"completed_at":"2026-01-26T10:30:45Z","commit":"cccccccccccccccccccccccccccccccccccccccc","tasks_completed":3,"tasks_skipped":0,"attempts":5,"duration_seconds":45,"cost_usd":1.25,"known_cost_usd":1.25,"tokens":7500}"#);
    }

    #[test]
    fn merging_and_gating_are_in_progress() {
        assert_eq!(
            ["running", "merging", "gating", "merged", "pending", "failed"].map(word),
            ["in_progress", "in_progress", "in_progress", "merged", "pending", "failed"]
        );
    }
}
