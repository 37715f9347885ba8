//! A task, or the gate that runs: head, tabs, and a body that scrolls.

use mahabharatha_core::view::{AttemptView, TaskView};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use super::Frame;
use super::{footer, help, overview};
use crate::screen::detail::{Detail, Piece, Tone, Wanted};
use crate::screen::keys::Room;
use crate::screen::state::{Page, Scroll, Tab, TaskPage};
use crate::screen::text::{Row, clock, pieces, rule, tries, usd};

pub fn task(frame: &Frame<'_>, page: &TaskPage) -> Vec<Line<'static>> {
    let Some(task) = frame.data.task(&page.task) else {
        return vec![Row::new().plain(" This task is no longer in the graph; Esc goes back.").fit(frame.width)];
    };
    let mut lines = vec![head(frame, task), tabs(frame, task, page), rule(frame.look.dim(), "", frame.width)];
    lines.extend(visible(frame, body(frame), page.scroll));
    lines.extend(footer::footer(frame));
    lines
}

pub fn gate(frame: &Frame<'_>, scroll: Scroll) -> Vec<Line<'static>> {
    let run = frame.data.gates.last();
    let name = run.map_or_else(
        || "no gate has run".to_string(),
        |run| format!("gate {} on {}, run {}", run.gate, run.at, run.run),
    );
    let status = run.map_or("", |run| run.status);
    let head = Row::new().plain(" ").add(frame.look.strong(), &name).plain("  ").plain(status);
    let command = run.map_or("", |run| run.command.as_str());
    let mut lines = vec![
        head.fit(frame.width),
        Row::new().plain(" ").add(frame.look.dim(), command).fit(frame.width),
        rule(frame.look.dim(), "", frame.width),
    ];
    lines.extend(visible(frame, body(frame), scroll));
    lines.extend(footer::footer(frame));
    lines
}

pub fn keys(frame: &Frame<'_>, scroll: Scroll) -> Vec<Line<'static>> {
    let mut lines = visible(frame, body(frame), scroll);
    lines.extend(footer::footer(frame));
    lines
}

/// Returns the lines that there is room for on the open page, how many it has, and which of them `n` goes to.
pub fn room(frame: &Frame<'_>) -> Room {
    match &frame.state.page {
        Page::List => Room { page: 1, ..Room::default() },
        _ => {
            let body = body(frame);
            let marks = if frame.state.search.is_empty() { files(frame) } else { matches(frame, &body).collect() };
            Room { page: body_room(frame), lines: body.len(), marks, ..Room::default() }
        }
    }
}

/// Returns how many lines of the open page match the search.
pub fn count_matches(frame: &Frame<'_>) -> usize {
    matches(frame, &body(frame)).count()
}

/// Returns the lines that match the search, ignoring case.
fn matches<'a>(frame: &Frame<'_>, body: &'a [Line<'static>]) -> impl Iterator<Item = usize> + use<'a> {
    let wanted = frame.state.search.to_lowercase();
    let text = |line: &Line<'_>| line.spans.iter().map(|span| span.content.to_lowercase()).collect::<String>();
    let is_match = move |line: &Line<'_>| !wanted.is_empty() && text(line).contains(&wanted);
    body.iter().enumerate().filter(move |(_, line)| is_match(line)).map(|(index, _)| index)
}

/// Returns the lines at which the files of a diff begin.
fn files(frame: &Frame<'_>) -> Vec<usize> {
    let mut line = 0;
    let mut found = Vec::new();
    for piece in
        frame.detail.iter().filter(|detail| wanted(frame).as_ref() == Some(&detail.of)).flat_map(|detail| &detail.lines)
    {
        if piece.tone == Tone::File {
            found.push(line);
        }
        line += shown(frame, piece).len();
    }
    found
}

fn body_room(frame: &Frame<'_>) -> usize {
    let head = if matches!(frame.state.page, Page::Help { .. }) { 0 } else { 3 };
    frame.height.saturating_sub(head + footer::footer(frame).len()).max(1)
}

fn visible(frame: &Frame<'_>, mut body: Vec<Line<'static>>, scroll: Scroll) -> Vec<Line<'static>> {
    for index in matches(frame, &body).collect::<Vec<_>>() {
        body[index] = std::mem::take(&mut body[index]).patch_style(frame.look.found());
    }
    let room = body_room(frame);
    let last = body.len().saturating_sub(room);
    let top = match scroll {
        Scroll::Start => 0,
        Scroll::At(line) => line.min(last),
        Scroll::End => last,
    };
    let below = body.len().saturating_sub(top + room);
    let mut lines: Vec<Line<'static>> = body.into_iter().skip(top).take(room).collect();
    lines.resize(room, Line::default());
    if below > 0 && room > 1 {
        let text = format!(" {} more lines, G goes to the end", below + 1);
        lines[room - 1] = Row::new().add(frame.look.dim(), &text).fit(frame.width);
    }
    lines
}

fn head(frame: &Frame<'_>, task: &TaskView) -> Line<'static> {
    let (data, look) = (frame.data, frame.look);
    let sign = data.sign(task);
    let left = Row::new().plain(" ").add(look.strong(), task.id.as_str()).plain("  ").plain(&task.title).plain("  ");
    let left = left.add(look.sign(sign), &format!("{} {}", sign.symbol(), sign.word()));
    let time = data.time_of(task, frame.now).map(clock).unwrap_or_default();
    let cost = if task.cost.is_zero() { String::new() } else { format!("  {}", usd(task.cost)) };
    let attempt = tries(task.attempt, data.view.max_attempts);
    let right = match frame.width {
        100.. if task.attempt > 0 => format!("level {}  attempt {attempt}  {time}{cost} ", task.level),
        100.. => format!("level {} ", task.level),
        70.. => format!("L{}  {attempt}  {time}{cost} ", task.level),
        _ => String::new(),
    };
    left.against(Row::new().plain(&right), frame.width)
}

fn tabs(frame: &Frame<'_>, task: &TaskView, page: &TaskPage) -> Line<'static> {
    let look = frame.look;
    let mut row = Row::new();
    for (index, tab) in Tab::ALL.into_iter().enumerate() {
        let name = if frame.width < 60 { &tab.name()[..tab.name().len().min(4)] } else { tab.name() };
        let text = format!("{} {name}", index + 1);
        row = match tab == page.tab {
            true => row.add(look.strong(), &format!(" [{text}]")),
            false => row.add(look.dim(), &format!("  {text} ")),
        };
    }
    if page.tab == Tab::Log {
        return row.add(look.dim(), "   all attempts").fit(frame.width);
    }
    if task.attempts.is_empty() {
        return row.fit(frame.width);
    }
    let label = if frame.width < 60 { "" } else { "   attempt" };
    let row = row.add(look.dim(), label);
    let room = frame.width.saturating_sub(row.width());
    row.join(attempts(frame, task, page.attempt.unwrap_or(task.attempt), room)).fit(frame.width)
}

/// Returns the attempts with the shown one marked: the latest that fit into this many columns, or those from the shown one on.
fn attempts(frame: &Frame<'_>, task: &TaskView, shown: u32, room: usize) -> Row {
    let (gap, lead) = if frame.width < 60 { ("", "") } else { (" ", " ") };
    let cell = |attempt: &AttemptView| {
        let sign = overview::sign_of(attempt.outcome);
        let text = format!("{}{gap}{}", attempt.attempt, sign.symbol());
        match attempt.attempt == shown {
            true => Row::new().add(frame.look.sign(sign).add_modifier(Modifier::BOLD), &format!("{lead}[{text}]")),
            false => Row::new().add(frame.look.sign(sign), &format!("{lead} {text} ")),
        }
    };
    let widest = task.attempts.last().map_or(1, |attempt| cell(attempt).width());
    let latest = task.attempts.len().saturating_sub((room / widest).max(1));
    let marked = task.attempts.iter().position(|attempt| attempt.attempt == shown).unwrap_or(latest);
    task.attempts[latest.min(marked)..].iter().map(cell).fold(Row::new(), Row::join)
}

/// Returns all lines of the open page.
fn body(frame: &Frame<'_>) -> Vec<Line<'static>> {
    if matches!(frame.state.page, Page::Help { .. }) {
        return help::help(frame);
    }
    let mut lines = Vec::new();
    let wanted = wanted(frame);
    if let (Page::Task(page), Some(task)) = (&frame.state.page, task_of(frame))
        && page.tab == Tab::Overview
    {
        lines = overview::overview(frame, task);
    }
    let detail: Option<&Detail> = frame.detail.filter(|detail| wanted.as_ref() == Some(&detail.of));
    match detail {
        Some(detail) if detail.lines.is_empty() && lines.is_empty() => {
            lines.push(Row::new().add(frame.look.dim(), " Nothing yet.").fit(frame.width));
        }
        Some(detail) => lines.extend(detail.lines.iter().flat_map(|piece| shown(frame, piece))),
        None if lines.is_empty() => lines.push(Row::new().add(frame.look.dim(), " Reading…").fit(frame.width)),
        None => {}
    }
    lines
}

fn task_of<'a>(frame: &Frame<'a>) -> Option<&'a TaskView> {
    match &frame.state.page {
        Page::Task(page) => frame.data.task(&page.task),
        _ => None,
    }
}

/// Returns what the open page needs to be read.
pub fn wanted(frame: &Frame<'_>) -> Option<Wanted> {
    match &frame.state.page {
        Page::Task(TaskPage { task, tab, attempt, .. }) => {
            Some(Wanted::Task { task: task.clone(), tab: *tab, attempt: *attempt })
        }
        Page::Gate(_) => {
            frame.data.gates.last().map(|run| Wanted::Gate { gate: run.gate.clone(), log: run.log.clone() })
        }
        Page::List | Page::Help { .. } => None,
    }
}

/// Breaks a line of output into as many lines as it needs.
fn shown(frame: &Frame<'_>, piece: &Piece) -> Vec<Line<'static>> {
    let look = frame.look;
    let style = match piece.tone {
        Tone::Plain => Style::new(),
        Tone::Dim => look.dim(),
        Tone::Strong => look.strong(),
        Tone::Good => look.color(Color::Green),
        Tone::Bad => look.color(Color::Red),
        Tone::Warn => look.color(Color::Yellow),
        Tone::File => return vec![rule(look.strong(), &piece.text, frame.width)],
    };
    let row = |text: String| Row::new().plain(" ").add(style, &text).fit(frame.width);
    pieces(&piece.text, frame.width.saturating_sub(2)).into_iter().map(row).collect()
}
