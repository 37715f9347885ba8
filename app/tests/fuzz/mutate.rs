//! Inputs: what the corpus holds, changed in a few places, or anything at all.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

/// Longer inputs are for `extreme`.
const LONGEST: usize = 64 << 10;

/// Everything that is saved for a reader. What once broke it is put there too.
pub fn corpus(name: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
    let mut paths: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} holds nothing", dir.display());
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

/// One change. Places are parts of the whole, so that a change fits any length.
#[derive(Debug, Clone)]
enum Change {
    Flip(u16, u8),
    Set(u16, u8),
    Remove(u16, u16),
    Repeat(u16, u16, u8),
    Insert(u16, Vec<u8>),
    /// What stands between two places comes to a third.
    Move(u16, u16, u16),
    Cut(u16),
    RemoveLine(u16),
    RepeatLine(u16, u16),
    SwapLines(u16, u16),
    /// Another number in the place of one.
    Number(u16, i64),
}

pub fn inputs(corpus: Vec<Vec<u8>>, words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let others = corpus.clone();
    let mutated = (prop::sample::select(corpus), prop::collection::vec(change(words), 1..8)).prop_map(apply);
    let spliced = (prop::sample::select(others.clone()), prop::sample::select(others), any::<u16>(), any::<u16>())
        .prop_map(|(one, two, end, start)| [&one[..at(&one, end)], &two[at(&two, start)..]].concat());
    let from_words = prop::collection::vec(prop_oneof![piece(words), any::<Vec<u8>>()], 0..40);
    prop_oneof![
        12 => mutated,
        3 => spliced,
        3 => from_words.prop_map(|pieces| pieces.concat()),
        1 => any::<String>().prop_map(String::into_bytes),
        1 => any::<Vec<u8>>(),
    ]
    .prop_map(|mut input| {
        input.truncate(LONGEST);
        input
    })
}

fn piece(words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    const ANYWHERE: [&str; 24] = [
        "\n",
        "\r\n",
        " ",
        "\t",
        "\0",
        "\u{feff}",
        "\u{2028}",
        "\u{202e}",
        "\u{1b}[31m",
        "ü",
        "e\u{301}",
        "null",
        "-1",
        "18446744073709551616",
        "1e999",
        "../",
        "//",
        "\"",
        "'",
        "\\",
        "{",
        "}",
        "[",
        "]",
    ];
    prop_oneof![prop::sample::select(&ANYWHERE[..]), prop::sample::select(words)]
        .prop_map(|word| word.as_bytes().to_vec())
}

fn place() -> impl Strategy<Value = u16> {
    any::<u16>()
}

fn change(words: &'static [&'static str]) -> impl Strategy<Value = Change> {
    let inserted = prop_oneof![3 => piece(words), 1 => prop::collection::vec(any::<u8>(), 0..12)];
    prop_oneof![
        1 => (place(), any::<u8>()).prop_map(|(place, bit)| Change::Flip(place, bit)),
        1 => (place(), any::<u8>()).prop_map(|(place, byte)| Change::Set(place, byte)),
        1 => (place(), 1..64_u16).prop_map(|(place, length)| Change::Remove(place, length)),
        1 => (place(), 1..256_u16, 1..32_u8).prop_map(|(place, length, times)| Change::Repeat(place, length, times)),
        3 => (place(), inserted).prop_map(|(place, bytes)| Change::Insert(place, bytes)),
        1 => (place(), place(), place()).prop_map(|(from, to, place)| Change::Move(from, to, place)),
        1 => place().prop_map(Change::Cut),
        2 => place().prop_map(Change::RemoveLine),
        2 => (place(), place()).prop_map(|(line, place)| Change::RepeatLine(line, place)),
        2 => (place(), place()).prop_map(|(one, two)| Change::SwapLines(one, two)),
        3 => (place(), prop_oneof![0..10_i64, any::<i64>()]).prop_map(|(place, number)| Change::Number(place, number)),
    ]
}

fn at(input: &[u8], place: u16) -> usize {
    input.len() * usize::from(place) / (usize::from(u16::MAX) + 1)
}

fn apply((mut input, changes): (Vec<u8>, Vec<Change>)) -> Vec<u8> {
    for change in changes {
        input = applied(input, change);
    }
    input
}

fn applied(mut input: Vec<u8>, change: Change) -> Vec<u8> {
    let span = |input: &[u8], place: u16, length: u16| {
        let start = at(input, place);
        start..(start + usize::from(length)).min(input.len())
    };
    match change {
        Change::Flip(place, bit) => {
            let place = at(&input, place);
            input.get_mut(place).into_iter().for_each(|byte| *byte ^= 1 << (bit % 8));
        }
        Change::Set(place, new) => {
            let place = at(&input, place);
            input.get_mut(place).into_iter().for_each(|byte| *byte = new);
        }
        Change::Remove(place, length) => drop(input.drain(span(&input, place, length))),
        Change::Repeat(place, length, times) => {
            let span = span(&input, place, length);
            let repeated = input[span.clone()].repeat(times.into());
            input.splice(span, repeated);
        }
        Change::Insert(place, bytes) => {
            let place = at(&input, place);
            input.splice(place..place, bytes);
        }
        Change::Move(from, to, place) => {
            let (from, to) = (at(&input, from.min(to)), at(&input, from.max(to)));
            let moved: Vec<u8> = input.drain(from..to).collect();
            let place = at(&input, place);
            input.splice(place..place, moved);
        }
        Change::Cut(place) => input.truncate(at(&input, place)),
        Change::RemoveLine(_) | Change::RepeatLine(..) | Change::SwapLines(..) => return with_lines(&input, &change),
        Change::Number(place, number) => return with_number(&input, at(&input, place), number),
    }
    input
}

fn with_lines(input: &[u8], change: &Change) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = input.split_inclusive(|&byte| byte == b'\n').collect();
    if lines.is_empty() {
        return Vec::new();
    }
    let index = |place: u16| lines.len() * usize::from(place) / (usize::from(u16::MAX) + 1);
    match *change {
        Change::RemoveLine(place) => drop(lines.remove(index(place))),
        Change::RepeatLine(line, place) => {
            let (line, place) = (lines[index(line)], index(place));
            lines.insert(place, line);
        }
        Change::SwapLines(one, two) => {
            let (one, two) = (index(one), index(two));
            lines.swap(one, two);
        }
        _ => {}
    }
    lines.concat()
}

/// The next number after the place becomes another.
fn with_number(input: &[u8], place: usize, number: i64) -> Vec<u8> {
    let Some(start) = input[place..].iter().position(u8::is_ascii_digit).map(|found| place + found) else {
        return input.to_vec();
    };
    let length = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    [&input[..start], number.to_string().as_bytes(), &input[start + length..]].concat()
}
