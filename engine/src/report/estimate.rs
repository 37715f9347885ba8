//! `estimate`: how long a feature takes and what it costs, against what it took.

use std::time::Duration;

use mahabharatha_core::cost::Cost;
use mahabharatha_core::estimate::{
    Actual, Basis, CostRange, Estimate, Figures, LevelEstimate, MIN_SAMPLES, Pool, ROUNDS, Tally, Wall,
};
use mahabharatha_sys::ui::{Paint, Style, one_line};

use super::columns::{Cell, cell, columns};
use super::human_duration;
use super::markdown;
use super::text::{amount, count};

/// Formats an estimate.
pub fn render_estimate(feature: &str, estimate: &Estimate, limit: Option<usize>, paint: Paint) -> String {
    let tasks: usize = estimate.levels.iter().map(|level| level.tasks).sum();
    let mut text = format!(
        "{}: {} on {}, {}\n\n",
        paint.apply(Style::Strong, feature),
        count(tasks, "task"),
        count(estimate.levels.len(), "level"),
        count(estimate.workers as usize, "worker"),
    );
    text.push_str(&figures_table(estimate, limit, paint));
    text.push('\n');
    text.push_str(&workers_table(estimate, limit, paint));
    let path: Vec<&str> = estimate.critical_path.tasks.iter().map(|id| id.as_str()).collect();
    text.push_str(&format!("\nCritical path: {}\n{}", path.join(" → "), basis(estimate)));
    if !estimate.agents.is_empty() {
        let rows: Vec<Vec<Cell>> = tallied(&estimate.agents).map(|row| row.map(cell).into()).collect();
        text.push_str(&format!("\nAttempts of earlier runs\n{}", columns(&TALLIED, &rows, &[0, 1], limit, paint)));
    }
    text
}

fn figures_table(estimate: &Estimate, limit: Option<usize>, paint: Paint) -> String {
    let row = |name: String, tasks: usize, figures: &Figures| -> Vec<Cell> {
        let Figures { work, critical_path, wall, cost } = figures;
        let mut row = vec![cell(name), cell(tasks), cell(human_duration(*work)), cell(human_duration(*critical_path))];
        row.extend(wall_cells(wall));
        row.extend([cell(usd(cost.p50_usd)), cell(usd(cost.p90_usd))]);
        row
    };
    let levels = estimate.levels.iter();
    let mut rows: Vec<Vec<Cell>> =
        levels.map(|level| row(level.level.to_string(), level.tasks, &level.figures)).collect();
    let tasks = estimate.levels.iter().map(|level| level.tasks).sum();
    rows.push(row("total".to_owned(), tasks, &estimate.total));
    let head = ["Level", "Tasks", "Work", "Critical path", "Estimate", "P50", "P90", "Cost P50", "Cost P90"];
    columns(&head, &rows, &[], limit, paint)
}

fn workers_table(estimate: &Estimate, limit: Option<usize>, paint: Paint) -> String {
    let rows: Vec<Vec<Cell>> = estimate
        .by_workers
        .iter()
        .map(|by| {
            let remark = match (by.workers == estimate.workers, by.workers == estimate.best_workers) {
                (true, true) => "this estimate, and the best",
                (true, false) => "this estimate",
                (false, true) => "the best: each further one saves less than 5 %",
                (false, false) => "",
            };
            let mut row = vec![cell(by.workers)];
            row.extend(wall_cells(&by.wall));
            row.push(cell(remark));
            row
        })
        .collect();
    columns(&["Workers", "Estimate", "P50", "P90", ""], &rows, &[4], limit, paint)
}

fn wall_cells(wall: &Wall) -> [Cell; 3] {
    [cell(human_duration(wall.plain)), cell(duration(wall.p50)), cell(duration(wall.p90))]
}

fn duration(duration: Option<Duration>) -> String {
    duration.map_or("-".to_owned(), human_duration)
}

fn usd(usd: Option<f64>) -> String {
    cost(usd.map_or(Cost::unknown(), |usd| Cost::of(Some(usd), 0)))
}

fn cost(cost: Cost) -> String {
    if cost.usd() == Some(0.0) { "0".to_owned() } else { amount(cost) }
}

/// Says what the figures rest on.
fn basis(estimate: &Estimate) -> String {
    let people: usize = estimate.levels.iter().map(|level| level.foreground).sum();
    let mut text = String::new();
    if people > 0 {
        text.push_str(&format!("{} for a person: not counted\n", count(people, "task")));
    }
    if !estimate.has_history() {
        text.push_str("No history: no agent had completed a task of another feature, so there are no percentiles.\n");
        return text;
    }
    text.push_str(&format!("P50 and P90: {ROUNDS} simulated runs, based on what earlier runs took\n"));
    for pool in &estimate.pools {
        text.push_str(&format!("  {}\n", pool_line(pool)));
    }
    text.push_str(&format!("  merges and gates: {}\n", count(estimate.integration_samples, "merged level")));
    text
}

fn pool_line(pool: &Pool) -> String {
    let model = pool.by.model.as_deref().map(|model| format!(" ({model})")).unwrap_or_default();
    let from = match pool.basis {
        Basis::AgentAndModel => "of this agent and model".to_owned(),
        Basis::Agent => format!("of this agent, since fewer than {MIN_SAMPLES} are of this model"),
        Basis::All => format!("of all agents, since fewer than {MIN_SAMPLES} are of this one"),
        Basis::None => "at all".to_owned(),
    };
    let cost = match pool.cost_samples {
        0 => "none with a known cost".to_owned(),
        costs => format!("costs from {costs}"),
    };
    let (agent, tasks) = (one_line(&pool.by.agent), count(pool.tasks, "task"));
    format!("{agent}{}: {tasks}, from {} {from}; {cost}", one_line(&model), count(pool.samples, "sample"))
}

/// Formats an estimate against what the run took, for a terminal.
pub fn render_comparison(estimate: &Estimate, actual: &Actual, limit: Option<usize>, paint: Paint) -> String {
    let rows: Vec<Vec<Cell>> = compared(estimate, actual).map(|row| row.map(cell).into()).collect();
    let state = if actual.completed { "" } else { ", which is not completed" };
    let title = format!("Estimate by the history before the run{state}");
    format!("{}\n{}", paint.apply(Style::Strong, &title), columns(&COMPARED, &rows, &[], limit, paint))
}

/// Formats the same for `COMPLETION.md`.
pub fn comparison_table(estimate: &Estimate, actual: &Actual) -> String {
    let rows: Vec<Vec<String>> = compared(estimate, actual).map(Vec::from).collect();
    markdown::table(&COMPARED, &rows)
}

/// Formats what the attempts of each agent and model came to, for `COMPLETION.md`.
pub fn agents_table(tallies: &[Tally]) -> String {
    markdown::table(&TALLIED, &tallied(tallies).map(Vec::from).collect::<Vec<_>>())
}

const TALLIED: [&str; 6] = ["Agent", "Model", "Attempts", "Passed", "Mean time", "Mean cost"];

fn tallied(tallies: &[Tally]) -> impl Iterator<Item = [String; 6]> + '_ {
    tallies.iter().map(|tally| {
        let Tally { by, attempts, passed, success_rate, mean_time, mean_usd } = tally;
        [
            one_line(&by.agent),
            by.model.as_deref().map_or("-".to_owned(), one_line),
            attempts.to_string(),
            format!("{passed} ({:.0} %)", success_rate * 100.0),
            human_duration(*mean_time),
            usd(*mean_usd),
        ]
    })
}

const COMPARED: [&str; 8] = ["Level", "Estimate", "P50", "P90", "Took", "Cost P50", "Cost P90", "Cost"];

fn compared<'a>(estimate: &'a Estimate, actual: &'a Actual) -> impl Iterator<Item = [String; 8]> + 'a {
    let took = |level: &LevelEstimate| {
        let actual = actual.levels.iter().find(|actual| actual.level == level.level)?;
        actual.merged.map(|_| (actual.wall, actual.cost))
    };
    let levels = estimate.levels.iter().map(move |level| {
        let figures = &level.figures;
        compared_row(level.level.to_string(), &figures.wall, &figures.cost, took(level))
    });
    let total = || {
        compared_row("total".to_owned(), &estimate.total.wall, &estimate.total.cost, Some((actual.wall, actual.cost)))
    };
    levels.chain(std::iter::once_with(total))
}

fn compared_row(name: String, wall: &Wall, cost: &CostRange, took: Option<(Duration, Cost)>) -> [String; 8] {
    let (took, paid) = took.unzip();
    [
        name,
        human_duration(wall.plain),
        duration(wall.p50),
        duration(wall.p90),
        duration(took),
        usd(cost.p50_usd),
        usd(cost.p90_usd),
        paid.map_or("-".to_owned(), self::cost),
    ]
}
