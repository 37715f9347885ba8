//! The only module that writes to stdout and stderr. Data goes to stdout, everything else to stderr.

mod ask;
mod clean;
mod edit;
mod full_screen;
mod pager;
mod screen;
mod terminal_mode;

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anstream::{AutoStream, ColorChoice};
use indicatif::{MultiProgress, ProgressDrawTarget};
use owo_colors::OwoColorize;
use serde::Serialize;

pub use self::ask::NoAnswer;
pub use self::clean::{clean, command_line, escape, fit, one_line, width};
pub use self::full_screen::{FullScreen, Input, Key, leave_screen, next_input};
pub use self::terminal_mode::restore_terminal;

/// Maximum redraw rate of the live display.
const REDRAWS_PER_SECOND: u8 = 20;

/// Command line flags for output.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flags {
    pub json: bool,
    pub quiet: bool,
    pub verbose: bool,
    pub yes: bool,
    pub color: Color,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    // Colors on a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    Always,
    Never,
}

pub struct Ui {
    flags: Flags,
    out: Paint,
    err: Paint,
    /// Live display at the bottom of the screen; everything else is written above it.
    bars: Mutex<Option<MultiProgress>>,
    /// Error of the first failed write to stdout.
    data_error: Mutex<Option<io::Error>>,
    /// Set when nothing more may be written.
    is_closed: AtomicBool,
}

/// Returns standard error, to pass on what a program writes there as it is.
pub fn errors() -> impl Write + Send + 'static {
    io::stderr()
}

impl Ui {
    pub fn new(flags: Flags) -> Self {
        Ui {
            flags,
            out: Paint(wants_color(flags.color, AutoStream::choice(&io::stdout()))),
            err: Paint(wants_color(flags.color, AutoStream::choice(&io::stderr()))),
            bars: Mutex::new(None),
            data_error: Mutex::new(None),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Stops all output. For a reader that does not read: a write would block forever.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    pub fn json(&self) -> bool {
        self.flags.json
    }

    pub fn quiet(&self) -> bool {
        self.flags.quiet
    }

    pub fn verbose(&self) -> bool {
        self.flags.verbose
    }

    /// Returns the colors for stdout.
    pub fn paint(&self) -> Paint {
        self.out
    }

    /// Returns the width of the terminal if stdout is one.
    pub fn columns(&self) -> Option<usize> {
        let size = io::stdout().is_terminal().then(|| rustix::termios::tcgetwinsize(io::stdout()).ok())??;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    }

    /// Writes data to stdout: text without control sequences, or JSON under `--json`.
    pub fn data(&self, text: &str) {
        if self.json() {
            self.json_data(text);
        } else {
            self.write(clean(text));
        }
    }

    /// Writes data to stdout as indented JSON.
    pub fn pretty(&self, data: &impl Serialize) {
        self.data(&serde_json::to_string_pretty(data).expect("data for programs has string keys only"));
    }

    /// Writes text to stdout that was cleaned and then coloured with `paint`.
    pub fn painted(&self, text: &str) {
        if self.json() {
            self.json_data(text);
        } else {
            self.write(self.without_sequences(text));
        }
    }

    /// Writes bytes to stdout as they are, unless stdout is a terminal.
    pub fn exact(&self, bytes: &[u8]) {
        if io::stdout().is_terminal() {
            self.write(clean(&String::from_utf8_lossy(bytes)));
            return;
        }
        let mut data_error = locked(&self.data_error);
        if data_error.is_none() && !self.is_closed.load(Ordering::Relaxed) {
            let mut stdout = io::stdout();
            *data_error = stdout.write_all(bytes).and_then(|()| stdout.flush()).err();
        }
    }

    /// Tells whether a person reads stdout: it is a terminal, or is to look like one (`--color always`).
    pub fn is_for_people(&self) -> bool {
        !self.json() && (io::stdout().is_terminal() || self.out.0)
    }

    /// Writes JSON to stdout, also without `--json`.
    pub fn json_data(&self, json: &str) {
        self.write(clean::escape_json(json));
    }

    /// Cleans painted text: only colors are kept, and only if we use colors.
    fn without_sequences(&self, painted: &str) -> String {
        if self.out.0 { clean::clean_but_colors(painted) } else { clean(painted) }
    }

    fn write(&self, mut text: String) {
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let mut data_error = locked(&self.data_error);
        if data_error.is_none() {
            *data_error = self.above_bars(|| deliver(&mut io::stdout(), &text)).err();
        }
    }

    /// Rings the terminal's bell, if messages go to a terminal.
    pub fn ring(&self) {
        if io::stderr().is_terminal() && !self.is_closed.load(Ordering::Relaxed) {
            let _ = deliver(&mut io::stderr(), "\u{7}");
        }
    }

    /// Whether `screen` draws over what it showed before.
    pub fn has_screen(&self) -> bool {
        self.screen_size().is_some()
    }

    fn screen_size(&self) -> Option<rustix::termios::Winsize> {
        let size = io::stdout().is_terminal().then(|| rustix::termios::tcgetwinsize(io::stdout()).ok())??;
        (size.ws_row > 1).then_some(size)
    }

    /// Writes painted text that replaces the previous screen. If stdout is not a terminal, appends it instead.
    pub fn screen(&self, text: &str) {
        match self.screen_size() {
            None => self.painted(text),
            Some(size) => {
                let text = &self.without_sequences(text);
                let mut data_error = locked(&self.data_error);
                if data_error.is_none() {
                    *data_error =
                        deliver(&mut io::stdout(), &redrawn(text, usize::from(size.ws_row), usize::from(size.ws_col)))
                            .err();
                }
            }
        }
    }

    /// Fails if some data could not be written. A closed pipe is not an error: the reader has seen enough.
    pub fn finish(&self) -> io::Result<()> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        match locked(&self.data_error).take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    /// Tells whether stdout cannot be written any more, so that a command that runs forever can end.
    pub fn reader_left(&self) -> bool {
        locked(&self.data_error).is_some()
    }

    pub fn note(&self, text: &str) {
        if !self.quiet() {
            self.tell(Style::Plain, text);
        }
    }

    pub fn warn(&self, text: &str) {
        self.tell_labelled(Style::Warn, "warning", text);
    }

    pub fn error(&self, text: &str) {
        self.tell_labelled(Style::Bad, "error", text);
    }

    /// Prints an error with its details and hint.
    pub fn print_error(&self, message: &str, details: &[String], hint: Option<&str>) {
        self.error(message);
        for detail in details {
            self.tell(Style::Plain, &format!("  {}", detail.replace('\n', "\n  ")));
        }
        if let Some(hint) = hint {
            self.tell_labelled(Style::Strong, "hint", hint);
        }
    }

    /// An error for programs: one line of JSON, the last on stderr.
    pub fn print_json_error(&self, error: &impl fmt::Display) {
        self.say(&clean::escape_json(&error.to_string()));
    }

    /// Prints a line to stderr, even with `--quiet`.
    pub fn tell(&self, style: Style, text: &str) {
        self.say(&self.err.apply(style, &clean(text)));
    }

    fn tell_labelled(&self, style: Style, label: &str, text: &str) {
        self.say(&format!("{}: {}", self.err.apply(style, label), clean(text)));
    }

    /// Writes to stderr. Ignores errors: there is nowhere to report them, and a run continues without a reader.
    fn say(&self, text: &str) {
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        let _ = self.above_bars(|| deliver(&mut io::stderr(), &format!("{text}\n")));
    }

    fn above_bars<T>(&self, write: impl FnOnce() -> T) -> T {
        match &*locked(&self.bars) {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }

    /// Opens the live display if stderr is a terminal. Other output appears above it.
    pub fn open_bars(&self) -> Option<MultiProgress> {
        if self.quiet() || self.json() || ProgressDrawTarget::stderr().is_hidden() {
            return None;
        }
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(screen::Screen::stderr()), REDRAWS_PER_SECOND);
        let bars = MultiProgress::with_draw_target(target);
        *locked(&self.bars) = Some(bars.clone());
        Some(bars)
    }

    pub fn close_bars(&self) {
        if let Some(bars) = locked(&self.bars).take() {
            // Fails only if the terminal is gone.
            let _ = bars.clear();
        }
    }
}

fn wants_color(asked: Color, found: ColorChoice) -> bool {
    match asked {
        Color::Auto => found != ColorChoice::Never,
        Color::Always => true,
        Color::Never => false,
    }
}

/// Returns cleaned text with escape sequences that draw it from the top left corner and clear what was there before.
fn redrawn(text: &str, rows: usize, columns: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let room = if lines.len() < rows { lines.len() } else { rows.saturating_sub(2) };
    let mut screen = String::from("\x1b[H");
    for line in &lines[..room] {
        // A line that wrapped would scroll the first ones off.
        let line = console::truncate_str(line, columns, "…");
        screen.push_str(&format!("{line}\x1b[K\n"));
    }
    if room < lines.len() {
        screen.push_str(&format!("… {} more lines\x1b[K\n", lines.len() - room));
    }
    screen + "\x1b[J"
}

fn deliver(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// Returns whether the terminal cannot be told where to draw.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    Good,
    Warn,
    Bad,
    Dim,
    Strong,
}

/// Applies colors, or none.
#[derive(Debug, Clone, Copy)]
pub struct Paint(bool);

impl Paint {
    pub const OFF: Paint = Paint(false);

    pub fn apply(self, style: Style, text: &str) -> String {
        if !self.0 {
            return text.to_string();
        }
        match style {
            Style::Plain => text.to_string(),
            Style::Good => text.green().to_string(),
            Style::Warn => text.yellow().to_string(),
            Style::Bad => text.red().to_string(),
            Style::Dim => text.dimmed().to_string(),
            Style::Strong => text.bold().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_color_flag_overrides_the_terminal() {
        assert!(wants_color(Color::Auto, ColorChoice::Always));
        assert!(!wants_color(Color::Auto, ColorChoice::Never));
        assert!(wants_color(Color::Always, ColorChoice::Never));
        assert!(!wants_color(Color::Never, ColorChoice::Always));
    }

    #[test]
    fn a_screen_is_overwritten_and_never_scrolls() {
        assert_eq!(redrawn("a\n\nb\n", 4, 80), "\x1b[Ha\x1b[K\n\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(redrawn("a\nb\nc\n", 3, 80), "\x1b[Ha\x1b[K\n… 2 more lines\x1b[K\n\x1b[J");
        assert_eq!(redrawn("\x1b[1mabcdef\x1b[0m\n", 4, 4), "\x1b[H\x1b[1mabc…\x1b[0m\x1b[K\n\x1b[J", "no line wraps");
        assert_eq!(redrawn("a\nb\n", 1, 4), "\x1b[H… 2 more lines\x1b[K\n\x1b[J");
    }

    #[test]
    fn a_closed_pipe_is_no_error_but_a_full_disk_is() {
        let ui = Ui::new(Flags::default());
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        *locked(&ui.data_error) = deliver(&mut writer, "text").err();
        assert!(ui.reader_left());
        assert!(ui.finish().is_ok());
        let mut full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        *locked(&ui.data_error) = deliver(&mut full, "text").err();
        assert_eq!(ui.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn our_colors_reach_the_terminal() {
        let painted = Paint(true).apply(Style::Bad, &clean("bad \x1b[2J"));
        assert_eq!(clean::clean_but_colors(&painted), painted);
        assert!(painted.contains("\x1b[31m") && !painted.contains("2J"), "{painted:?}");
        assert_eq!(Paint::OFF.apply(Style::Bad, "bad"), "bad");
    }
}
