//! `status`: where a run stands, for people and for programs.

use mahabharatha_core::ids::Time;
use mahabharatha_core::view::{AttemptView, LevelView, RunView, TaskView, WorkerView};
use serde_json::{Value, json};

use super::columns::{Cell, cell, columns, styled};
use super::failure::wip_ref;
use super::human_duration;
use super::text::{blocked_tasks, branch_name, count, few, note, outcome, task_counts, usd, worked};
use crate::ui::{Paint, Style, one_line};

/// How `status` is shown.
#[derive(Debug, Clone, Copy)]
pub struct Show {
    pub now: Time,
    /// Every attempt, with what is kept of it.
    pub verbose: bool,
    /// The terminal's columns, where there is one.
    pub columns: Option<usize>,
    pub paint: Paint,
}

/// As the contract has it.
pub fn status_json(view: &RunView) -> Value {
    let mut status = json!(view);
    // Differences from a task list that others keep; none is kept yet.
    status["mismatches"] = json!([]);
    status
}

pub fn status_text(view: &RunView, show: Show) -> String {
    let mut parts = vec![summary(view, show), levels(view, show), tasks(view, show)];
    if show.verbose {
        parts.extend(attempts(view, show));
    }
    parts.push(workers(view, show));
    parts.extend(blockers(view, show));
    parts.join("\n")
}

fn summary(view: &RunView, show: Show) -> String {
    let until = if view.status == "running" { show.now } else { view.updated_at.0 };
    let level = match (view.level, view.levels.last()) {
        (Some(level), Some(last)) => format!(", level {level} of {}", last.level),
        _ => String::new(),
    };
    let mut text = format!(
        "{}: {}{level} ({}, onto {})\n{}; {}; {}, {}\n",
        show.paint.apply(Style::Strong, &view.feature),
        show.paint.apply(style_of(view.status), view.status),
        one_line(&view.mode),
        one_line(branch_name(&view.landing_branch)),
        task_counts(view),
        human_duration(until.since(view.started_at.0)),
        usd(view.cost_usd),
        count(view.tokens as usize, "token"),
    );
    if let Some(breaker) = &view.breaker {
        text.push_str(&format!("{}\n", show.paint.apply(Style::Warn, &format!("breaker {breaker}"))));
    }
    text
}

fn style_of(status: &str) -> Style {
    match status {
        "completed" | "merged" | "done" => Style::Good,
        "blocked" | "failed" | "died" | "escalated" => Style::Bad,
        "waiting" | "paused" | "skipped" | "interrupted" => Style::Warn,
        "pending" | "idle" | "stopped" => Style::Dim,
        _ => Style::Plain,
    }
}

fn status_cell(status: &str) -> Cell {
    styled(style_of(status), status)
}

/// Nothing rather than a nought, so that what there is stands out.
fn some(number: usize) -> Cell {
    cell(if number == 0 { String::new() } else { number.to_string() })
}

fn levels(view: &RunView, show: Show) -> String {
    let row = |level: &LevelView| {
        vec![
            cell(level.level),
            status_cell(level.status),
            cell(format!("{}/{}", level.completed, level.total)),
            some(level.blocked),
            some(level.skipped),
            cell(level.commit.as_ref().map(|commit| commit.short()).unwrap_or_default()),
        ]
    };
    let rows: Vec<Vec<Cell>> = view.levels.iter().map(row).collect();
    columns(&["Level", "Status", "Done", "Blocked", "Skipped", "Commit"], &rows, &[], show.columns, show.paint)
}

fn tasks(view: &RunView, show: Show) -> String {
    let blocked = blocked_tasks(view);
    let row = |task: &TaskView| {
        let took = if task.attempts.is_empty() { String::new() } else { human_duration(worked(task, show.now)) };
        vec![
            cell(&task.id),
            cell(&task.title),
            status_cell(task.status),
            cell(task.worker.map(|worker| worker.to_string()).unwrap_or_default()),
            some(task.attempt as usize),
            cell(took),
            cell(note(task, &blocked)),
        ]
    };
    let rows: Vec<Vec<Cell>> = view.tasks.iter().map(row).collect();
    let head = ["Task", "Title", "Status", "Worker", "Attempt", "Duration", "Note"];
    columns(&head, &rows, &[1, 6], show.columns, show.paint)
}

fn workers(view: &RunView, show: Show) -> String {
    let row = |worker: &WorkerView| {
        vec![
            cell(worker.id),
            status_cell(worker.status),
            cell(worker.task.as_ref().map(|task| task.as_str()).unwrap_or_default()),
            cell(worker.pid.map(|pid| pid.to_string()).unwrap_or_default()),
            cell(&worker.branch),
        ]
    };
    let rows: Vec<Vec<Cell>> = view.workers.iter().map(row).collect();
    columns(&["Worker", "Status", "Task", "Pid", "Branch"], &rows, &[4], show.columns, show.paint)
}

fn attempts(view: &RunView, show: Show) -> Option<String> {
    let mut text = format!("{}\n", show.paint.apply(Style::Strong, "Attempts"));
    let before = text.len();
    for task in &view.tasks {
        for attempt in &task.attempts {
            text.push_str(&about_attempt(view, task, attempt, show));
        }
    }
    (text.len() > before).then_some(text)
}

fn about_attempt(view: &RunView, task: &TaskView, attempt: &AttemptView, show: Show) -> String {
    let end = attempt.ended_at.map_or(show.now, |ended| ended.0);
    let ended = outcome(attempt.outcome, attempt.cause);
    let mut text = format!(
        "{} {}: {}, worker {}, {}, {}\n",
        task.id,
        attempt.attempt,
        show.paint.apply(style_of(attempt.outcome), ended),
        attempt.worker,
        human_duration(end.since(attempt.started_at.0)),
        usd(attempt.cost_usd),
    );
    if !attempt.strays.is_empty() {
        text.push_str(&format!("  changed without owning it: {}\n", few(&attempt.strays)));
    }
    for warning in &attempt.warnings {
        text.push_str(&format!("  {}\n", one_line(warning)));
    }
    if attempt.wip.is_some() {
        text.push_str(&format!("  work kept: {}\n", wip_ref(&view.feature, task, attempt)));
    }
    text
}

fn blockers(view: &RunView, show: Show) -> Option<String> {
    if view.blockers.is_empty() {
        return None;
    }
    let mut text = format!("{}\n", show.paint.apply(Style::Strong, "Blockers"));
    for blocker in &view.blockers {
        let what = show.paint.apply(Style::Bad, &one_line(&blocker.to_string()));
        text.push_str(&format!("{what}\n  {}\n", one_line(&blocker.resolution)));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::run::event::{Command, FailCause, JobEnd};

    use super::super::support::{Story, failed, id};
    use super::*;

    fn shown(story: &mut Story, verbose: bool, columns: Option<usize>) -> String {
        let now = story.after(3.0).now;
        status_text(&story.view(), Show { now, verbose, columns, paint: Paint::OFF })
    }

    #[test]
    fn for_people() {
        insta::assert_snapshot!(shown(&mut Story::stuck(), false, Some(80)));
    }

    #[test]
    fn with_every_attempt() {
        let mut story = Story::new();
        story.base_is_green().starts("TASK-001").starts("TASK-002").after(9.0);
        story.ends("TASK-001", failed(FailCause::Strays, "undo", &["a.rs", "b.rs"]));
        story.ends("TASK-002", JobEnd::Escalated { reason: "which colour?".to_string() });
        story.asked(Command::Skip {
            tasks: vec![id("TASK-003")],
            reason: "too\tlong".to_string(),
            keep_dependents: true,
        });
        insta::assert_snapshot!(shown(&mut story, true, None));
    }

    /// The example of the contract, with one value of each alternative.
    const CONTRACT: &str = r#"
        {"feature":"x","status":"running","mode":"subprocess","level":1,
         "levels":[{"level":1,"status":"pending","total":8,"completed":3,"blocked":0,"commit":null}],
         "tasks":[{"id":"TASK-001","title":"…","level":1,"status":"pending","worker":0,
                   "attempt":1,"started_at":"…","completed_at":null,"commit":null,"cost_usd":0.0,"tokens":0,"reason":null,"strays":[]}],
         "workers":[{"id":0,"status":"idle","task":"TASK-001","pid":123,"branch":"…"}],
         "mismatches":[],
         "cost_usd":0.0,"blockers":["…"]}"#;

    /// Every field of the contract is there, with a value of its kind or null.
    fn assert_holds(contract: &Value, ours: &Value, at: &str) {
        match (contract, ours) {
            (Value::Object(fields), Value::Object(_)) => {
                for (name, value) in fields {
                    let ours = ours.get(name).unwrap_or_else(|| panic!("{at}.{name} is missing"));
                    assert_holds(value, ours, &format!("{at}.{name}"));
                }
            }
            (Value::Array(wanted), Value::Array(ours)) => {
                for (wanted, ours) in
                    wanted.first().into_iter().flat_map(|wanted| ours.iter().map(move |ours| (wanted, ours)))
                {
                    assert_holds(wanted, ours, at);
                }
            }
            (Value::Null, _) | (_, Value::Null) => {}
            (wanted, ours) => {
                assert_eq!(std::mem::discriminant(wanted), std::mem::discriminant(ours), "{at}: {ours}");
            }
        }
    }

    #[test]
    fn for_programs_as_the_contract_has_it() {
        let contract: Value = serde_json::from_str(CONTRACT).unwrap();
        let mut running = Story::unattended();
        running.base_is_green().starts("TASK-001").done("TASK-002");
        for story in [running, Story::stuck(), Story::eventful()] {
            let status = status_json(&story.view());
            assert_holds(&contract, &status, "");
            assert!(!status["tasks"].as_array().unwrap().is_empty());
        }
        let status = status_json(&Story::stuck().view());
        assert_eq!(status["tasks"][0]["started_at"], "2026-01-26T10:30:02Z");
        assert_eq!(status["blockers"], json!(["TASK-001: The API <v2> is not there"]));
    }

    #[test]
    fn an_attempt_that_was_called_off_is_not_under_way() {
        let mut story = Story::unattended();
        story.base_is_green().starts("TASK-001");
        let (effect, _) = story.attempt("TASK-001");
        assert_eq!(story.view().tasks[0].attempts[0].outcome, "running");
        story.happens(mahabharatha_core::run::Event::Interrupted { effect });
        assert_eq!(story.view().tasks[0].attempts[0].outcome, "interrupted");
    }
}
