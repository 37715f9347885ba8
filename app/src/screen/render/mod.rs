//! Draws a frame. Pure: the same data, state, time and size give the same lines.

mod footer;
mod header;
mod help;
mod levels;
mod overview;
pub mod page;
mod problems;
mod tasks;
mod timeline;

use mahabharatha_core::ids::Time;
use ratatui::buffer::Buffer;
use ratatui::text::Line;

use super::detail::Detail;
use super::keys::Room;
use super::look::Look;
use super::state::{Page, State};
use super::text::Row;
use crate::observe::Data;

/// Smaller screens show one line.
const MIN_WIDTH: usize = 40;
const MIN_HEIGHT: usize = 8;

/// Everything that a frame depends on.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    pub data: &'a Data,
    pub state: &'a State,
    pub detail: Option<&'a Detail>,
    pub now: Time,
    pub look: Look,
    pub width: usize,
    pub height: usize,
}

/// How the lines of the list are shared out.
struct Layout {
    problems: Vec<Line<'static>>,
    /// Whether the columns have heads.
    heads: bool,
    rows: usize,
    timeline: Vec<Line<'static>>,
    footer: Vec<Line<'static>>,
}

impl Frame<'_> {
    fn is_compact(&self) -> bool {
        self.height < 16
    }

    /// Returns the layout in which problems and footer speak of the task that keys act on.
    fn layout(&self) -> Layout {
        let task = self.state.current_task(self.data, usize::MAX);
        let layout = self.layout_for(task);
        // What is folded, and so what the cursor is on, depends on the rows that the problems leave.
        match self.state.current_task(self.data, layout.rows) {
            now if now == task => layout,
            now => self.layout_for(now),
        }
    }

    fn layout_for(&self, task: Option<&str>) -> Layout {
        let task = task.and_then(|task| self.data.task(task));
        let footer = footer::footer_for(self, task);
        let problems = problems::problems(self, task);
        let heads = self.width >= 100 && self.height >= 30;
        let left = self.height.saturating_sub(3 + usize::from(heads) + problems.len() + footer.len());
        // Half of the room at most, and only if tasks keep some.
        let timeline = timeline::timeline(self, if left >= 12 && self.data.has_begun() { left / 2 } else { 0 });
        Layout { rows: left.saturating_sub(timeline.len()), problems, heads, timeline, footer }
    }

    fn list(&self) -> Vec<Line<'static>> {
        let layout = self.layout();
        let mut lines = vec![header::header(self), levels::levels(self)];
        lines.extend(layout.problems);
        lines.extend(tasks::tasks(self, layout.heads, layout.rows));
        lines.extend(layout.timeline);
        lines.extend(layout.footer);
        lines
    }

    fn is_too_small(&self) -> bool {
        self.width < MIN_WIDTH || self.height < MIN_HEIGHT
    }
}

/// Returns the lines of the screen, from the top.
pub fn lines(frame: &Frame<'_>) -> Vec<Line<'static>> {
    if frame.is_too_small() {
        return vec![header::one_line(frame)];
    }
    match &frame.state.page {
        Page::List => frame.list(),
        Page::Task(page) => page::task(frame, page),
        Page::Gate(scroll) => page::gate(frame, *scroll),
        Page::Help { scroll, .. } => page::keys(frame, *scroll),
    }
}

/// Returns how many rows there are for keys that move and scroll.
pub fn room(frame: &Frame<'_>) -> Room {
    if frame.is_too_small() {
        return Room { rows: 1, page: 1, ..Room::default() };
    }
    Room { rows: frame.layout().rows, ..page::room(frame) }
}

/// Puts the lines on the screen.
pub fn paint(frame: &Frame<'_>, buffer: &mut Buffer) {
    for (y, line) in (0..buffer.area.height).zip(lines(frame)) {
        let line = if frame.look.unicode { line } else { ascii(line, frame.look) };
        buffer.set_line(0, y, &line, buffer.area.width);
    }
}

fn ascii(line: Line<'static>, look: Look) -> Line<'static> {
    let row = line.spans.into_iter().fold(Row::new(), |row, span| {
        let text: String = span.content.chars().map(|c| look.to_ascii(c)).collect();
        row.add(span.style.patch(line.style), &text)
    });
    Line::from(row.0)
}
