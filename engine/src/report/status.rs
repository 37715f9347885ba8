//! `status`: the state of a run, as text for users and as JSON for programs.

use std::collections::BTreeMap;
use std::fmt;

use jiff::tz::TimeZone;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{TaskId, Time};
use mahabharatha_core::view::{AttemptView, LevelView, RunView, Stamp, TaskView, WorkerView, merged_phrase};
use mahabharatha_sys::container::Usage;
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::ui::{Paint, Style, command_line, fit, one_line, width};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::columns::{Cell, cell, columns, styled};
use super::gate_runs::GateRunView;
use super::human_duration;
use super::logs::{LogRecord, render_record};
use super::running_gate::GateProgress;
use super::text::{
    amount, attempt_took, blocked_tasks, cost_phrase, count, few, headline, note, outcome, sandbox_phrase, task_counts,
    worked,
};
use crate::claude::tasks::Mismatch;

/// Most mismatches that are named.
const MAX_SHOWN_MISMATCHES: usize = 10;

/// Commands that show what attempts saved, by task and attempt.
pub type SavedWork = BTreeMap<(TaskId, u32), String>;

/// Details that `-v` adds, by worker.
#[derive(Debug, Clone, Default)]
pub struct Details {
    pub ports: BTreeMap<u32, Vec<u16>>,
    /// The workers' containers, if they have any.
    pub containers: BTreeMap<u32, ContainerView>,
    /// Disk space of the feature's worktrees, if it was measured.
    pub worktree_bytes: Option<u64>,
    pub work: SavedWork,
    /// Last records of each worker's log.
    pub logs: BTreeMap<u32, Vec<LogRecord>>,
}

/// A worker's container.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContainerView {
    pub name: String,
    /// What it uses, if it runs.
    #[serde(flatten)]
    pub usage: Option<Usage>,
}

impl fmt::Display for ContainerView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let Some(Usage { memory_bytes, memory_limit_bytes, cpu_percent }) = self.usage else { return Ok(()) };
        write!(f, " ({} of {} MB, {cpu_percent:.0} % CPU)", memory_bytes >> 20, memory_limit_bytes >> 20)
    }
}

/// The feature's task list in Claude Code, compared with the run.
#[derive(Debug, Clone, Default)]
pub struct ListView {
    pub id: String,
    pub mismatches: Vec<Mismatch>,
    /// The list that the calling session shows instead.
    pub shown_instead: Option<String>,
    /// Why the list cannot be read.
    pub trouble: Option<String>,
}

/// Current activity of a worker, and the tokens its agent has used so far, which no total includes yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doing {
    /// `agent` or `verifying`.
    pub phase: &'static str,
    /// When the phase began.
    pub since: Time,
    /// The agent's name in the configuration.
    pub agent: String,
    pub model: Option<String>,
    /// Such as `editing src/x.rs`; empty if the agent reports nothing.
    pub what: String,
    pub tokens: u64,
}

impl Doing {
    /// Formats the activity; empty if nothing is known of it.
    pub fn text(&self) -> String {
        if self.phase == "verifying" { self.phase.to_string() } else { one_line(&self.what) }
    }
}

/// How `status` is shown.
#[derive(Debug, Clone, Copy)]
pub struct Show<'a> {
    pub now: Time,
    /// `None` if the feature has no task list.
    pub list: Option<&'a ListView>,
    /// Activity of the agents, by worker.
    pub doing: &'a BTreeMap<u32, Doing>,
    /// The gate that is running now.
    pub gate: Option<&'a GateProgress>,
    /// If given, every attempt is shown too, with its saved work.
    pub details: Option<&'a Details>,
    /// Columns of the terminal, if there is one.
    pub columns: Option<usize>,
    /// Shows blockers and workers first, since a screen cuts off what does not fit at the end.
    pub for_screen: bool,
    pub paint: Paint,
}

/// A status in the documented JSON format.
pub struct StatusJson<'v> {
    /// All fields, with none of the tasks.
    pub fields: Value,
    /// There may be thousands, so no copy is made.
    pub tasks: &'v [TaskView],
}

impl Serialize for StatusJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.fields.as_object().into_iter().flatten() {
            match name.as_str() {
                "tasks" => map.serialize_entry(name, self.tasks)?,
                _ => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

impl fmt::Display for StatusJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// Returns the status of a run.
pub fn status_json<'v>(
    view: &'v mut RunView,
    doing: &BTreeMap<u32, Doing>,
    gate: Option<&GateProgress>,
    gates: &[GateRunView],
    list: Option<&ListView>,
) -> StatusJson<'v> {
    let tasks = std::mem::take(&mut view.tasks);
    let mut status = json!(view);
    view.tasks = tasks;
    status["running_gate"] = json!(gate.map(GateProgress::to_json));
    status["gates"] = json!(gates);
    for (worker, shown) in view.workers.iter().zip(status["workers"].as_array_mut().into_iter().flatten()) {
        let doing = doing.get(&worker.id);
        shown["doing"] = json!(doing.map(|doing| &doing.what).filter(|what| !what.is_empty()));
        shown["tokens"] = json!(doing.map(|doing| doing.tokens));
        shown["phase"] = json!(doing.map(|doing| doing.phase));
        shown["phase_since"] = json!(doing.map(|doing| Stamp(doing.since)));
        shown["agent"] = json!(doing.map(|doing| &doing.agent));
        shown["model"] = json!(doing.and_then(|doing| doing.model.as_ref()));
    }
    status["mismatches"] = json!(list.map(|list| &list.mismatches[..]).unwrap_or_default());
    status["task_list"] = json!(
        list.map(|list| { json!({ "id": list.id, "shown_instead": list.shown_instead, "trouble": list.trouble }) })
    );
    StatusJson { fields: status, tasks: &view.tasks }
}

pub fn status_text(view: &RunView, show: Show<'_>) -> String {
    let summary = [summary(view, show)];
    let work = [levels(view, show), tasks(view, show)];
    let attempts = show.details.and_then(|_| attempts(view, show));
    let workers = [workers(view, show)];
    let rest = [show.details.and_then(|details| logs(details, show)), show.list.and_then(|list| task_list(list, show))];
    let rest = rest.into_iter().flatten();
    let blockers = blockers(view, show).or_else(|| next(view));
    let parts: Vec<String> = if show.for_screen {
        summary.into_iter().chain(blockers).chain(workers).chain(work).chain(attempts).chain(rest).collect()
    } else {
        summary.into_iter().chain(work).chain(attempts).chain(workers).chain(rest).chain(blockers).collect()
    };
    parts.join("\n")
}

fn summary(view: &RunView, show: Show<'_>) -> String {
    let level = match (view.level, view.levels.last()) {
        (Some(level), Some(last)) => format!(", level {level} of {}", last.level),
        _ => String::new(),
    };
    let mut text = format!(
        "{}: {}{level} ({}, {}, schedule {}, onto {})\n{}; {}{}\n",
        show.paint.apply(Style::Strong, &view.feature),
        show.paint.apply(style_of(view.status), view.status_word()),
        one_line(&view.mode),
        sandbox_phrase(view.sandbox),
        view.schedule,
        one_line(short_branch(&view.landing_branch)),
        task_counts(view),
        human_duration(view.elapsed_by(show.now)),
        cost_phrase(view.cost).map(|cost| format!("; {cost}")).unwrap_or_default(),
    );
    if view.is_all_skipped() {
        text.push_str(&format!("{}\n", merged_phrase(&view.levels)));
    }
    if let Some(gate) = show.gate {
        text.push_str(&format!("{}\n", fit(&gate.text(), show.columns.unwrap_or(usize::MAX))));
    }
    if let Some(bytes) = show.details.and_then(|details| details.worktree_bytes) {
        text.push_str(&format!("worktrees: {} MB on disk\n", bytes >> 20));
    }
    if let Some(breaker) = &view.breaker {
        text.push_str(&format!("{}\n", show.paint.apply(Style::Warn, &format!("breaker {breaker}"))));
    }
    if let Some(pause) = &view.pause {
        let why = format!("no launches until {}: {}", pause.until.0, headline(&pause.why));
        text.push_str(&format!("{}\n", show.paint.apply(Style::Warn, &why)));
    }
    text
}

fn style_of(status: &str) -> Style {
    match status {
        "completed" | "merged" | "done" => Style::Good,
        "blocked" | "failed" | "died" | "escalated" => Style::Bad,
        "waiting" | "paused" | "skipped" | "cancelled" => Style::Warn,
        "pending" | "idle" | "stopped" => Style::Dim,
        _ => Style::Plain,
    }
}

pub(super) fn status_cell(status: &str) -> Cell {
    styled(style_of(status), status)
}

/// Shows zero as an empty cell, so that other numbers stand out.
fn nonzero(number: usize) -> Cell {
    cell(if number == 0 { String::new() } else { number.to_string() })
}

fn levels(view: &RunView, show: Show<'_>) -> String {
    let row = |level: &LevelView| {
        let mut row = vec![
            cell(level.level),
            status_cell(level.status),
            cell(format!("{}/{}", level.completed, level.total)),
            nonzero(level.blocked),
            nonzero(level.skipped),
            cell(level.commit.as_ref().map(|commit| commit.short()).unwrap_or_default()),
        ];
        row.extend(cost_cell(view, level.cost));
        row
    };
    let rows: Vec<Vec<Cell>> = view.levels.iter().map(row).collect();
    let mut head = vec!["Level", "Status", "Done", "Blocked", "Skipped", "Commit"];
    head.extend(has_cost_column(view).then_some("Cost"));
    columns(&head, &rows, &[], show.columns, show.paint)
}

/// Tells whether any cost is known; a column with `unknown` in every row would be noise.
fn has_cost_column(view: &RunView) -> bool {
    view.levels.iter().any(|level| level.cost.known_usd() > 0.0)
}

fn cost_cell(view: &RunView, cost: Cost) -> Option<Cell> {
    has_cost_column(view).then(|| cell(if cost.is_zero() { String::new() } else { amount(cost) }))
}

fn tasks(view: &RunView, show: Show<'_>) -> String {
    let blocked = blocked_tasks(view);
    let row = |task: &TaskView| {
        let took = if task.attempts.is_empty() { String::new() } else { human_duration(worked(view, task, show.now)) };
        let mut row = vec![
            cell(&task.id),
            cell(&task.title),
            status_cell(task.status),
            cell(task.worker.map(|worker| worker.to_string()).unwrap_or_default()),
            nonzero(task.attempt as usize),
            cell(took),
        ];
        row.extend(show.details.and_then(|_| cost_cell(view, task.cost)));
        row.push(cell(note(task, &blocked)));
        row
    };
    let rows: Vec<Vec<Cell>> = view.tasks.iter().map(row).collect();
    let mut head = vec!["Task", "Title", "Status", "Worker", "Attempt", "Duration"];
    head.extend((show.details.is_some() && has_cost_column(view)).then_some("Cost"));
    head.push("Note");
    columns(&head, &rows, &[1, head.len() - 1], show.columns, show.paint)
}

fn workers(view: &RunView, show: Show<'_>) -> String {
    let ports = |worker: u32| show.details.and_then(|details| details.ports.get(&worker));
    let containers = show.details.map(|details| &details.containers).filter(|all| !all.is_empty());
    let said = |doing: &Doing| match doing.tokens {
        0 => doing.text(),
        tokens => format!("{} ({} so far)", doing.text(), count(tokens as usize, "token")),
    };
    let has_activity = show.doing.values().any(|doing| !said(doing).is_empty());
    let row = |worker: &WorkerView| {
        let ports: Vec<String> = ports(worker.id).into_iter().flatten().map(u16::to_string).collect();
        let mut row = vec![
            cell(worker.id),
            status_cell(if worker.retiring { "retiring" } else { worker.status }),
            cell(worker.task.as_ref().map(|task| task.as_str()).unwrap_or_default()),
            cell(worker.pid.map(|pid| pid.to_string()).unwrap_or_default()),
        ];
        row.extend(show.details.map(|_| cell(ports.join(","))));
        row.extend(containers.map(|all| cell(all.get(&worker.id).map(ToString::to_string).unwrap_or_default())));
        if has_activity {
            row.push(cell(show.doing.get(&worker.id).map(said).unwrap_or_default()));
        }
        row.push(cell(&worker.branch));
        row
    };
    let rows: Vec<Vec<Cell>> = view.workers.iter().map(row).collect();
    let mut head = vec!["Worker", "Status", "Task", "Pid"];
    head.extend(show.details.map(|_| "Ports"));
    head.extend(containers.map(|_| "Container"));
    let mut shrinking = vec![head.len()];
    if has_activity {
        head.push("Doing");
        shrinking.push(head.len());
    }
    head.push("Branch");
    columns(&head, &rows, &shrinking, show.columns, show.paint)
}

fn logs(details: &Details, show: Show<'_>) -> Option<String> {
    let zone = TimeZone::system();
    let line = |record: &LogRecord| {
        let empty = LogRecord { message: String::new(), ..record.clone() };
        let room = show.columns.map(|columns| columns.saturating_sub(width(&render_record(&empty, &zone, Paint::OFF))));
        let message = fit(&command_line(&record.message), room.unwrap_or(usize::MAX));
        render_record(&LogRecord { message, ..empty }, &zone, show.paint) + "\n"
    };
    let lines: String = details.logs.values().flatten().map(line).collect();
    (!lines.is_empty()).then(|| format!("{}\n{lines}", show.paint.apply(Style::Strong, "Latest logs")))
}

fn attempts(view: &RunView, show: Show<'_>) -> Option<String> {
    let mut text = format!("{}\n", show.paint.apply(Style::Strong, "Attempts"));
    let before = text.len();
    for task in &view.tasks {
        for attempt in &task.attempts {
            text.push_str(&about_attempt(view, task, attempt, show));
        }
    }
    (text.len() > before).then_some(text)
}

fn about_attempt(view: &RunView, task: &TaskView, attempt: &AttemptView, show: Show<'_>) -> String {
    let ended = outcome(attempt.outcome, attempt.cause);
    let mut text = format!(
        "{} attempt {}: {}, worker {}, {}{}\n",
        task.id,
        attempt.attempt,
        show.paint.apply(style_of(attempt.outcome), ended),
        attempt.worker,
        human_duration(attempt_took(view, attempt, show.now)),
        cost_phrase(attempt.cost).map(|cost| format!(", {cost}")).unwrap_or_default(),
    );
    if !attempt.strays.is_empty() {
        text.push_str(&format!("  changed without owning it: {}\n", few(&attempt.strays)));
    }
    for warning in &attempt.warnings {
        text.push_str(&format!("  {}\n", one_line(warning)));
    }
    let work = show.details.and_then(|details| details.work.get(&(task.id.clone(), attempt.attempt)));
    if let Some(command) = work {
        text.push_str(&format!("  work kept: {command}\n"));
    }
    text
}

/// Formats the problems of the task list; `None` if there are none.
fn task_list(list: &ListView, show: Show<'_>) -> Option<String> {
    let mut lines: Vec<String> = list.trouble.iter().map(|trouble| one_line(trouble)).collect();
    lines.extend(list.shown_instead.as_ref().map(|other| {
        let id = &list.id;
        format!("this session shows the list {other}; start it with CLAUDE_CODE_TASK_LIST_ID={id} to see that of {id}")
    }));
    let differs = |mismatch: &Mismatch| {
        let Mismatch { task, ours, claude } = mismatch;
        format!("{task} is {} there, {ours} here", one_line(claude))
    };
    lines.extend(list.mismatches.iter().take(MAX_SHOWN_MISMATCHES).map(differs));
    let more = list.mismatches.len().saturating_sub(MAX_SHOWN_MISMATCHES);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines.extend((!list.mismatches.is_empty()).then(|| "what drives the run puts that right".to_string()));
    let head = show.paint.apply(Style::Strong, "Task list in Claude Code");
    (!lines.is_empty()).then(|| format!("{head}\n{}\n", lines.join("\n")))
}

/// Returns the command that continues a run which has ended and which nothing blocks.
fn next(view: &RunView) -> Option<String> {
    let goes_on = view.status == "paused" && view.ended_at.is_some();
    goes_on.then(|| format!("Next: mahabharatha run {}\n", view.feature))
}

fn blockers(view: &RunView, show: Show<'_>) -> Option<String> {
    if view.blockers.is_empty() {
        return None;
    }
    let mut text = format!("{}\n", show.paint.apply(Style::Strong, "Blockers"));
    for blocker in view.blockers.iter() {
        let what = show.paint.apply(Style::Bad, &one_line(&blocker.to_string()));
        text.push_str(&format!("{what}\n  {}\n", one_line(&blocker.resolution)));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::run::Event;
    use mahabharatha_core::run::event::{Command, FailCause, JobEnd, Policy};

    use super::super::support::{START, Story, failed, id};
    use super::*;

    fn shown(story: &mut Story, details: Option<&Details>, columns: Option<usize>) -> String {
        shown_on(story, details, columns, false)
    }

    fn shown_on(story: &mut Story, details: Option<&Details>, columns: Option<usize>, for_screen: bool) -> String {
        let (now, doing) = (story.after(3.0).now, BTreeMap::new());
        status_text(
            &story.view(),
            Show { now, list: None, doing: &doing, gate: None, details, columns, for_screen, paint: Paint::OFF },
        )
    }

    #[test]
    fn text_for_users() {
        insta::assert_snapshot!(shown(&mut Story::stuck(), None, Some(80)));
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
        let work = [((id("TASK-001"), 1), "git show refs/mahabharatha/tables/wip/TASK-001/1".to_string())].into();
        let details = Details { ports: [(0, vec![49_152, 49_153])].into(), work, ..Details::default() };
        insta::assert_snapshot!(shown(&mut story, Some(&details), None));
    }

    #[test]
    fn a_screen_shows_blockers_and_workers_before_the_rest() {
        let text = shown_on(&mut Story::stuck(), None, Some(80), true);
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in\n{text}"));
        let order = ["tables: ", "Blockers", "Worker  Status", "Level  Status", "Task      Title"].map(place);
        assert!(order.is_sorted(), "{text}");
    }

    /// The documented example, with one value of each alternative.
    const CONTRACT: &str = r#"
        {"feature":"x","status":"running","mode":"subprocess","level":1,
         "levels":[{"level":1,"status":"pending","total":8,"completed":3,"blocked":0,"commit":null}],
         "tasks":[{"id":"TASK-001","title":"…","level":1,"status":"pending","worker":0,
                   "attempt":1,"started_at":"…","completed_at":null,"commit":null,"cost_usd":0.0,"tokens":0,"reason":null,"strays":[]}],
         "workers":[{"id":0,"status":"idle","task":"TASK-001","pid":123,"branch":"…"}],
         "mismatches":[{"task":"TASK-001","ours":"in_progress","claude":"completed"}],
         "cost_usd":0.0,"blockers":["…"]}"#;

    /// Asserts that every documented field exists, with a value of the same type or null.
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
    fn json_has_all_documented_fields() {
        let contract: Value = serde_json::from_str(CONTRACT).unwrap();
        let mut running = Story::unattended();
        running.base_is_green().starts("TASK-001").done("TASK-002");
        let mismatch = Mismatch { task: id("TASK-001"), ours: "in_progress", claude: "completed".to_string() };
        let list = ListView { id: "x".to_string(), mismatches: vec![mismatch], ..ListView::default() };
        for story in [running, Story::stuck(), Story::eventful()] {
            let status = json!(status_json(&mut story.view(), &BTreeMap::new(), None, &[], Some(&list)));
            assert_holds(&contract, &status, "");
            assert!(!status["tasks"].as_array().unwrap().is_empty());
        }
        let doing = Doing {
            phase: "agent",
            since: START,
            agent: "claude".to_string(),
            model: None,
            what: "editing src/x.rs".to_string(),
            tokens: 1_200,
        };
        let status = json!(status_json(&mut Story::stuck().view(), &[(0, doing)].into(), None, &[], None));
        assert_eq!(status["workers"][0]["tokens"], 1_200);
        assert_eq!(status["tasks"][0]["started_at"], "2026-01-26T10:30:02Z");
        assert_eq!(status["workers"][0]["doing"], "editing src/x.rs");
        assert_eq!(status["workers"][1]["doing"], Value::Null);
        assert_eq!(status["blockers"], json!(["TASK-001: The API <v2> is not there see docs"]));
        let problem = &status["problems"][0];
        assert_eq!(
            (&problem["kind"], &problem["text"]),
            (&json!("question"), &json!("The API <v2> is not there\nsee docs"))
        );
        assert_eq!((&problem["since"], &problem["holds"]), (&json!("2026-01-26T10:30:10Z"), &json!(["TASK-003"])));
        assert_eq!(problem["commands"][0], "mahabharatha retry -f tables TASK-001 --note \"…\"");
        assert_eq!((&status["workers"][0]["phase"], &status["workers"][1]["phase"]), (&json!("agent"), &Value::Null));
        assert_eq!(status["budget_usd"], 20.0);
    }

    #[test]
    fn a_task_without_budget_is_a_problem_of_that_kind() {
        let policy = Policy { max_usd_per_task: Some(0.5), ..super::super::support::policy() };
        let mut story = Story::of(policy, &[json!({"id": "T-1", "title": "t", "level": 1})]);
        story.base_is_green().starts("T-1").ends("T-1", failed(FailCause::Verification, "no", &[]));
        story.after(60.0).happens(Event::Woke).starts("T-1").ends("T-1", failed(FailCause::Verification, "no", &[]));
        assert_eq!(story.view().blockers[0].kind, "budget", "{:?}", story.view().blockers);
    }

    #[test]
    fn the_time_left_is_shown_only_if_it_is_known() {
        let tasks: Vec<Value> = (1..=6)
            .map(|number| json!({"id": format!("T-{number}"), "title": "t", "level": 1, "estimate_minutes": 10}))
            .collect();
        let mut story = Story::of(super::super::support::policy(), &tasks);
        story.base_is_green().starts("T-1").starts("T-2").after(60.0).done("T-1").done("T-2");
        assert_eq!(story.view().remaining, None, "two tasks say too little");
        story.starts("T-3").after(60.0).done("T-3");
        // Each took a minute instead of ten; two workers do the last three, one of which has begun.
        let left = story.view().remaining.map(|left| left.as_secs());
        assert_eq!(left, Some(60));
        story.ends("T-4", JobEnd::Blocked { reason: "which one?".to_string() });
        assert_eq!(story.view().remaining, None, "a person decides how long it takes");
    }

    #[test]
    fn a_cancelled_attempt_is_not_running() {
        let mut story = Story::unattended();
        story.base_is_green().starts("TASK-001");
        let (effect, _) = story.attempt("TASK-001");
        assert_eq!(story.view().tasks[0].attempts[0].outcome, "running");
        story.happens(Event::Cancelled { effect });
        assert_eq!(story.view().tasks[0].attempts[0].outcome, "cancelled");
    }
}
