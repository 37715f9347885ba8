//! What a program says, line by line.

use std::io::{self, Write};

/// Takes output apart into lines, in whatever pieces it comes; of a line that is longer the beginning counts.
pub struct Lines<F: FnMut(&[u8])> {
    longest: usize,
    line: Vec<u8>,
    each: F,
}

impl<F: FnMut(&[u8])> Lines<F> {
    pub fn new(longest: usize, each: F) -> Lines<F> {
        Lines { longest, line: Vec::new(), each }
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
            let room = self.longest.saturating_sub(self.line.len());
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

/// The last line may lack its end.
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
    fn lines_are_the_same_in_whatever_pieces_they_come() {
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
