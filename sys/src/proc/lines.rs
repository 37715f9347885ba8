//! Splits a program's output into lines.

use std::io::{self, Write};

/// Calls `each` for every line of the output written to it, however the output is chunked. Longer lines are cut.
pub struct Lines<F: FnMut(&[u8])> {
    max_bytes: usize,
    line: Vec<u8>,
    each: F,
}

impl<F: FnMut(&[u8])> Lines<F> {
    pub fn new(max_bytes: usize, each: F) -> Lines<F> {
        Lines { max_bytes, line: Vec::new(), each }
    }

    fn end_line(&mut self) {
        (self.each)(&self.line);
        self.line.clear();
    }
}

impl<F: FnMut(&[u8])> Write for Lines<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = self.max_bytes.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() < piece.len() {
                self.end_line();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reports a last line that has no line break.
impl<F: FnMut(&[u8])> Drop for Lines<F> {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.end_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_depend_on_chunk_size() {
        let text = b"one\n\ntwo, which is long\r\nthree";
        for size in 1..text.len() {
            let mut heard = Vec::new();
            let mut lines = Lines::new(8, |line| heard.push(String::from_utf8_lossy(line).into_owned()));
            text.chunks(size).for_each(|piece| lines.write_all(piece).unwrap());
            drop(lines);
            assert_eq!(heard, ["one", "", "two, whi", "three"], "{size}");
        }
    }
}
