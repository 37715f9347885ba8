//! The first line: which feature, its state, time, progress and cost.

use mahabharatha_engine::report::human_duration;
use ratatui::text::Line;

use super::Frame;
use crate::observe::progress;
use crate::screen::look::Sign;
use crate::screen::text::{Row, clock, number, tokens, usd};

const METER_COLUMNS: usize = 10;

pub fn header(frame: &Frame<'_>) -> Line<'static> {
    let (data, look) = (frame.data, frame.look);
    let view = &data.view;
    let (sign, word) = data.state();
    let wide = frame.width >= 70;
    let mut left = Row::new().plain(" ").add(look.strong(), &view.feature);
    left = left.plain(if wide { "  " } else { " " }).add(look.sign(sign), sign.symbol());
    let time = match sign {
        _ if !data.has_begun() => String::new(),
        Sign::Done => human_duration(data.elapsed(frame.now)),
        _ => clock(data.elapsed(frame.now)),
    };
    left = match (wide, sign) {
        (true, Sign::Done) => left.add(look.sign(sign), " completed").plain(&format!(" in {time}")),
        (true, _) => left.add(look.sign(sign), &format!(" {word}")).plain(&format!("  {time}")),
        (false, _) => left.plain(&format!(" {time}")),
    };
    // An estimate of less than a minute is not worth the space.
    if let Some(remaining) = view.remaining.filter(|left| wide && data.driven && left.as_secs() >= 60) {
        left = left.add(look.dim(), &format!("  ~{} left", rough(remaining)));
    }
    let mut right = facts(frame);
    // The least important facts go first.
    while right.len() > 1 && left.width() + 3 + width_of(&right) > frame.width {
        right.remove(least_important(&right));
    }
    let right = right.into_iter().fold(Row::new(), |row, (_, fact)| {
        let gap = if row.0.is_empty() { "" } else { "  " };
        row.plain(gap).join(fact)
    });
    left.against(right.plain(" "), frame.width)
}

/// Returns the facts at the right with their importance, the most important having the highest.
fn facts(frame: &Frame<'_>) -> Vec<(u8, Row)> {
    let (data, look) = (frame.data, frame.look);
    let view = &data.view;
    let wide = frame.width >= 100;
    let (completed, all) = progress(&view.levels);
    let done = format!("{}/{}", number(completed), number(all));
    let mut facts = vec![(9, Row::new().plain(&if wide { format!("{done} done") } else { done }))];
    if data.driven {
        let workers = view.workers.iter().filter(|worker| worker.status != "stopped").count();
        facts.push((3, Row::new().plain(&format!("{}/{workers} workers", data.running_workers()))));
    }
    let live: u64 = data.doing.values().map(|doing| doing.tokens).sum();
    let all = view.cost.tokens() + live;
    if all > 0 {
        facts.push((2, Row::new().plain(&format!("{} tokens", tokens(all)))));
    }
    let cost = usd(view.cost);
    let Some(budget) = view.budget_usd.filter(|budget| *budget > 0.0) else {
        facts.push((8, Row::new().plain(&cost)));
        return facts;
    };
    let whole = if budget.fract() == 0.0 { format!("{budget:.0}") } else { format!("{budget:.2}") };
    let money = if frame.width < 60 { format!("{cost}/{whole}") } else { format!("{cost} of ${whole}") };
    let used = view.cost.known_usd() / budget;
    let style = if used >= 0.9 { look.sign(Sign::Warning) } else { look.dim() };
    let full = ((used * METER_COLUMNS as f64).round() as usize).min(METER_COLUMNS);
    facts.push((8, Row::new().plain(&money)));
    if wide {
        let meter = format!("{}{}", "█".repeat(full), "░".repeat(METER_COLUMNS - full));
        facts.push((1, Row::new().add(style, &meter)));
    }
    facts
}

fn width_of(facts: &[(u8, Row)]) -> usize {
    facts.iter().map(|(_, fact)| fact.width() + 2).sum()
}

fn least_important(facts: &[(u8, Row)]) -> usize {
    (0..facts.len()).min_by_key(|&index| facts[index].0).unwrap_or(0)
}

/// Formats an estimate in whole minutes.
fn rough(duration: std::time::Duration) -> String {
    let minutes = duration.as_secs().div_ceil(60).max(1);
    match minutes {
        0..60 => format!("{minutes}m"),
        _ => format!("{}h {:02}m", minutes / 60, minutes % 60),
    }
}

/// Returns the only line of a screen that is too small for more.
pub fn one_line(frame: &Frame<'_>) -> Line<'static> {
    let data = frame.data;
    let (sign, word) = data.state();
    let row = Row::new().add(frame.look.strong(), &data.view.feature);
    let (completed, all) = progress(&data.view.levels);
    let row = row.plain(&format!(" {completed}/{all} "));
    let row = match data.view.blockers.first() {
        Some(blocker) => row.add(frame.look.sign(Sign::Asks), "? ").plain(&blocker.what),
        None => row.add(frame.look.sign(sign), sign.symbol()).plain(" ").plain(word),
    };
    row.fit(frame.width)
}
