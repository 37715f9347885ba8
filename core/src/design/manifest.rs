//! Writes `design-tasks-manifest.json`: the tasks in the format of Claude Code's task list.

use serde_json::{Value, json};

use crate::graph::{Task, TaskGraph};

pub fn design_manifest(graph: &TaskGraph) -> Value {
    let task = |task: &Task| {
        let spec = &task.spec;
        let owned = |what: &str, paths: &[String]| (!paths.is_empty()).then(|| format!("{what}: {}", paths.join(", ")));
        let lines = [
            spec.description.clone().or_else(|| spec.action.clone()),
            owned("Creates", &spec.files.create),
            owned("Modifies", &spec.files.modify),
            owned("Reads", &spec.files.read),
            Some(format!("Verification: {}", spec.verification.command)).filter(|_| !spec.verification.is_blank()),
        ];
        json!({
            "id": task.id,
            "subject": format!("[L{}] {}", task.level, spec.title),
            "description": lines.into_iter().flatten().collect::<Vec<_>>().join("\n"),
            "activeForm": format!("Executing {}", spec.title),
            "blockedBy": task.dependencies,
            "metadata": { "level": task.level, "foreground": spec.foreground },
        })
    };
    json!({ "feature": graph.feature, "tasks": graph.tasks().iter().map(task).collect::<Vec<_>>() })
}
