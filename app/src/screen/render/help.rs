//! The page of keys and signs.

use ratatui::text::Line;

use super::Frame;
use super::footer;
use crate::screen::look::Sign;
use crate::screen::text::{Row, rule};

const KEYS: [(&str, &str); 23] = [
    ("j k ↑ ↓", "move, scroll"),
    ("Enter", "open a task, the running gate, folded tasks"),
    ("Esc", "back; shows all tasks again"),
    ("Tab n", "next problem; in a task the next tab"),
    ("/", "filter by name, title or state"),
    ("p", "problems only"),
    ("c", "a row for every task, or folded"),
    ("t", "timeline: the run, an hour, ten minutes"),
    ("r", "retry the task, with an answer or advice"),
    ("s", "skip the task and what depends on it"),
    ("g", "grant the files that its agent asks for"),
    ("a", "approve the level that waits for it"),
    ("+ -", "one worker more or less"),
    ("x", "stop the task's worker (asks)"),
    ("d", "diff of the task"),
    ("y", "copy the command that resolves the problem"),
    ("1 2 3 4", "overview, output, diff, log of a task"),
    ("[ ]", "earlier or later attempt"),
    ("J K", "next or previous task"),
    ("G", "follow the end"),
    ("q", "leave the screen; the run goes on"),
    ("Ctrl-C", "run: stop the run, twice at once; else leave"),
    ("", "What changes the run shows its command first."),
];

pub fn help(frame: &Frame<'_>) -> Vec<Line<'static>> {
    let look = frame.look;
    let mut lines = vec![rule(look.dim(), "keys", frame.width)];
    let room = frame.height.saturating_sub(4);
    let two = frame.width >= 100 || KEYS.len() > room;
    let half = if two { KEYS.len().div_ceil(2) } else { KEYS.len() };
    let column = if two { frame.width / 2 } else { frame.width };
    for index in 0..half.min(room) {
        let one = |row: Row, entry: Option<&(&str, &str)>| match entry {
            Some((key, what)) => row
                .plain(" ")
                .cell(look.strong(), key, 8)
                .plain(" ")
                .cell(look.dim(), what, column.saturating_sub(11))
                .plain(" "),
            None => row,
        };
        let row = one(Row::new(), KEYS.get(index));
        lines.push(one(row, KEYS.get(index + half).filter(|_| two)).fit(frame.width));
    }
    lines.push(rule(look.dim(), "signs", frame.width));
    let row = Sign::OF_TASKS.iter().fold(Row::new().plain(" "), |row, sign| {
        row.add(look.sign(*sign), sign.symbol()).plain(&format!(" {}  ", sign.word()))
    });
    lines.push(row.plain("◆ merged").fit(frame.width));
    lines.extend((lines.len() + 1..frame.height).map(|_| Line::default()).collect::<Vec<_>>());
    lines.extend(footer::footer(frame));
    lines
}
