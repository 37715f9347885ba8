//! The last lines: the keys that work here, what happened last, or a question.

use mahabharatha_core::view::TaskView;
use mahabharatha_sys::ui::{command_line, one_line, width};
use ratatui::style::Style;
use ratatui::text::Line;

use super::{Frame, page};
use crate::screen::look::Sign;
use crate::screen::state::{Message, Page, Prompt};
use crate::screen::text::{Row, first_lines, number, wrap};

/// Most lines of the command that a question shows.
const MAX_COMMAND_LINES: usize = 3;

/// Returns the last lines of a page.
pub fn footer(frame: &Frame<'_>) -> Vec<Line<'static>> {
    let task = match &frame.state.page {
        Page::Task(page) => frame.data.task(&page.task),
        _ => None,
    };
    footer_for(frame, task)
}

/// Returns the last lines; `task` is the one that keys act on.
pub fn footer_for(frame: &Frame<'_>, task: Option<&TaskView>) -> Vec<Line<'static>> {
    if let Some(prompt) = &frame.state.prompt {
        return question(frame, prompt);
    }
    if let Some(message) = &frame.state.message {
        return vec![Row::new().plain(" ").join(said(frame, message)).fit(frame.width)];
    }
    if frame.state.searching || !frame.state.search.is_empty() {
        return vec![search(frame)];
    }
    vec![keys(frame, &keys_of(frame, task))]
}

fn search(frame: &Frame<'_>) -> Line<'static> {
    let look = frame.look;
    let typed = end_of(&frame.state.search, frame.width / 3);
    let row = Row::new().plain(" /").plain(typed);
    let row = if frame.state.searching { row.add(look.selected(), " ") } else { row };
    let row = match page::count_matches(frame) {
        _ if frame.state.search.is_empty() => row,
        1 => row.plain("  1 line"),
        count => row.plain(&format!("  {} lines", number(count))),
    };
    let keys = match frame.state.searching {
        true => "Enter keeps it  Esc cancels ",
        false if frame.width < 70 => "n N  Esc ends it ",
        false => "n N next, previous  Esc ends the search ",
    };
    row.against(Row::new().add(look.dim(), keys), frame.width)
}

fn said(frame: &Frame<'_>, message: &Message) -> Row {
    let style = if message.is_error { frame.look.sign(Sign::Failed) } else { frame.look.strong() };
    Row::new().add(style, &one_line(&message.text))
}

fn question(frame: &Frame<'_>, prompt: &Prompt) -> Vec<Line<'static>> {
    let look = frame.look;
    let asked = Row::new().plain(" ").add(look.sign(Sign::Asks), &prompt.action.question());
    let asked = match prompt.text.is_some() && !prompt.needs_text {
        true => asked.plain(" (may be empty)"),
        false => asked,
    };
    let asked = match &frame.state.message {
        Some(message) => asked.plain("  ").join(said(frame, message)),
        None => asked,
    };
    let mut lines = vec![asked.fit(frame.width)];
    let action = match &prompt.text {
        Some(text) => {
            let end = end_of(text, frame.width.saturating_sub(5));
            lines.push(Row::new().plain(" > ").plain(end).add(look.selected(), " ").fit(frame.width));
            prompt.action.clone().with_text(text)
        }
        None => prompt.action.clone(),
    };
    let command = action.command(&frame.data.view.feature);
    let keys = if prompt.text.is_some() { "Enter runs it  Esc cancels" } else { "y runs it  Esc cancels" };
    let (command, keys) = (command_line(&command), Row::new().add(look.dim(), &format!("{keys} ")));
    let strong = |text: &str| Row::new().plain(" ").add(look.strong(), text);
    if width(&command) + keys.width() + 3 <= frame.width {
        lines.push(strong(&command).against(keys, frame.width));
        return lines;
    }
    let parts = first_lines(wrap(&command, frame.width.saturating_sub(4)), MAX_COMMAND_LINES);
    lines.extend(parts.iter().map(|part| strong(part).fit(frame.width)));
    lines.push(Row::new().against(keys, frame.width));
    lines
}

/// Returns the end of a text, where it is being typed, as far as it fits into this many columns. Pasted text may be long.
fn end_of(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let fitting = text.char_indices().rev().take_while(|(_, c)| {
        used += width(c.encode_utf8(&mut [0; 4]));
        used <= columns
    });
    &text[fitting.last().map_or(text.len(), |(at, _)| at)..]
}

/// Returns keys and what they do, the most important first.
fn keys_of(frame: &Frame<'_>, task: Option<&TaskView>) -> Vec<(&'static str, &'static str)> {
    let leave = if frame.data.driven { "leave" } else { "quit" };
    if frame.state.filtering {
        return vec![("Enter", "keep the filter"), ("Esc", "show all")];
    }
    let problem = task.and_then(|task| frame.data.problem_of(task));
    let retry = if problem.is_some_and(|problem| problem.kind == "question") { "answer" } else { "retry" };
    match &frame.state.page {
        Page::List => {
            let mut keys = vec![("q", leave), ("?", "help"), ("↑↓", ""), ("Enter", "open")];
            if frame.data.view.levels.iter().any(|level| level.awaits_approval.is_some()) {
                keys.push(("a", "approve"));
            }
            if problem.is_some() {
                keys.extend([("r", retry), ("s", "skip")]);
            }
            if frame.data.view.blockers.iter().any(|blocker| blocker.task.is_some()) {
                keys.extend(problem.is_none().then_some(("n", "next problem")));
                keys.push(("p", "problems"));
            }
            if frame.data.can_run() {
                keys.push(("R", if frame.data.has_begun() { "continue" } else { "run" }));
            }
            if task.is_some_and(|task| !task.needs.is_empty()) {
                keys.push(("g", "grant"));
            }
            keys.push(("/", "filter"));
            if frame.data.driven {
                keys.extend([("+ -", "workers"), ("x", "stop")]);
            }
            keys.extend([("c", "all"), ("t", "time")]);
            keys
        }
        Page::Task(_) => vec![
            ("Esc", "back"),
            ("?", "help"),
            ("1-4", "tab"),
            ("j k", "scroll"),
            ("[ ]", "attempt"),
            ("J K", "other task"),
            ("r", retry),
            ("s", "skip"),
            ("/", "search"),
            ("G", "end"),
            ("y", "copy the command"),
        ],
        Page::Gate(_) => vec![("Esc", "back"), ("j k", "scroll"), ("/", "search"), ("G", "end"), ("q", leave)],
        Page::Help { .. } => vec![("Esc", "back"), ("j k", "scroll")],
    }
}

/// Shows as many keys as fit. The first two matter most: they are always shown, at the end.
fn keys(frame: &Frame<'_>, keys: &[(&str, &str)]) -> Line<'static> {
    let width_of = |(key, what): &(&str, &str)| width(key) + width(what) + 1 + usize::from(!what.is_empty());
    let mut room = frame.width.saturating_sub(2);
    let mut shown = Vec::new();
    for key in keys {
        let needed = width_of(key) + 1;
        if needed > room {
            break;
        }
        room -= needed;
        shown.push(*key);
    }
    let lead = shown.len().min(2);
    shown.rotate_left(lead);
    if let [.., one, other] = shown.as_mut_slice() {
        std::mem::swap(one, other);
    }
    let row = shown.iter().fold(Row::new().plain(" "), |row, (key, what)| {
        let row = row.add(Style::new(), key);
        let row = if what.is_empty() { row } else { row.plain(" ").add(frame.look.dim(), what) };
        row.plain("  ")
    });
    row.fit(frame.width)
}
