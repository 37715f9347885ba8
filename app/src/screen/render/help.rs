//! The page of keys and signs.

use ratatui::text::Line;

use super::Frame;
use crate::screen::look::Sign;
use crate::screen::text::{Row, rule};

/// Short enough for two columns of 40.
const KEYS: [(&str, &str); 25] = [
    ("j k ↑ ↓", "move, scroll"),
    ("Enter", "open task, gate, folded tasks"),
    ("Esc", "back; show all tasks"),
    ("Tab n", "next problem, next tab"),
    ("/", "filter tasks; search a page"),
    ("p", "problems only"),
    ("c", "a row for every task"),
    ("t", "timeline: run, 1 h, 10 min"),
    ("r", "retry with answer or advice"),
    ("s", "skip it and its dependents"),
    ("g", "grant the files it asks for"),
    ("a", "approve the waiting level"),
    ("R", "run, or continue the run"),
    ("+ -", "one worker more or less"),
    ("x", "stop the task's worker (asks)"),
    ("d", "diff of the task"),
    ("y", "copy the resolving command"),
    ("1 2 3 4", "overview, output, diff, log"),
    ("[ ]", "earlier or later attempt"),
    ("J K", "next or previous task"),
    ("n N", "next, previous file or match"),
    ("G", "follow the end"),
    ("q", "leave; the run goes on"),
    ("Ctrl-C", "run: stop it; else leave"),
    ("", "r s g a R x ask first."),
];

/// Returns all lines of the page; the keys in two columns where those fit.
pub fn help(frame: &Frame<'_>) -> Vec<Line<'static>> {
    let look = frame.look;
    let columns = if frame.width >= 80 { 2 } else { 1 };
    let column = frame.width / columns;
    let one = |row: Row, (key, what): &(&str, &str)| {
        row.plain(" ")
            .cell(look.strong(), key, 8)
            .plain(" ")
            .cell(look.dim(), what, column.saturating_sub(11))
            .plain(" ")
    };
    let mut lines = vec![rule(look.dim(), "keys", frame.width)];
    let rows = KEYS.len().div_ceil(columns);
    for index in 0..rows {
        let row = KEYS.iter().skip(index).step_by(rows).fold(Row::new(), one);
        lines.push(row.fit(frame.width));
    }
    lines.push(rule(look.dim(), "signs", frame.width));
    let one = |row: Row, sign: &Sign| row.add(look.sign(*sign), sign.symbol()).plain(&format!(" {}  ", sign.word()));
    let signs: Vec<Sign> = Sign::OF_TASKS.into_iter().chain([Sign::Warning]).collect();
    for signs in signs.chunks(if frame.width >= 100 { 9 } else { 5 }) {
        lines.push(signs.iter().fold(Row::new().plain(" "), one).fit(frame.width));
    }
    lines
}
