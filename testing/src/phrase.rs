//! Phrases of the program that tests quote. Where the wording changed on purpose, `UPDATE_PHRASES=1 ./test` writes the new
//! one into the tests, for `git diff` to show.

use std::fs::{self, File};
use std::panic::Location;
use std::path::Path;

const UPDATE: &str = "UPDATE_PHRASES";

/// Asserts that the output contains the phrase.
#[track_caller]
pub fn assert_contains(output: &str, phrase: &str) {
    if output.contains(phrase) {
        return;
    }
    if std::env::var_os(UPDATE).is_some()
        && let Some(closest) = closest(output, phrase)
    {
        let place = Location::caller();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(place.file());
        if replace(&source, place.line(), phrase, closest) {
            return;
        }
    }
    panic!("{phrase:?} is not in\n{output}\n(if only the wording changed: {UPDATE}=1 ./test)");
}

/// Returns the words of one line that share the most with the phrase, if they share at least half of them.
fn closest<'a>(output: &'a str, phrase: &str) -> Option<&'a str> {
    let wanted: Vec<&str> = phrase.split_whitespace().collect();
    let mut best: Option<(usize, &str)> = None;
    for line in output.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        for from in 0..words.len() {
            for to in from + 1..=words.len().min(from + 2 * wanted.len()) {
                let shared = shared(&words[from..to], &wanted);
                let others = to - from + wanted.len() - 2 * shared;
                if 2 * shared >= wanted.len() && best.is_none_or(|(fewest, _)| others < fewest) {
                    let start = words[from].as_ptr().addr() - line.as_ptr().addr();
                    let end = words[to - 1].as_ptr().addr() - line.as_ptr().addr() + words[to - 1].len();
                    best = Some((others, &line[start..end]));
                }
            }
        }
    }
    best.map(|(_, words)| words)
}

/// Returns how many words two texts have in common, in the same order.
fn shared(one: &[&str], other: &[&str]) -> usize {
    let mut counts = vec![0; other.len() + 1];
    for word in one {
        let mut before = 0;
        for (index, candidate) in other.iter().enumerate() {
            let above = counts[index + 1];
            counts[index + 1] = if word == candidate { before + 1 } else { above.max(counts[index]) };
            before = above;
        }
    }
    counts[other.len()]
}

/// Replaces the literal of a phrase in this line of a source file or after it. No line moves, so that the other places in the
/// file stay known. Returns whether the literal was found.
fn replace(source: &Path, line: u32, old: &str, new: &str) -> bool {
    let file = File::open(source).unwrap();
    // Other tests write to the same file.
    file.lock().unwrap();
    let text = fs::read_to_string(source).unwrap();
    let start: usize = text.split_inclusive('\n').take(line as usize - 1).map(str::len).sum();
    let literal = format!("{old:?}");
    let Some(found) = text[start..].find(&literal) else { return false };
    let (before, after) = (&text[..start + found], &text[start + found + literal.len()..]);
    fs::write(source, format!("{before}{new:?}{after}")).unwrap();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_words_are_found() {
        let output = "run 3: A-1 passed after 2 attempts\nnothing to do\n";
        assert_eq!(closest(output, "A-1 passed in 2 attempts"), Some("A-1 passed after 2 attempts"));
        assert_eq!(closest(output, "there is nothing to do"), Some("nothing to do"));
        assert_eq!(closest(output, "the disk is full"), None);
    }

    #[test]
    fn the_literal_in_that_line_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("test.rs");
        fs::write(&source, "a.says(\"it \\\"is\\\" so\");\nb.says(\"it \\\"is\\\" so\").says(\"more\");\n").unwrap();
        assert!(replace(&source, 2, "it \"is\" so", "so it \"is\""));
        assert!(!replace(&source, 2, "elsewhere", "nowhere"));
        let text = fs::read_to_string(&source).unwrap();
        assert_eq!(text, "a.says(\"it \\\"is\\\" so\");\nb.says(\"so it \\\"is\\\"\").says(\"more\");\n");
    }
}
