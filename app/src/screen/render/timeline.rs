//! The strip at the bottom: what each worker did when, gates and merges.

use std::collections::BTreeSet;
use std::time::Duration;

use mahabharatha_core::ids::Time;
use mahabharatha_core::view::{AttemptView, TaskView};
use ratatui::style::Style;
use ratatui::text::{Line, Span as Part};

use super::Frame;
use super::overview::sign_of;
use crate::screen::look::Sign;
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

    fn line(self, dim: Style, label: &str) -> Line<'static> {
        let mut parts = vec![Part::styled(format!(" {label:<width$}", width = LABEL_COLUMNS - 1), dim)];
        for group in self.0.chunk_by(|one, next| one.1 == next.1) {
            parts.push(Part::styled(group.iter().map(|(c, _)| *c).collect::<String>(), group[0].1));
        }
        Line::from(parts)
    }
}

fn lane(frame: &Frame<'_>, scale: &Scale, worker: u32) -> Line<'static> {
    let mut lane = Lane::new(scale);
    for task in &frame.data.view.tasks {
        for attempt in task.attempts.iter().filter(|attempt| attempt.worker == worker) {
            bar(frame, scale, task, attempt, &mut lane);
        }
    }
    lane.line(frame.look.dim(), &format!("w{worker}"))
}

fn bar(frame: &Frame<'_>, scale: &Scale, task: &TaskView, attempt: &AttemptView, lane: &mut Lane) {
    let end = attempt.ended_at.map_or(scale.to, |ended| ended.0);
    if end < scale.from {
        return;
    }
    let (first, last) = (scale.column(attempt.started_at.0.max(scale.from)), scale.column(end));
    let sign = sign_of(attempt.outcome);
    let style = frame.look.sign(sign);
    for column in first..=last {
        lane.put(column, '━', style);
    }
    // The name, if it fits before the end.
    let name = task.id.as_str();
    if first + name.len() + 1 < last {
        name.chars().enumerate().for_each(|(at, c)| lane.put(first + at, c, Style::new()));
    }
    sign.symbol().chars().for_each(|c| lane.put(last, c, style));
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
            sign.symbol().chars().for_each(|c| lane.put(last, c, frame.look.sign(sign)));
        }
    }
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
