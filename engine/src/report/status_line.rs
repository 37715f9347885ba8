//! One short line about a run for status bars, made from its projection.

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::Feature;
use mahabharatha_sys::ui::one_line;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text::usd_phrase;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatusLine {
    pub feature: String,
    pub status: String,
    /// A user stopped it. Programs know a stopped run as paused.
    #[serde(skip)]
    pub is_stopped: bool,
    pub completed: usize,
    pub total: usize,
    pub level: Option<u64>,
    #[serde(flatten)]
    pub cost: Cost,
    pub blocked: usize,
}

impl StatusLine {
    /// Reads the projection; missing fields count as unknown.
    pub fn of(feature: &Feature, projection: &Value) -> StatusLine {
        let tasks = projection["tasks"].as_object();
        let with =
            |status: &str| tasks.map_or(0, |tasks| tasks.values().filter(|task| task["status"] == status).count());
        StatusLine {
            feature: feature.to_string(),
            status: projection["status"].as_str().unwrap_or("unknown").to_owned(),
            is_stopped: projection["stopped"] == true,
            completed: with("completed"),
            total: tasks.map_or(0, serde_json::Map::len),
            level: projection["current_level"].as_u64(),
            cost: Cost::deserialize(projection).unwrap_or_else(|_| Cost::unknown()),
            blocked: with("blocked"),
        }
    }

    /// Returns the line for a run that nothing drives: the process or session that wrote the projection is gone.
    pub fn undriven(self) -> StatusLine {
        let status = if self.status == "in_progress" { "paused".to_owned() } else { self.status };
        StatusLine { status, ..self }
    }
}

/// Formats the line, such as `auth 5/12, level 2, 0.84 USD, 1 blocked`.
pub fn text(line: &StatusLine) -> String {
    let mut parts = vec![format!("{} {}/{}", line.feature, line.completed, line.total)];
    match (line.status.as_str(), line.level) {
        _ if line.is_stopped => parts.push("stopped".to_owned()),
        ("in_progress" | "blocked", level) => parts.extend(level.map(|level| format!("level {level}"))),
        (status, _) => parts.push(one_line(status)),
    }
    parts.extend(usd_phrase(line.cost));
    if line.blocked > 0 {
        parts.push(format!("{} blocked", line.blocked));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::projection::projection;
    use super::super::support::Story;
    use super::*;
    use serde_json::json;

    fn shown(projection: &Value) -> String {
        text(&StatusLine::of(&Feature::new("auth").unwrap(), projection))
    }

    #[test]
    fn a_run_is_one_line() {
        let mut story = Story::unattended();
        story.after(2.0).base_is_green().starts("TASK-001").starts("TASK-002").after(5.0).done("TASK-001");
        assert_eq!(shown(&json!(projection(&story.view()))), "auth 1/3, level 1, 0.25 USD");
    }

    #[test]
    fn a_run_that_nothing_drives_is_paused_unless_it_has_ended() {
        let line = |status: &str| StatusLine::of(&Feature::new("auth").unwrap(), &json!({ "status": status }));
        for (status, shown) in [("in_progress", "paused"), ("blocked", "blocked"), ("completed", "completed")] {
            assert_eq!(line(status).undriven().status, shown);
        }
    }

    #[test]
    fn blocked_tasks_status_and_unknown_cost_are_shown() {
        let task = |status: &str| json!({ "status": status });
        let tasks = json!({ "A": task("completed"), "B": task("blocked"), "C": task("pending") });
        let run = |status: &str, cost: Value| json!({ "status": status, "current_level": 2, "cost_usd": cost, "tasks": tasks });
        assert_eq!(shown(&run("in_progress", json!(0.84))), "auth 1/3, level 2, 0.84 USD, 1 blocked");
        assert_eq!(shown(&run("blocked", json!(null))), "auth 1/3, level 2, cost unknown, 1 blocked");
        assert_eq!(shown(&run("paused", json!(0.0))), "auth 1/3, paused, 1 blocked");
        let stopped = json!({ "status": "paused", "stopped": true, "cost_usd": 0.0, "tasks": tasks });
        assert_eq!(shown(&stopped), "auth 1/3, stopped, 1 blocked");
        assert_eq!(shown(&run("completed\n\u{1b}[2J", json!(1))), "auth 1/3, completed, 1.00 USD, 1 blocked");
        assert_eq!(shown(&json!([])), "auth 0/0, unknown, cost unknown");
    }
}
