//! The strip at the bottom: what each worker did when, gates and merges.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use mahabharatha_core::ids::Time;
use mahabharatha_core::view::{AttemptView, TaskView};
use ratatui::style::Style;
use ratatui::text::{Line, Span as Part};

use super::Frame;
use super::overview::sign_of;
use crate::screen::look::{Look, Sign};
use crate::screen::state::Span;
use crate::screen::text::{clock, number, rule};

const LABEL_COLUMNS: usize = 6;
/// Most workers that have a line each.
const MAX_LANES: usize = 8;
const BUSY: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The part of the run that is shown, by columns.
struct Scale {
    from: Time,
    to: Time,
    columns: usize,
}

impl Scale {
    fn of(frame: &Frame<'_>) -> Scale {
        let view = &frame.data.view;
        let to = if frame.data.driven { frame.now } else { view.updated_at.0 };
        let span = match frame.state.span {
            Span::All => to.since(view.started_at.0),
            Span::Hour => Duration::from_secs(3_600),
            Span::TenMinutes => Duration::from_secs(600),
        };
        let span = span.min(to.since(view.started_at.0)).max(Duration::from_secs(1));
        let from = Time(to.0 - span.as_millis() as i64);
        Scale { from, to, columns: frame.width.saturating_sub(LABEL_COLUMNS + 1) }
    }

    fn span(&self) -> Duration {
        self.to.since(self.from)
    }

    /// Returns the column of a time; what is outside is at the edge.
    fn column(&self, time: Time) -> usize {
        let share = time.since(self.from).as_secs_f64() / self.span().as_secs_f64();
        ((share * (self.columns - 1) as f64) as usize).min(self.columns - 1)
    }
}

/// Returns the rule, the lanes and the axis in at most this many lines; nothing if there is too little room.
pub fn timeline(frame: &Frame<'_>, room: usize) -> Vec<Line<'static>> {
    let workers: BTreeSet<u32> =
        frame.data.view.tasks.iter().flat_map(|task| &task.attempts).map(|attempt| attempt.worker).collect();
    if room < 5 || workers.is_empty() || frame.width < 60 {
        return Vec::new();
    }
    let scale = Scale::of(frame);
    let lanes = (room - 3).min(MAX_LANES);
    let mut lines = Vec::new();
    let what = if workers.len() > lanes { "workers busy, " } else { "" };
    let span = match frame.state.span {
        Span::All => format!("the whole run, {}", clock(scale.span())),
        _ => format!("last {}", clock(scale.span())),
    };
    lines.push(rule(frame.look.dim(), &format!("{what}{span}  (t)"), frame.width));
    if workers.len() > lanes {
        lines.push(busy(frame, &scale));
    } else {
        lines.extend(workers.iter().map(|&worker| lane(frame, &scale, worker)));
    }
    lines.push(gates(frame, &scale));
    lines.push(axis(frame, &scale));
    lines
}

/// Cells of one lane, drawn one over the other.
struct Lane(Vec<(char, Style)>);

impl Lane {
    fn new(scale: &Scale) -> Lane {
        Lane(vec![(' ', Style::new()); scale.columns])
    }

    fn put(&mut self, column: usize, c: char, style: Style) {
        if let Some(cell) = self.0.get_mut(column) {
            *cell = (c, style);
        }
    }

    /// Draws the attempts of a worker, which are in the order of time. Each begins after the sign of the one before.
    fn bars(&mut self, look: Look, bars: &[Bar<'_>]) {
        let mut free = 0;
        for bar in bars {
            let first = bar.first.max(free);
            (first..=bar.last).for_each(|column| self.put(column, '━', look.sign(bar.sign)));
            // The name, if it fits before the end.
            if first + bar.task.len() + 1 < bar.last {
                bar.task.chars().enumerate().for_each(|(at, c)| self.put(first + at, c, Style::new()));
            }
            free = bar.last + 1;
        }
        self.signs(look, bars.iter().map(|bar| (bar.last, bar.sign)).collect());
    }

    /// Draws signs of ends over everything else; of several in one column the most urgent.
    fn signs(&mut self, look: Look, mut signs: Vec<(usize, Sign)>) {
        signs.sort_by_key(|(_, sign)| Reverse(*sign));
        for (column, sign) in signs {
            sign.symbol().chars().for_each(|c| self.put(column, c, look.sign(sign)));
        }
    }

    fn line(self, dim: Style, label: &str) -> Line<'static> {
        let mut parts = vec![Part::styled(format!(" {label:<width$}", width = LABEL_COLUMNS - 1), dim)];
        for group in self.0.chunk_by(|one, next| one.1 == next.1) {
            parts.push(Part::styled(group.iter().map(|(c, _)| *c).collect::<String>(), group[0].1));
        }
        Line::from(parts)
    }
}

/// An attempt in the lane of its worker.
struct Bar<'a> {
    first: usize,
    last: usize,
    sign: Sign,
    task: &'a str,
}

fn lane(frame: &Frame<'_>, scale: &Scale, worker: u32) -> Line<'static> {
    let tasks = frame.data.view.tasks.iter();
    let attempts = tasks.flat_map(|task| task.attempts.iter().map(move |attempt| (task, attempt)));
    let of_worker = attempts.filter(|(_, attempt)| attempt.worker == worker);
    let mut bars: Vec<Bar<'_>> = of_worker.filter_map(|(task, attempt)| bar(scale, task, attempt)).collect();
    bars.sort_by_key(|bar| (bar.first, bar.last));
    let mut lane = Lane::new(scale);
    lane.bars(frame.look, &bars);
    lane.line(frame.look.dim(), &format!("w{worker}"))
}

fn bar<'a>(scale: &Scale, task: &'a TaskView, attempt: &AttemptView) -> Option<Bar<'a>> {
    let end = attempt.ended_at.map_or(scale.to, |ended| ended.0);
    if end < scale.from {
        return None;
    }
    let (first, last) = (scale.column(attempt.started_at.0.max(scale.from)), scale.column(end));
    Some(Bar { first, last, sign: sign_of(attempt.outcome), task: task.id.as_str() })
}

/// Shows how many workers were busy, for runs with more workers than lines.
fn busy(frame: &Frame<'_>, scale: &Scale) -> Line<'static> {
    let mut counts = vec![0i32; scale.columns + 1];
    for attempt in frame.data.view.tasks.iter().flat_map(|task| &task.attempts) {
        let end = attempt.ended_at.map_or(scale.to, |ended| ended.0);
        if end >= scale.from {
            counts[scale.column(attempt.started_at.0.max(scale.from))] += 1;
            counts[scale.column(end) + 1] -= 1;
        }
    }
    let workers = frame.data.view.workers.len().max(1);
    let mut lane = Lane::new(scale);
    let mut now = 0;
    for (column, change) in counts.iter().take(scale.columns).enumerate() {
        now += change;
        let part = (now.max(0) as usize * (BUSY.len() - 1)).div_ceil(workers).min(BUSY.len() - 1);
        lane.put(column, BUSY[part], frame.look.sign(Sign::Running));
    }
    lane.line(frame.look.dim(), &number(workers))
}

fn gates(frame: &Frame<'_>, scale: &Scale) -> Line<'static> {
    let mut lane = Lane::new(scale);
    let mut signs = Vec::new();
    for run in &frame.data.gates {
        let end = run.ended_at.map_or(scale.to, |ended| ended.0);
        if end < scale.from || run.status == "unknown" {
            continue;
        }
        let sign = match run.status {
            "passed" => Sign::Done,
            "running" => Sign::Verifying,
            "cancelled" => Sign::Skipped,
            _ => Sign::Failed,
        };
        let (first, last) = (scale.column(run.started_at.0.max(scale.from)), scale.column(end));
        (first..=last).for_each(|column| lane.put(column, '▒', frame.look.sign(sign)));
        if sign != Sign::Done {
            signs.push((last, sign));
        }
    }
    lane.signs(frame.look, signs);
    for merged in frame.data.view.levels.iter().filter_map(|level| level.merged_at) {
        if merged.0 >= scale.from {
            lane.put(scale.column(merged.0), '◆', frame.look.sign(Sign::Done));
        }
    }
    lane.line(frame.look.dim(), "gate")
}

fn axis(frame: &Frame<'_>, scale: &Scale) -> Line<'static> {
    const STEPS: [u64; 14] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200];
    let most = (scale.columns / 14).max(1) as u64;
    let fits = |step: &&u64| scale.span().as_secs() / **step <= most;
    let step = STEPS.iter().find(fits).copied().unwrap_or_else(|| (scale.span().as_secs() / most).max(1));
    let began = frame.data.view.started_at.0;
    let mut lane = Lane::new(scale);
    let dim = frame.look.dim();
    let mut at = scale.from.since(began).as_secs().div_ceil(step) * step;
    let end = if frame.data.driven { "now" } else { "end" };
    let last = scale.columns.saturating_sub(end.len());
    while at <= scale.to.since(began).as_secs() {
        let label = clock(Duration::from_secs(at));
        let column = scale.column(began + Duration::from_secs(at));
        if column + label.len() + 1 < last {
            label.chars().enumerate().for_each(|(place, c)| lane.put(column + place, c, dim));
        }
        at += step;
    }
    end.chars().enumerate().for_each(|(place, c)| lane.put(last + place, c, dim));
    lane.line(dim, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(bars: &[(usize, usize, Sign, &str)]) -> String {
        let scale = Scale { from: Time(0), to: Time(1_000), columns: 24 };
        let bars: Vec<Bar<'_>> =
            bars.iter().map(|&(first, last, sign, task)| Bar { first, last, sign, task }).collect();
        let mut lane = Lane::new(&scale);
        lane.bars(Look { color: false, unicode: true }, &bars);
        lane.0.iter().map(|(c, _)| *c).collect::<String>().trim_end().to_string()
    }

    #[test]
    fn the_sign_of_an_end_is_visible_also_where_the_next_attempt_begins() {
        let bars = [(0, 9, Sign::Failed, "HASH"), (9, 20, Sign::Done, "HASH")];
        assert_eq!(drawn(&bars), "HASH━━━━━✗HASH━━━━━━✓");
    }

    #[test]
    fn of_ends_in_one_column_the_failure_is_visible() {
        let bars = [(0, 6, Sign::Done, "A"), (6, 6, Sign::Failed, "B"), (6, 6, Sign::Done, "B")];
        assert_eq!(drawn(&bars), "A━━━━━✗");
    }
}
