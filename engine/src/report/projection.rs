//! Builds `.mahabharatha/state/<feature>.json` from a run: maps by name, with the status words that its readers know.

use mahabharatha_core::view::{LevelView, RunView, TaskView, WorkerView};
use serde_json::{Map, Value, json};

use super::extended;

pub fn projection(view: &RunView) -> Value {
    let tasks: Map<String, Value> = view.tasks.iter().map(|task| (task.id.to_string(), task_entry(task))).collect();
    let workers: Map<String, Value> =
        view.workers.iter().map(|worker| (worker.id.to_string(), worker_entry(worker))).collect();
    let levels: Map<String, Value> =
        view.levels.iter().map(|level| (level.level.to_string(), level_entry(level))).collect();
    let run = json!({
        "feature": view.feature,
        "status": word(view.status),
        "mode": view.mode,
        "base_branch": view.base_branch,
        "current_level": view.level,
        "started_at": view.started_at,
        "updated_at": view.updated_at,
        "tasks": tasks,
        "workers": workers,
        "levels": levels,
        "blockers": view.blockers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "planning": view.planning,
        "completion": completion(view),
    });
    extended(run, view.cost)
}

/// Maps every status of active work to `in_progress`.
fn word(status: &'static str) -> &'static str {
    match status {
        "running" | "merging" | "gating" => "in_progress",
        other => other,
    }
}

fn task_entry(task: &TaskView) -> Value {
    json!({
        "status": task.status,
        "title": task.title,
        "level": task.level,
        "dependencies": task.dependencies,
        "worker_id": task.worker,
        "started_at": task.started_at,
        "completed_at": task.completed_at,
        "commit": task.commit,
        "reason": task.reason,
        "attempts": task.attempts,
    })
}

fn worker_entry(worker: &WorkerView) -> Value {
    json!({
        "status": worker.status,
        "current_task": worker.task,
        "pid": worker.pid,
        "branch": worker.branch,
    })
}

fn level_entry(level: &LevelView) -> Value {
    json!({
        "status": word(level.status),
        "started_at": level.started_at,
        "completed_at": level.merged_at,
        "commit": level.commit,
    })
}

/// Returns null until the whole feature is completed.
fn completion(view: &RunView) -> Value {
    if view.status != "completed" {
        return Value::Null;
    }
    let of = |status: &str| view.tasks.iter().filter(|task| task.status == status).count();
    let completion = json!({
        "completed_at": view.ended_at,
        "commit": view.levels.last().and_then(|level| level.commit.as_ref()),
        "tasks_completed": of("completed"),
        "tasks_skipped": of("skipped"),
        "attempts": view.tasks.iter().map(|task| task.attempts.len()).sum::<usize>(),
        "duration_seconds": view.elapsed.as_secs(),
    });
    extended(completion, view.cost)
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::run::Event;

    use super::super::support::Story;
    use super::*;

    #[test]
    fn a_run_under_way() {
        let mut story = Story::unattended();
        story.after(2.0).base_is_green().starts("TASK-001").starts("TASK-002").after(5.0).done("TASK-001");
        insta::assert_snapshot!(format!("{:#}", projection(&story.view())));
    }

    #[test]
    fn only_a_completed_feature_has_a_completion() {
        let mut story = Story::eventful();
        let closing = projection(&story.view());
        assert_eq!((&closing["status"], &closing["completion"]), (&json!("in_progress"), &Value::Null));
        assert_eq!(closing["levels"]["1"]["status"], "merged");
        story.answers(|effect| Event::Closed { effect });
        let completed = projection(&story.view());
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
