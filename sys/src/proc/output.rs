//! Keeps output of any length in bounded memory.

use std::collections::VecDeque;

/// Most bytes that are dropped beside what is left out, so that no half of a line or a word is kept: half of a secret would
/// not be recognised as one.
const MAX_TRIMMED_BYTES: usize = 1024;
/// The same as a share of what is kept.
const MAX_TRIMMED_SHARE: usize = 4;

/// The beginning and the end of a stream, without its middle.
#[derive(Debug)]
pub struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    total: u64,
}

impl Kept {
    pub fn new(head_limit: usize, tail_limit: usize) -> Self {
        Kept { head: Vec::new(), tail: VecDeque::new(), head_limit, tail_limit, total: 0 }
    }

    /// Returns as much of `bytes` as fits, with a note where the middle is left out.
    pub fn of(bytes: &[u8], head_limit: usize, tail_limit: usize) -> Vec<u8> {
        let mut kept = Kept::new(head_limit, tail_limit);
        kept.push(bytes);
        kept.into_bytes()
    }

    pub fn push(&mut self, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        let room = self.head_limit - self.head.len();
        let (first, rest) = chunk.split_at(room.min(chunk.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    pub fn truncated(&self) -> bool {
        self.left_out() > 0
    }

    fn left_out(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    pub fn into_bytes(mut self) -> Vec<u8> {
        if !self.truncated() {
            self.head.extend(self.tail);
            return self.head;
        }
        let most = |kept: usize| MAX_TRIMMED_BYTES.min(kept / MAX_TRIMMED_SHARE);
        let (in_head, in_tail) = (most(self.head.len()), most(self.tail.len()));
        let after = self.head.iter().rev().take(in_head).take_while(|byte| **byte != b'\n').count();
        self.head.truncate(self.head.len() - after);
        let before = self.tail.iter().take(in_tail).position(|byte| *byte == b'\n').map_or(in_tail, |at| at + 1);
        self.tail.drain(..before);
        let line_break = if self.head.ends_with(b"\n") { "" } else { "\n" };
        let note = format!("{line_break}[… {} bytes left out …]\n", self.left_out());
        let mut bytes = self.head;
        bytes.extend_from_slice(note.as_bytes());
        bytes.extend(self.tail);
        bytes
    }
}

/// Converts output to bounded text for a prompt or a report.
pub fn bounded_text(bytes: &[u8], (head, tail): (usize, usize)) -> String {
    let text = String::from_utf8_lossy(bytes);
    String::from_utf8_lossy(&Kept::of(text.as_bytes(), head, tail)).into_owned()
}
