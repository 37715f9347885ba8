//! The diff of a task or a level for the page: hunks with line numbers, pieces of code with their class, and what changed inside of lines.

use std::ops::Range;

use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::{Attempt, Level, TaskId};
use mahabharatha_core::run::Run;
use mahabharatha_engine::session::diff::{self, Selection};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::FilePatch;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::escape;
use serde::Serialize;
use serde_json::{Value, json};

use super::syntax::{Class, Language};
use crate::observe::cut_line;

/// Lines of a file, and of all files together, above which a file is sent only if it is asked for.
const MAX_FILE_LINES: usize = 2_000;
const MAX_LINES: usize = 20_000;
/// Lines of a file that is asked for; the rest is left out.
const MAX_NAMED_LINES: usize = 5_000;

#[derive(Debug, Serialize)]
struct File {
    path: String,
    status: &'static str,
    owned: bool,
    added: u64,
    removed: u64,
    binary: bool,
    folded: bool,
    /// Number of lines at its end that are not sent.
    left_out: usize,
    hunks: Vec<Hunk>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Hunk {
    header: String,
    lines: Vec<Line>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Line {
    kind: char,
    old: Option<u64>,
    new: Option<u64>,
    /// Class and text of each piece.
    parts: Vec<(String, String)>,
}

/// Returns what a task changed; only this file of it, if one is named.
pub fn of_task(place: &Place, run: &Run, task: &TaskId, attempt: Option<u32>, only: Option<&str>) -> Result<Value> {
    let selection = Selection::Task { task: task.clone(), attempt: attempt.map(Attempt), wip: false };
    let owned = run.graph().task(task).map_or(&[][..], |task| &task.owned);
    read(place, run, &selection, &owned.iter().collect::<Vec<_>>(), only)
}

/// Returns what a level changed; only this file of it, if one is named.
pub fn of_level(place: &Place, run: &Run, level: u32, only: Option<&str>) -> Result<Value> {
    let level = Level(level);
    let tasks = run.graph().tasks().iter().filter(|task| task.level == level);
    let owned: Vec<&OwnedPath> = tasks.flat_map(|task| &task.owned).collect();
    read(place, run, &Selection::Level(level), &owned, only)
}

fn read(place: &Place, run: &Run, selection: &Selection, owned: &[&OwnedPath], only: Option<&str>) -> Result<Value> {
    let found = diff::find(place, run, selection)?;
    let mut left = MAX_LINES;
    let mut files = Vec::new();
    for patch in &found.files {
        let path = patch.change.path.to_string();
        // The client knows the escaped name only.
        if only.is_some_and(|only| only != escape(&path)) {
            continue;
        }
        let room = if only.is_some() { Room::Cut(MAX_NAMED_LINES) } else { Room::Fold(left.min(MAX_FILE_LINES)) };
        let file = file(patch, path, owned, room);
        left -= file.hunks.iter().map(|hunk| hunk.lines.len()).sum::<usize>().min(left);
        files.push(file);
    }
    let attempt = found.attempt.map(|attempt| attempt.0);
    Ok(json!({ "source": found.source, "attempt": attempt, "notes": found.notes, "files": files }))
}

/// What becomes of a file with more than this many lines.
enum Room {
    Fold(usize),
    Cut(usize),
}

fn file(patch: &FilePatch, path: String, owned: &[&OwnedPath], room: Room) -> File {
    let text = String::from_utf8_lossy(&patch.patch);
    let (added, removed) = patch.lines.unwrap_or_default();
    let binary = patch.lines.is_none();
    let (folded, most) = match room {
        Room::Fold(most) => (text.lines().filter(|line| line.starts_with(['+', '-', ' '])).count() > most, most),
        Room::Cut(most) => (false, most),
    };
    let folded = folded && !binary;
    let (hunks, left_out) = match binary || folded {
        true => (Vec::new(), 0),
        false => hunks(&text, Language::of(&path), most),
    };
    File {
        status: match patch.change.status {
            'A' => "added",
            'D' => "deleted",
            _ => "modified",
        },
        owned: owned.iter().any(|owned| owned.covers(&path)),
        added,
        removed,
        binary,
        folded,
        left_out,
        hunks,
        path: escape(&path),
    }
}

/// A hunk as git wrote it: its header, its first old and new line, and its lines with their kind.
struct RawHunk {
    header: String,
    old: u64,
    new: u64,
    lines: Vec<(char, String)>,
    /// The lines that are cut, by their place, with a mark.
    cut: Vec<(usize, String)>,
}

/// Reads the hunks of one file's patch up to this many lines; returns also how many more there are.
fn hunks(patch: &str, language: Option<&Language>, most: usize) -> (Vec<Hunk>, usize) {
    let mut hunks: Vec<RawHunk> = Vec::new();
    let mut count = 0;
    // A line break of a file may be `\r\n`, of which `\r` is content.
    for line in patch.split_terminator('\n') {
        let kind = line.chars().next().unwrap_or(' ');
        if let Some((old, new)) = starts(line) {
            if count < most {
                hunks.push(RawHunk { header: escape(line), old, new, lines: Vec::new(), cut: Vec::new() });
            }
        } else if let (' ' | '+' | '-', Some(hunk)) = (kind, hunks.last_mut()) {
            count += 1;
            if count <= most {
                let (text, mark) = cut_line(&line[1..]);
                hunk.cut.extend(mark.map(|mark| (hunk.lines.len(), mark)));
                hunk.lines.push((kind, escape(text)));
            }
        }
    }
    let hunk = |raw: RawHunk| {
        let mut lines = numbered(&raw.lines, raw.old, raw.new, language);
        for (at, mark) in raw.cut {
            lines[at].parts.push(("cut".to_string(), mark));
        }
        Hunk { header: raw.header, lines }
    };
    (hunks.into_iter().map(hunk).collect(), count.saturating_sub(most))
}

/// Returns the first old and new line of a hunk, from `@@ -1,2 +3,4 @@`.
fn starts(header: &str) -> Option<(u64, u64)> {
    let mut words = header.strip_prefix("@@ -")?.split(' ');
    let first = |word: &str| word.split(',').next()?.parse().ok();
    Some((first(words.next()?)?, first(words.next()?.strip_prefix('+')?)?))
}

fn numbered(lines: &[(char, String)], mut old: u64, mut new: u64, language: Option<&Language>) -> Vec<Line> {
    let changed = changed_parts(lines);
    let mut next = |kind: char| {
        let numbers = (Some(old).filter(|_| kind != '+'), Some(new).filter(|_| kind != '-'));
        old += u64::from(kind != '+');
        new += u64::from(kind != '-');
        numbers
    };
    let line = |((kind, text), changed): (&(char, String), Option<Range<usize>>)| {
        let (old, new) = next(*kind);
        Line { kind: *kind, old, new, parts: parts(text, language, changed) }
    };
    lines.iter().zip(changed).map(line).collect()
}

/// Returns for each line the part that changed, where a removed line has an added one for its place.
fn changed_parts(lines: &[(char, String)]) -> Vec<Option<Range<usize>>> {
    let mut changed = vec![None; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        let count = |from: usize, kind: char| lines[from..].iter().take_while(|(other, _)| *other == kind).count();
        let removed = count(at, '-');
        let added = count(at + removed, '+');
        // Blocks of different length rarely correspond line by line.
        if removed == added {
            for index in at..at + removed {
                if let Some((old, new)) = differing(&lines[index].1, &lines[index + removed].1) {
                    (changed[index], changed[index + removed]) = (Some(old), Some(new));
                }
            }
        }
        at += (removed + added).max(1);
    }
    changed
}

/// Returns the parts in which two lines differ; none if they have too little in common.
fn differing(old: &str, new: &str) -> Option<(Range<usize>, Range<usize>)> {
    let same = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
    };
    let head = same(&mut old.chars().zip(new.chars()));
    let tail = same(&mut old[head..].chars().rev().zip(new[head..].chars().rev()));
    let common = old[..head].trim_start().len() + old[old.len() - tail..].trim().len();
    let enough = common * 3 >= old.trim().len().max(new.trim().len()) && common > 0;
    enough.then(|| (head..old.len() - tail, head..new.len() - tail))
}

/// Splits a line by class, and at both ends of what changed.
fn parts(text: &str, language: Option<&Language>, changed: Option<Range<usize>>) -> Vec<(String, String)> {
    let whole = || vec![(Class::Plain, 0..text.len())];
    let pieces = language.map_or_else(whole, |language| language.split(text));
    let changed = changed.unwrap_or(0..0);
    let mut parts = Vec::new();
    for (class, range) in pieces {
        let cuts = [
            range.start,
            changed.start.clamp(range.start, range.end),
            changed.end.clamp(range.start, range.end),
            range.end,
        ];
        for (index, pair) in cuts.windows(2).enumerate().filter(|(_, pair)| pair[0] < pair[1]) {
            let name = match (class.name(), index == 1) {
                (name, false) => name.to_string(),
                ("", true) => "in".to_string(),
                (name, true) => format!("{name} in"),
            };
            parts.push((name, text[pair[0]..pair[1]].to_string()));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_have_numbers_and_classes_and_what_changed_in_lines() {
        let patch = "diff --git a/a.rs b/a.rs\n--- a/a.rs\n+++ b/a.rs\n@@ -3,2 +7,3 @@ fn x\n let a = 1;\n-let b = 2;\n+let b = 30;\n\\ No newline at end of file\n@@ -9 +14 @@\n-x\n+\u{202e}y\r\n";
        let (found, left_out) = hunks(patch, Language::of("a.rs"), 5);
        assert_eq!((found.len(), left_out), (2, 0));
        assert_eq!(found[0].header, "@@ -3,2 +7,3 @@ fn x");
        let part = |class: &str, text: &str| (class.to_string(), text.to_string());
        let numbers: Vec<_> = found[0].lines.iter().map(|line| (line.kind, line.old, line.new)).collect();
        assert_eq!(numbers, [(' ', Some(3), Some(7)), ('-', Some(4), None), ('+', None, Some(8))]);
        assert_eq!(
            found[0].lines[2].parts,
            [part("kw", "let"), part("", " b = "), part("num in", "30"), part("", ";")]
        );
        let text: String = found[1].lines[1].parts.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(text, "<U+202E>y␍");
        assert_eq!((found[1].lines[0].old, found[1].lines[1].new), (Some(9), Some(14)));
        let (cut, left_out) = hunks(patch, None, 3);
        assert_eq!((cut.len(), left_out), (1, 2));
    }

    #[test]
    fn lines_that_have_little_in_common_are_not_compared() {
        assert_eq!(differing("let total = 1;", "let count = 1;"), Some((4..9, 4..9)));
        assert_eq!(differing("same", "same"), Some((4..4, 4..4)));
        assert_eq!(differing("    return x", "    panic!()"), None);
        assert_eq!(differing("ä", "ö"), None);
        assert_eq!(differing("", "x"), None);
    }
}
