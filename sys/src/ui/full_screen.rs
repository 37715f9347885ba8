//! The whole terminal as a screen: drawn on stdout, keys from stdin.

use std::io::{self, IsTerminal};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once};
use std::thread::{self, ThreadId};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use super::{Ui, is_dumb, locked};

/// Switches to the alternate screen, hides the cursor, and has pasted text marked.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h";
const LEAVE: &str = "\x1b[?2004l\x1b[?25h\x1b[?1049l";

/// Whether the terminal is in our hands.
static ENTERED: AtomicBool = AtomicBool::new(false);
/// The thread that draws.
static DRAWS: Mutex<Option<ThreadId>> = Mutex::new(None);

/// A key as it was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Ctrl(char),
    Enter,
    Esc,
    Tab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// What a person at the terminal did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Key(Key),
    Pasted(String),
    Resized,
}

/// The terminal until dropped. Whatever ends the process in order, the terminal is as it was before.
pub struct FullScreen {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
}

impl Ui {
    /// Tells whether a person can use a screen: stdin and stdout are a terminal that can be drawn on, and neither `--json` nor
    /// `--quiet` asks for something else.
    pub fn can_open_screen(&self) -> bool {
        !self.json() && !self.quiet() && !is_dumb() && io::stdin().is_terminal() && self.has_screen()
    }

    /// Tells whether stdout gets colors.
    pub fn has_colors(&self) -> bool {
        self.out.0
    }
}

impl FullScreen {
    pub fn enter() -> io::Result<FullScreen> {
        restore_on_panic();
        *locked(&DRAWS) = Some(thread::current().id());
        enable_raw_mode()?;
        ENTERED.store(true, Ordering::SeqCst);
        let terminal = write(ENTER).and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        // Nothing is dropped if this fails, so the terminal is given back here.
        Ok(FullScreen { terminal: terminal.inspect_err(|_| leave_screen())? })
    }

    /// Draws a frame; only cells that differ from the last frame are written.
    pub fn draw(&mut self, render: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| render(frame.buffer_mut())).map(drop)
    }

    /// Returns columns and rows.
    pub fn size(&self) -> (u16, u16) {
        self.terminal.size().map_or((0, 0), |size| (size.width, size.height))
    }

    /// Rings the bell.
    pub fn ring(&self) {
        let _ = write("\x07");
    }

    /// Asks the terminal to put the text into the clipboard (OSC 52); not every terminal does.
    pub fn copy(&self, text: &str) {
        let _ = write(&format!("\x1b]52;c;{}\x07", base64(text.as_bytes())));
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        leave_screen();
    }
}

/// Gives the terminal back as it was. Safe to call at any time and from any thread.
pub fn leave_screen() {
    if ENTERED.swap(false, Ordering::SeqCst) {
        let _ = write(LEAVE);
        let _ = disable_raw_mode();
    }
}

/// Waits for the next key, pasted text or new size of the terminal.
pub fn next_input() -> io::Result<Input> {
    loop {
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                if let Some(key) = key_of(key.code, key.modifiers) {
                    return Ok(Input::Key(key));
                }
            }
            Event::Paste(text) => return Ok(Input::Pasted(text)),
            Event::Resize(..) => return Ok(Input::Resized),
            _ => {}
        }
    }
}

fn key_of(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    Some(match code {
        KeyCode::Char(c) if modifiers.contains(KeyModifiers::CONTROL) => Key::Ctrl(c.to_ascii_lowercase()),
        KeyCode::Char(c) if !modifiers.contains(KeyModifiers::ALT) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Tab => Key::Tab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

/// A panic of the thread that draws must not leave its message on a screen that is then gone.
fn restore_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if *locked(&DRAWS) == Some(thread::current().id()) {
                leave_screen();
            }
            before(info);
        }));
    });
}

fn write(text: &str) -> io::Result<()> {
    super::deliver(&mut io::stdout(), text)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().enumerate().fold(0u32, |group, (at, byte)| group | u32::from(*byte) << (16 - 8 * at));
        for digit in 0..4 {
            let value = (group >> (18 - 6 * digit)) & 63;
            text.push(if digit <= chunk.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_all_lengths() {
        let all = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(all, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }

    #[test]
    fn a_screen_that_was_not_entered_is_not_left() {
        leave_screen();
        assert!(!ENTERED.load(Ordering::SeqCst));
    }
}
