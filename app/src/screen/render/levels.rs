//! The second line: the levels from the first to the last, with their tasks, gates and merges.

use mahabharatha_core::view::LevelView;
use ratatui::text::Line;

use super::Frame;
use crate::observe::{self, Data};
use crate::screen::look::Sign;
use crate::screen::text::{Row, clock, number};

/// Most tasks of a level that have a sign each.
const MAX_SIGNS: usize = 12;
const METER_COLUMNS: usize = 16;

#[derive(Clone, Copy, PartialEq)]
enum Size {
    Long,
    Middle,
    Short,
}

pub fn levels(frame: &Frame<'_>) -> Line<'static> {
    let all = &frame.data.view.levels;
    let sizes = [Size::Long, Size::Middle, Size::Short];
    let (whole, folded) = (singles(all), folded(all));
    let ways = sizes.map(|size| (size, &whole));
    // Levels with many tasks say more if those that are over or to come are put together.
    let few = all.len() <= 4 || folded.len() == whole.len();
    let ways: Vec<_> = match few {
        true => ways.to_vec(),
        false => vec![ways[0], ways[1], (Size::Middle, &folded), ways[2], (Size::Short, &folded)],
    };
    let mut rows: Vec<Row> = ways.into_iter().map(|(size, groups)| row(frame, size, groups)).collect();
    let fits = rows.iter().position(|row| row.width() <= frame.width);
    let chosen = fits.unwrap_or(rows.len() - 1);
    rows.swap_remove(chosen).fit(frame.width)
}

fn singles(levels: &[LevelView]) -> Vec<&[LevelView]> {
    levels.chunks(1).collect()
}

/// Puts merged levels together, and levels that have not begun.
fn folded(levels: &[LevelView]) -> Vec<&[LevelView]> {
    levels
        .chunk_by(|one, next| {
            one.status == next.status && matches!(one.status, "merged" | "skipped" | "pending" | "undone")
        })
        .collect()
}

fn row(frame: &Frame<'_>, size: Size, groups: &[&[LevelView]]) -> Row {
    let mut row = Row::new().plain(" ");
    for (index, group) in groups.iter().enumerate() {
        if index > 0 {
            let merged = groups[index - 1].last().is_some_and(|level| matches!(level.status, "merged" | "skipped"));
            let (sign, style) = match merged {
                true => ("◆", frame.look.sign(Sign::Done)),
                false => ("◇", frame.look.dim()),
            };
            let dashes = match size {
                Size::Long => "──",
                Size::Middle => "─",
                Size::Short => "",
            };
            row =
                row.plain(" ").add(frame.look.dim(), dashes).add(style, sign).add(frame.look.dim(), dashes).plain(" ");
        }
        row = row.join(level(frame, size, group));
    }
    row
}

fn level(frame: &Frame<'_>, size: Size, group: &[LevelView]) -> Row {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return Row::new() };
    let (look, is_short) = (frame.look, size == Size::Short);
    let sign = if first.awaits_approval.is_some() { Sign::Asks } else { sign_of(first) };
    let (completed, total) = observe::progress(group);
    let name = if group.len() > 1 { format!("L{}-L{}", first.level, last.level) } else { format!("L{}", first.level) };
    let mut row = Row::new();
    let shows_signs = first.status == "running" && !is_short && group.len() == 1;
    if !shows_signs || first.total > MAX_SIGNS {
        row = row.add(look.sign(sign), sign.symbol()).plain(if is_short { "" } else { " " });
    }
    row = row.plain(&name);
    if size == Size::Long && first.status == "merged" {
        row = row.add(look.dim(), " merged");
    }
    if shows_signs {
        row = row.plain(" ").join(progress(frame, first));
    }
    row = match (is_short, first.status) {
        (true, "merged") => row,
        _ if group.len() > 1 => row.add(look.dim(), &format!(" {}", number(total))),
        _ => row.add(look.dim(), &format!(" {}/{}", number(completed), number(total))),
    };
    match &frame.data.gate {
        Some(gate) if group.iter().any(|level| level.level.to_string() == gate.running.at) => {
            let gap = if size == Size::Long { "  " } else { " " };
            let text = format!("{} {}", gate.running.gate, clock(gate.elapsed));
            row.plain(gap).add(look.sign(Sign::Verifying), "◐ ").plain(&text)
        }
        _ if first.awaits_approval.is_some() => row.plain(" ").add(look.sign(Sign::Asks), "? approval"),
        _ => row,
    }
}

fn sign_of(level: &LevelView) -> Sign {
    match level.status {
        "merged" => Sign::Done,
        "failed" => Sign::Failed,
        "merging" | "gating" => Sign::Verifying,
        "undone" | "skipped" => Sign::Skipped,
        "running" => Sign::Running,
        _ => Sign::Pending,
    }
}

/// Shows the tasks of a level: a sign for each, or a meter if there are many.
fn progress(frame: &Frame<'_>, level: &LevelView) -> Row {
    let (data, look) = (frame.data, frame.look);
    let tasks = || data.view.tasks.iter().filter(|task| task.level == level.level);
    if level.total <= MAX_SIGNS {
        let mut signs: Vec<Sign> = tasks().map(|task| data.sign(task)).collect();
        signs.sort_by_key(|sign| order(*sign));
        return signs.into_iter().fold(Row::new(), |row, sign| row.add(look.sign(sign), sign.symbol()));
    }
    let part = |count: usize| count * METER_COLUMNS / level.total.max(1);
    let running = tasks().filter(|task| task.running().is_some()).count();
    let done = part(level.completed + level.skipped);
    let active = part(running).max(usize::from(running > 0)).min(METER_COLUMNS - done);
    Row::new()
        .add(look.sign(Sign::Done), &"█".repeat(done))
        .add(look.sign(Sign::Running), &"▓".repeat(active))
        .add(look.dim(), &"░".repeat(METER_COLUMNS - done - active))
}

/// From what is done to what waits.
fn order(sign: Sign) -> u8 {
    match sign {
        Sign::Done => 0,
        Sign::Skipped => 1,
        Sign::Verifying | Sign::Running => 2,
        Sign::Retries => 3,
        Sign::Asks | Sign::Failed => 4,
        _ => 5,
    }
}

/// Returns the counts of tasks by sign: `▸ 20  ↻ 2  · 422  ✓ 553`.
pub fn counts(data: &Data) -> String {
    let mut found = [0; Sign::OF_TASKS.len()];
    for task in &data.view.tasks {
        let sign = data.sign(task);
        if let Some(at) = Sign::OF_TASKS.iter().position(|known| *known == sign) {
            found[at] += 1;
        }
    }
    let shown = Sign::OF_TASKS.iter().zip(found).filter(|(_, count)| *count > 0);
    shown.map(|(sign, count)| format!("{} {}", sign.symbol(), number(count))).collect::<Vec<_>>().join("  ")
}
