//! A terminal for progress bars that may be closed while they are drawn.

use std::io;

use console::Term;
use indicatif::TermLike;

/// Draws on stderr and ignores errors. After the terminal was closed, `indicatif` would panic on an error, and the run
/// must still stop cleanly.
#[derive(Debug)]
pub struct Screen(Term);

impl Screen {
    pub fn stderr() -> Screen {
        Screen(Term::buffered_stderr())
    }
}

/// Drops an error: there is no terminal left to report it on.
fn ignore(_: io::Result<()>) -> io::Result<()> {
    Ok(())
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        self.0.size().1
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        ignore(self.0.move_cursor_up(lines))
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        ignore(self.0.move_cursor_down(lines))
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        ignore(self.0.move_cursor_right(columns))
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        ignore(self.0.move_cursor_left(columns))
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        ignore(self.0.write_line(text))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        ignore(self.0.write_str(text))
    }

    fn clear_line(&self) -> io::Result<()> {
        ignore(self.0.clear_line())
    }

    fn flush(&self) -> io::Result<()> {
        ignore(self.0.flush())
    }
}
