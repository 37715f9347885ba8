//! Formats the plan that `run --dry-run` shows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use mahabharatha_core::estimate::Route;
use mahabharatha_core::graph::TaskGraph;
use mahabharatha_core::ids::{TaskId, WorkerId};
use mahabharatha_core::plan::{DEFAULT_ESTIMATE, LevelPlan, Plan, PlannedTask, TOKENS_PER_MINUTE};
use mahabharatha_sys::ui::{clean, fit, one_line};

use super::human_duration;
use super::text::count;

/// Formats every task, a chart per level, estimates for other numbers of workers, and every command of the repository
/// that a run would execute, each with where it is defined.
pub fn render_plan(plan: &Plan, graph: &TaskGraph, commands: &[(String, String)], width: usize) -> String {
    let width = width.clamp(60, 160);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Plan for {}: {}, {}, {}\n",
        graph.feature,
        count(graph.tasks().len(), "task"),
        count(plan.levels.len(), "level"),
        count(plan.workers as usize, "worker"),
    );
    for level in &plan.levels {
        write_level(&mut out, level, graph, width);
    }
    write_estimates(&mut out, plan, width);
    write_commands(&mut out, commands);
    out
}

/// Formats which agent each routed task begins with, and why.
pub fn render_routes(routes: &BTreeMap<TaskId, Route>) -> String {
    let width = routes.keys().map(|task| task.as_str().len()).max().unwrap_or(0);
    let mut out = String::from("\nAgents by agents.route:\n\n");
    for (task, Route { agent, reason }) in routes {
        let _ = writeln!(out, "  {:width$}  {}: {}", task.as_str(), one_line(agent), one_line(reason));
    }
    out
}

/// Formats how containers would be made, each heading with its lines.
pub fn render_containers(outline: &[(&'static str, Vec<String>)]) -> String {
    let mut out = String::from("\nContainers, one for each worker and one for staging:\n\n");
    for (heading, lines) in outline {
        for (number, line) in lines.iter().enumerate() {
            let heading = if number == 0 { heading } else { "" };
            let _ = writeln!(out, "  {heading:8} {}", one_line(line));
        }
    }
    out
}

fn write_level(out: &mut String, level: &LevelPlan, graph: &TaskGraph, width: usize) {
    let tasks = count(level.assignments.len() + level.foreground.len(), "task");
    let _ = writeln!(out, "Level {}: {tasks}, {}\n", level.level, human_duration(level.makespan));
    let ids = level.assignments.iter().map(|planned| &planned.task).chain(&level.foreground);
    let id_width = ids.map(|id| id.as_str().len()).max().unwrap_or(0).max("TASK".len());
    let title_width = width.saturating_sub(id_width + 24);
    let mut row = |id: &str, estimate: &str, worker: &str, title: &str| {
        let line = format!("  {id:id_width$}  {estimate:>8}  {worker:>6}  {}", fit(&one_line(title), title_width));
        let _ = writeln!(out, "{}", line.trim_end());
    };
    row("TASK", "ESTIMATE", "WORKER", "TITLE");
    let title = |id| graph.task(id).map_or("", |task| task.spec.title.as_str());
    for planned in &level.assignments {
        let estimate = human_duration(planned.end - planned.start);
        row(planned.task.as_str(), &estimate, &planned.worker.to_string(), title(&planned.task));
    }
    for id in &level.foreground {
        row(id.as_str(), "-", "person", title(id));
    }
    out.push('\n');
    if !level.assignments.is_empty() {
        write_chart(out, level, width);
    }
}

/// Writes one row per worker that has tasks, with its tasks in order.
fn write_chart(out: &mut String, level: &LevelPlan, width: usize) {
    let mut rows: Vec<Vec<&PlannedTask>> = Vec::new();
    for planned in &level.assignments {
        let WorkerId(worker) = planned.worker;
        rows.resize(rows.len().max(worker as usize + 1), Vec::new());
        rows[worker as usize].push(planned);
    }
    let name_width = format!("worker {}", rows.len() - 1).len();
    let columns = width - name_width - 4;
    let column = |time: Duration| {
        (time.as_secs_f64() / level.makespan.as_secs_f64().max(f64::MIN_POSITIVE) * columns as f64).round() as usize
    };
    for (worker, tasks) in rows.iter().enumerate() {
        let bars: String =
            tasks.iter().map(|task| bar(task.task.as_str(), column(task.end) - column(task.start))).collect();
        let _ = writeln!(out, "  {:name_width$}  {bars}", format!("worker {worker}"));
    }
    let end = human_duration(level.makespan);
    let _ = writeln!(out, "  {:name_width$}  0{end:>rest$}\n", "", rest = columns - 1);
}

fn bar(name: &str, width: usize) -> String {
    match width {
        0 => String::new(),
        1 => "│".to_owned(),
        _ => {
            let inside = width - 2;
            let label = if name.len() + 2 <= inside { format!(" {name} ") } else { String::new() };
            format!("├{label:─<inside$}┤")
        }
    }
}

fn write_estimates(out: &mut String, plan: &Plan, width: usize) {
    out.push_str("Estimated time by levels\n");
    for alternative in &plan.alternatives {
        let remark = match (alternative.workers == plan.workers, alternative.workers == plan.best_workers) {
            (true, true) => "  this run, and more workers would not be faster",
            (true, false) => "  this run",
            (false, true) => "  more workers would not be faster",
            (false, false) => "",
        };
        let workers = count(alternative.workers as usize, "worker");
        let _ = writeln!(out, "  {workers:>11}  {:>8}{remark}", human_duration(alternative.total));
    }
    let _ = writeln!(
        out,
        "\nSchedules      levels {}, dependencies {}",
        human_duration(plan.schedules.levels),
        human_duration(plan.schedules.dependencies)
    );
    let path: Vec<&str> = plan.critical_path.tasks.iter().map(|id| id.as_str()).collect();
    let _ = writeln!(out, "Critical path  {}", human_duration(plan.critical_path.length));
    for line in wrap(&path, " → ", width - 2) {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(
        out,
        "Lower bound    {}\n  the critical path, or the work of {} shared evenly ({}), whichever is longer\n",
        human_duration(plan.lower_bound),
        human_duration(plan.work),
        human_duration(plan.work / plan.workers),
    );
    let _ = writeln!(
        out,
        "Estimates: a task's own minutes, else {TOKENS_PER_MINUTE} of its tokens a minute, else {}.\n\
         Gates, merges and what waits for a person are not counted.\n",
        human_duration(DEFAULT_ESTIMATE),
    );
}

fn write_commands(out: &mut String, commands: &[(String, String)]) {
    out.push_str("Commands of the repository that this run would execute\n");
    if commands.is_empty() {
        out.push_str("  none\n");
    }
    let commands: Vec<(String, &String)> = commands.iter().map(|(place, command)| (one_line(place), command)).collect();
    let place_width = commands.iter().map(|(place, _)| place.chars().count()).max().unwrap_or(0);
    for (place, command) in &commands {
        let mut place = place.as_str();
        for line in command.trim_end().lines() {
            let _ = writeln!(out, "  {place:place_width$}  {}", clean(line));
            place = "";
        }
    }
}

/// Joins words with `separator` and breaks lines at `width`.
fn wrap(words: &[&str], separator: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + separator.chars().count() + word.len() <= width => {
                line.push_str(separator);
                line.push_str(word);
            }
            Some(line) => {
                line.push_str(separator.trim_end());
                lines.push((*word).to_owned());
            }
            None => lines.push((*word).to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::graph::Rules;
    use mahabharatha_core::spec::GraphFile;
    use serde_json::{Value, json};

    use super::*;

    fn graph(tasks: Value) -> TaskGraph {
        let file = GraphFile::parse(&json!({ "feature": "user-auth", "tasks": tasks }).to_string()).unwrap();
        let (graph, problems) = TaskGraph::check(&file, None, Rules::default());
        graph.unwrap_or_else(|| panic!("{problems:?}"))
    }

    fn task(id: &str, level: u32, minutes: f64, dependencies: &[&str], title: &str) -> Value {
        json!({
            "id": id, "title": title, "level": level, "estimate_minutes": minutes, "dependencies": dependencies,
            "files": { "create": [format!("{id}.txt")] },
        })
    }

    #[test]
    fn a_plan_shows_tasks_charts_estimates_and_commands() {
        let mut approval = task("APPROVE", 2, 5.0, &["TASK-001"], "Approve the schema");
        approval["foreground"] = true.into();
        let graph = graph(json!([
            task("TASK-001", 1, 10.0, &[], "Create data models"),
            task("TASK-002", 1, 2.5, &[], "Settings"),
            task(
                "TASK-003",
                1,
                6.0,
                &[],
                "A title that is much longer than a table on a terminal of this width has room for"
            ),
            task("TASK-004", 1, 0.05, &[], "Tiny\u{202e}"),
            task("TASK-005", 2, 20.0, &["TASK-001", "TASK-003"], "API"),
            approval,
        ]));
        let commands = [
            ("verification of TASK-001".to_owned(), "pytest tests/test_models.py".to_owned()),
            ("gate lint".to_owned(), "set -e\nruff check . \u{202e}\n".to_owned()),
        ];
        insta::assert_snapshot!(render_plan(&Plan::new(&graph, 2), &graph, &commands, 80));
    }

    #[test]
    fn a_plan_with_too_many_workers_says_so() {
        let graph = graph(json!([task("a", 0, 1.0, &[], "a"), task("b", 3, 1.0, &["a"], "b")]));
        let text = render_plan(&Plan::new(&graph, 4), &graph, &[], 0);
        assert!(text.contains("   1 worker        2m  more workers would not be faster\n"), "{text}");
        assert!(text.contains("  4 workers        2m  this run\n"), "{text}");
        assert!(text.contains("execute\n  none\n"), "{text}");
    }

    #[test]
    fn charts_stay_within_the_width() {
        let tasks: Vec<Value> = (0..300).map(|n| task(&format!("T{n}"), 0, f64::from(n % 7 + 1), &[], "t")).collect();
        let graph = graph(tasks.into());
        for workers in [1, 3, 100, 400] {
            let text = render_plan(&Plan::new(&graph, workers), &graph, &[], 100);
            let charts: Vec<&str> = text.lines().filter(|line| line.starts_with("  worker ")).collect();
            assert_eq!(charts.len(), workers.min(300) as usize);
            assert!(charts.iter().all(|line| line.chars().count() <= 100), "{text}");
        }
    }

    #[test]
    fn a_long_critical_path_is_wrapped() {
        assert_eq!(wrap(&["aa", "bb", "cc"], " → ", 8), ["aa → bb →", "cc"]);
    }
}
