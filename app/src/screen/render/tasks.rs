//! The list of tasks: one row for each, with what it does now.

use mahabharatha_core::view::TaskView;
use mahabharatha_engine::report::running_gate::BASE;
use mahabharatha_engine::report::text::headline;
use mahabharatha_sys::ui::{command_line, one_line, width};
use ratatui::style::Style;
use ratatui::text::Line;

use super::Frame;
use super::levels::counts;
use super::problems::word_of;
use crate::screen::look::Sign;
use crate::screen::rows::{Fold, Item, rows};
use crate::screen::state::top_for;
use crate::screen::text::{Row, clock, names, number, rule, tries, usd};

/// Widths of the columns; zero for those that there is no room for.
#[derive(Clone, Copy)]
struct Columns {
    id: usize,
    title: usize,
    level: usize,
    attempt: usize,
    worker: usize,
    time: usize,
    usd: usize,
}

impl Columns {
    fn of(frame: &Frame<'_>) -> Columns {
        let tasks = &frame.data.view.tasks;
        // Long identifiers of many tasks are not measured one by one.
        let longest = tasks.iter().take(2_000).map(|task| task.id.as_str().len()).max().unwrap_or(4);
        let wide = frame.width >= 100;
        let title = match frame.data.view.status {
            _ if wide => (frame.width / 4).min(34),
            // There is no more to say about what each task does now.
            "completed" | "designed" if frame.width >= 70 => frame.width * 2 / 5,
            _ => 0,
        };
        Columns {
            id: longest.clamp(9, if wide { 16 } else { 11 }),
            title,
            level: if frame.width >= 60 { 3 } else { 0 },
            attempt: if frame.width >= 70 { 4 } else { 0 },
            worker: if frame.width >= 75 { 4 } else { 0 },
            time: 8,
            usd: if wide { 7 } else { 0 },
        }
    }
}

/// Returns the rule, the heads and exactly this many rows.
pub fn tasks(frame: &Frame<'_>, heads: bool, room: usize) -> Vec<Line<'static>> {
    let items = rows(frame.data, frame.state, room);
    let columns = Columns::of(frame);
    let mut lines = vec![rule(frame.look.dim(), &label(frame), frame.width)];
    if heads {
        lines.push(head(frame, columns));
    }
    let selected = frame.state.selected(frame.data, &items);
    let top = top_for(selected, frame.state.top, items.len(), room);
    let below = items.len().saturating_sub(top + room);
    for (index, item) in items.iter().enumerate().skip(top).take(room) {
        let is_last = index + 1 == top + room;
        // What is below is told in the last row, unless the selection is there.
        if is_last && below > 0 && index != selected {
            lines.push(Row::new().add(frame.look.dim(), &format!("   {} more", number(below + 1))).fit(frame.width));
            continue;
        }
        lines.push(row(frame, columns, *item, index == selected));
    }
    let shown = items.len().saturating_sub(top).min(room);
    if items.is_empty() && room > 0 {
        let text =
            if frame.data.view.tasks.is_empty() { "   no tasks yet" } else { "   no task matches; Esc shows all" };
        lines.push(Row::new().add(frame.look.dim(), text).fit(frame.width));
    }
    lines.extend((shown.max(usize::from(items.is_empty()))..room).map(|_| Line::default()));
    lines
}

fn label(frame: &Frame<'_>) -> String {
    let (state, total) = (frame.state, frame.data.view.tasks.len());
    let mut label = match frame.is_compact() {
        true if total < 30 => String::new(),
        true => counts(frame.data),
        false if total < 30 => format!("tasks {}", number(total)),
        false => format!("tasks {}   {}", number(total), counts(frame.data)),
    };
    if state.problems_only {
        label.push_str("   problems only (p)");
    }
    if state.filtering || !state.filter.is_empty() {
        label.push_str(&format!("   /{}{}", state.filter, if state.filtering { "_" } else { "" }));
    }
    label
}

fn head(frame: &Frame<'_>, columns: Columns) -> Line<'static> {
    let dim = frame.look.dim();
    let row = Row::new().plain("   ").cell(dim, "task", columns.id).plain(" ").cell(dim, "title", columns.title);
    let row = row.right_cell(dim, "lv", columns.level).right_cell(dim, "try", columns.attempt + 1);
    let row = row.plain(" ").cell(dim, "wk", columns.worker).right_cell(dim, "time", columns.time);
    row.right_cell(dim, "usd", columns.usd).add(dim, "  now").fit(frame.width)
}

fn row(frame: &Frame<'_>, columns: Columns, item: Item, is_selected: bool) -> Line<'static> {
    let row = Row::new().plain(if is_selected { "❯" } else { " " });
    let row = match item {
        Item::Task(index) => task(frame, columns, &frame.data.view.tasks[index], row),
        Item::Gate => gate(frame, columns, row),
        Item::Fold(fold, count) => folded(frame, fold, count, row),
    };
    if !is_selected {
        return row.fit(frame.width);
    }
    let gap = frame.width.saturating_sub(row.width());
    let mut line = row.plain(&" ".repeat(gap)).fit(frame.width);
    line.spans.iter_mut().for_each(|span| span.style = span.style.patch(frame.look.selected()));
    line
}

fn task(frame: &Frame<'_>, columns: Columns, task: &TaskView, row: Row) -> Row {
    let (data, look) = (frame.data, frame.look);
    let sign = data.sign(task);
    let quiet = if matches!(sign, Sign::Pending | Sign::Skipped | Sign::Done) { look.dim() } else { Style::new() };
    let row =
        row.add(look.sign(sign), sign.symbol()).plain(" ").cell(Style::new(), task.id.as_str(), columns.id).plain(" ");
    if columns.level == 0 && sign == Sign::Asks {
        return row.add(look.sign(sign), "asks: ").plain(&one_line(task.question.as_deref().unwrap_or("for a person")));
    }
    let attempt = tries(task.attempt, data.view.max_attempts);
    let worker = task.running().filter(|_| task.session.is_none()).map(|attempt| format!("w{}", attempt.worker));
    let time = data.time_of(task, frame.now).map(clock).unwrap_or_default();
    let cost = if task.cost.is_zero() { String::new() } else { usd(task.cost) };
    let row = row.cell(quiet, &task.title, columns.title);
    let row = row.right_cell(quiet, &task.level.to_string(), columns.level);
    let row = row.right_cell(quiet, &attempt, columns.attempt + usize::from(columns.attempt > 0));
    let row = row.plain(" ").cell(quiet, &worker.unwrap_or_default(), columns.worker);
    let row = row.right_cell(quiet, &time, columns.time).right_cell(quiet, &cost, columns.usd);
    row.plain("  ").add(now_style(frame, sign), &now(frame, task, sign))
}

fn now_style(frame: &Frame<'_>, sign: Sign) -> Style {
    match sign {
        Sign::Asks | Sign::Failed => frame.look.sign(sign),
        Sign::Running | Sign::Verifying => Style::new(),
        _ => frame.look.dim(),
    }
}

/// Returns what a task does now, or what it waits for.
fn now(frame: &Frame<'_>, task: &TaskView, sign: Sign) -> String {
    let data = frame.data;
    let reason = || task.reason.as_deref().map(headline).unwrap_or_default();
    match sign {
        Sign::Asks => data
            .problem_of(task)
            .map_or("asks you", |blocker| match word_of(blocker) {
                "asks" => "asks you",
                word => word,
            })
            .to_string(),
        Sign::Failed | Sign::Skipped => reason(),
        Sign::Running | Sign::Verifying if task.running().is_some_and(|attempt| attempt.fix) => {
            let what = data.doing(task).map(|doing| one_line(&doing.what)).filter(|what| !what.is_empty());
            format!("fixes what a gate found{}", what.map(|what| format!(": {what}")).unwrap_or_default())
        }
        Sign::Verifying => format!("verification: {}", command_line(&task.spec.verification.command)),
        Sign::Running => match (data.doing(task), &task.session) {
            (_, Some(session)) => format!("session {}", one_line(session)),
            (Some(doing), _) if !doing.what.is_empty() => one_line(&doing.what),
            (Some(doing), _) => format!("{} works", one_line(&doing.agent)),
            (None, _) => "starting".to_string(),
        },
        Sign::Retries => {
            let left = task.next_attempt_at.map(|at| at.0.since(frame.now)).unwrap_or_default();
            format!("tries again in {}: {}", clock(std::time::Duration::from_secs(left.as_secs())), reason())
        }
        Sign::Warning => "orphaned; the next run continues it".to_string(),
        Sign::Done if task.attempt > 1 => format!("attempt {}", task.attempt),
        Sign::Pending => waiting(frame, task),
        _ => String::new(),
    }
}

fn waiting(frame: &Frame<'_>, task: &TaskView) -> String {
    let needs: Vec<&str> = frame.data.open_dependencies(task).collect();
    if !needs.is_empty() {
        return format!("waits for {}", names(needs.into_iter(), 4));
    }
    match frame.data.view.level {
        Some(level) if task.level > level => format!("waits for level {level}"),
        _ if frame.data.gate.as_ref().is_some_and(|gate| gate.running.at == BASE) => {
            "waits for the gates on the base branch".to_string()
        }
        _ if frame.data.driven => "waits for a worker".to_string(),
        _ => String::new(),
    }
}

fn gate(frame: &Frame<'_>, columns: Columns, row: Row) -> Row {
    let Some(gate) = &frame.data.gate else { return row };
    let look = frame.look;
    let running = &gate.running;
    let name = format!("gate {}", one_line(&running.gate));
    let is_level = running.at.parse::<u32>().is_ok();
    let row = row.add(look.sign(Sign::Verifying), "◐").plain(" ").cell(Style::new(), &name, columns.id).plain(" ");
    let row = row.cell(Style::new(), &command_line(&running.command), columns.title);
    let row = row.right_cell(Style::new(), if is_level { &running.at } else { "" }, columns.level);
    let row = row.right_cell(Style::new(), "", columns.attempt + usize::from(columns.attempt > 0));
    let row = row.plain(" ").cell(Style::new(), "", columns.worker).right_cell(
        Style::new(),
        &clock(gate.elapsed),
        columns.time,
    );
    let at = if is_level { String::new() } else { format!("on the {}: ", running.at) };
    let last = gate.last_line_or_command();
    row.right_cell(Style::new(), "", columns.usd).plain(&format!("  {at}{last}"))
}

fn folded(frame: &Frame<'_>, fold: Fold, count: usize, row: Row) -> Row {
    let (sign, word) = match fold {
        Fold::Pending => (Sign::Pending, "waiting"),
        Fold::Done if frame.data.view.levels.iter().any(|level| level.skipped > 0) => (Sign::Done, "done or skipped"),
        Fold::Done => (Sign::Done, "done"),
    };
    let text = format!(" {} {word}", number(count));
    let hint = if width(&text) + 20 < frame.width { "   (c shows them)" } else { "" };
    row.add(frame.look.sign(sign), sign.symbol()).plain(&text).add(frame.look.dim(), hint)
}
