//! Edits one answer on one row of the terminal: cursor keys, deleting, and pasted text of several lines.
//!
//! Nothing here touches the terminal: keys come from a reader, and what to draw is returned.

use std::io::{self, BufRead};

use super::width;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Char(char),
    Enter,
    /// Ctrl-D.
    End,
    PasteBegin,
    PasteEnd,
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Backspace,
    Delete,
    DeleteWord,
    DeleteToStart,
    DeleteToEnd,
    /// Does nothing here.
    Other,
}

/// How an edited line ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Edited {
    Line(String),
    TooLong,
    /// The input ended.
    Ended,
}

/// The line, the cursor in it, and its place on the screen.
pub(super) struct Editor {
    text: Vec<char>,
    at: usize,
    pasting: bool,
    max_bytes: usize,
    bytes: usize,
    /// Columns before the line.
    start: usize,
    /// Columns for the line.
    room: usize,
}

impl Editor {
    pub fn new(start: usize, columns: usize, max_bytes: usize) -> Editor {
        let room = columns.saturating_sub(start + 1).max(1);
        Editor { text: Vec::new(), at: 0, pasting: false, max_bytes, bytes: 0, start, room }
    }

    /// Reads keys until the line ends. Calls `draw` with what to write to the terminal.
    pub fn read(mut self, from: &mut impl BufRead, mut draw: impl FnMut(&str)) -> io::Result<Edited> {
        loop {
            let key = match read_key(from)? {
                None => return Ok(Edited::Ended),
                Some(Key::End) if self.text.is_empty() => return Ok(Edited::Ended),
                Some(Key::Enter) if !self.pasting => break,
                Some(key) => key,
            };
            let drawn = self.press(key);
            if !self.pasting {
                draw(&drawn);
            }
        }
        draw("\n");
        Ok(if self.bytes > self.max_bytes { Edited::TooLong } else { Edited::Line(self.text.into_iter().collect()) })
    }

    /// Applies a key and returns what to write.
    fn press(&mut self, key: Key) -> String {
        match key {
            Key::Char(c) => return self.insert(c),
            Key::Enter => return self.insert('\n'),
            Key::PasteBegin => self.pasting = true,
            Key::PasteEnd => self.pasting = false,
            _ if self.pasting => {}
            Key::Left => self.at = self.at.saturating_sub(1),
            Key::Right => self.at = self.text.len().min(self.at + 1),
            Key::WordLeft => self.at = self.word_left(),
            Key::WordRight => self.at = self.word_right(),
            Key::LineStart => self.at = 0,
            Key::LineEnd => self.at = self.text.len(),
            Key::Backspace => self.delete(self.at.saturating_sub(1), self.at),
            Key::Delete | Key::End => self.delete(self.at, self.text.len().min(self.at + 1)),
            Key::DeleteWord => self.delete(self.word_left(), self.at),
            Key::DeleteToStart => self.delete(0, self.at),
            Key::DeleteToEnd => self.delete(self.at, self.text.len()),
            Key::Other => return String::new(),
        }
        self.row()
    }

    fn insert(&mut self, c: char) -> String {
        self.bytes += c.len_utf8();
        if self.bytes > self.max_bytes {
            return "\x07".to_owned();
        }
        self.text.insert(self.at, c);
        self.at += 1;
        let fits = self.at == self.text.len() && self.text.len() < self.room && columns_of(&self.text) < self.room;
        if self.pasting {
            String::new()
        } else if fits {
            shown(c).to_string()
        } else {
            self.row()
        }
    }

    fn delete(&mut self, from: usize, to: usize) {
        self.bytes -= self.text.drain(from..to).map(char::len_utf8).sum::<usize>();
        self.at = from;
    }

    fn word_left(&self) -> usize {
        let spaces = self.text[..self.at].iter().rev().take_while(|c| c.is_whitespace()).count();
        let word = self.text[..self.at - spaces].iter().rev().take_while(|c| !c.is_whitespace()).count();
        self.at - spaces - word
    }

    fn word_right(&self) -> usize {
        let spaces = self.text[self.at..].iter().take_while(|c| c.is_whitespace()).count();
        let word = self.text[self.at + spaces..].iter().take_while(|c| !c.is_whitespace()).count();
        self.at + spaces + word
    }

    /// Draws the part of the line around the cursor.
    fn row(&self) -> String {
        let mut used = 0;
        let mut fits = |c: &&char| {
            used += columns_of(&[**c]);
            used < self.room
        };
        let before = self.text[..self.at].iter().rev().take_while(&mut fits).count();
        let before = &self.text[self.at - before..self.at];
        used = columns_of(before);
        let mut fits = |c: &&char| {
            used += columns_of(&[**c]);
            used < self.room
        };
        let after = self.text[self.at..].iter().take_while(&mut fits);
        let (start, cursor) = (self.start + 1, self.start + columns_of(before) + 1);
        let [before, after]: [String; 2] =
            [before.iter().copied().map(shown).collect(), after.copied().map(shown).collect()];
        format!("\x1b[{start}G{before}{after}\x1b[K\x1b[{cursor}G")
    }
}

fn columns_of(text: &[char]) -> usize {
    text.iter().map(|c| width(shown(*c).encode_utf8(&mut [0; 4]))).sum()
}

/// Returns the character to display.
fn shown(c: char) -> char {
    match c {
        '\n' => '↵',
        '\t' => ' ',
        c => c,
    }
}

/// Reads one key; returns `None` at the end of the input.
fn read_key(from: &mut impl BufRead) -> io::Result<Option<Key>> {
    let Some(byte) = next_byte(from)? else { return Ok(None) };
    Ok(Some(match byte {
        b'\r' | b'\n' => Key::Enter,
        0x01 => Key::LineStart,
        0x02 => Key::Left,
        0x04 => Key::End,
        0x05 => Key::LineEnd,
        0x06 => Key::Right,
        0x08 | 0x7f => Key::Backspace,
        b'\t' => Key::Char('\t'),
        0x0b => Key::DeleteToEnd,
        0x15 => Key::DeleteToStart,
        0x17 => Key::DeleteWord,
        0x1b => return sequence(from),
        0..0x20 => Key::Other,
        first => character(first, from)?,
    }))
}

/// Reads what follows an escape character.
fn sequence(from: &mut impl BufRead) -> io::Result<Option<Key>> {
    match from.fill_buf()?.first() {
        Some(b'[' | b'O') => from.consume(1),
        // The Escape key alone, or with another key that counts by itself.
        _ => return Ok(Some(Key::Other)),
    }
    let mut parameters = Vec::new();
    let last = loop {
        match next_byte(from)? {
            None => return Ok(None),
            Some(byte @ 0x40..=0x7e) => break byte,
            Some(byte) => parameters.push(byte),
        }
    };
    let with_modifier = parameters.contains(&b';');
    Ok(Some(match (parameters.as_slice(), last) {
        (_, b'D') if with_modifier => Key::WordLeft,
        (_, b'C') if with_modifier => Key::WordRight,
        (_, b'D') => Key::Left,
        (_, b'C') => Key::Right,
        (_, b'H') | (b"1" | b"7", b'~') => Key::LineStart,
        (_, b'F') | (b"4" | b"8", b'~') => Key::LineEnd,
        (b"3", b'~') => Key::Delete,
        (b"200", b'~') => Key::PasteBegin,
        (b"201", b'~') => Key::PasteEnd,
        _ => Key::Other,
    }))
}

/// Reads the rest of a UTF-8 character. Bytes that are none become the replacement character, so that it is seen.
fn character(first: u8, from: &mut impl BufRead) -> io::Result<Key> {
    let mut bytes = vec![first];
    let length = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    while bytes.len() < length && from.fill_buf()?.first().is_some_and(|byte| byte & 0xc0 == 0x80) {
        bytes.extend(next_byte(from)?);
    }
    let c = String::from_utf8_lossy(&bytes).chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
    Ok(if c.is_control() { Key::Other } else { Key::Char(c) })
}

fn next_byte(from: &mut impl BufRead) -> io::Result<Option<u8>> {
    let byte = from.fill_buf()?.first().copied();
    if byte.is_some() {
        from.consume(1);
    }
    Ok(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 64;

    fn edit(keys: &[u8]) -> (Edited, String) {
        let mut drawn = String::new();
        let edited = Editor::new(2, 12, MAX).read(&mut &*keys, |text| drawn.push_str(text)).unwrap();
        (edited, drawn)
    }

    #[track_caller]
    fn assert_line(keys: &str, expected: &str) {
        assert_eq!(edit(keys.as_bytes()).0, Edited::Line(expected.to_owned()), "{keys:?}");
    }

    #[test]
    fn keys_move_and_delete() {
        assert_line("acd\x1b[D\x1b[Db\n", "abcd");
        assert_line("b\x1bOHa\x1bOFc\r", "abc");
        assert_line("b\x1b[1~a\x1b[4~c\x1b[3~\n", "abc");
        assert_line("bx\x01a\x05\x7fc\x02\x04d\n", "abd");
        assert_line("one two  \x17three\x1b[1;5D\x1b[1;5D1 \n", "1 one three");
        assert_line("one two\x02\x02\x02\x0b\x15now\n", "now");
        assert_line("\x1b[A\x1b[B\x1bxy\x00\x03\n", "xy");
        assert_line("\x7f\x17\x15\x0b\x1b[3~\x1b[D\x1b[C\n", "");
        assert_line("没人\x1b[D\x7f有\n", "有人");
    }

    #[test]
    fn pasted_lines_are_text() {
        assert_line("see \x1b[200~one\n\ntwo\x01\x1b[201~ and three\n", "see one\n\ntwo and three");
        assert_line("\x1b[200~a\x1b[201~\x1b[200~b\rc\x1b[201~\n", "ab\nc");
    }

    #[test]
    fn the_end_of_input_and_a_long_line_are_reported() {
        assert_eq!(edit(b"").0, Edited::Ended);
        assert_eq!(edit(b"\x04").0, Edited::Ended);
        assert_eq!(edit(b"half").0, Edited::Ended);
        assert_eq!(edit(&[vec![b'x'; MAX + 1], b"\n".to_vec()].concat()).0, Edited::TooLong);
        assert_eq!(edit(b"\xff\n").0, Edited::Line("\u{fffd}".to_owned()));
    }

    #[test]
    fn a_line_stays_on_its_row() {
        assert_eq!(edit(b"abc\n").1, "abc\n", "what is typed at the end is echoed");
        assert_eq!(edit(b"ab\x1b[Dx\n").1, "ab\x1b[3Gab\x1b[K\x1b[4G\x1b[3Gaxb\x1b[K\x1b[5G\n");
        let (_, drawn) = edit(b"0123456789\n");
        assert!(drawn.ends_with("\x1b[3G23456789\x1b[K\x1b[11G\n"), "{drawn:?}");
        let (_, drawn) = edit(b"\x1b[200~a\nb\x1b[201~\n");
        assert_eq!(drawn, "\x1b[3Ga↵b\x1b[K\x1b[6G\n");
    }
}
