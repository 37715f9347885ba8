//! Text that is pasted into a question: the terminal marks where it begins and ends, so that its line breaks are not taken
//! for answers to what is asked next.

use std::io;
use std::sync::Mutex;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::{deliver, locked};

const BEGIN: &str = "\x1b[200~";
const END: &str = "\x1b[201~";

/// How the terminal was before it was asked for marks.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The terminal marks what is pasted while this lives.
pub(super) struct Marked;

impl Marked {
    pub fn begin() -> Marked {
        let is_dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb");
        if let (false, Ok(before)) = (is_dumb, tcgetattr(io::stdin())) {
            let mut modes = before.clone();
            // The marks are echoed as they are, which no terminal shows.
            modes.local_modes.remove(LocalModes::ECHOCTL);
            if tcsetattr(io::stdin(), OptionalActions::Now, &modes).is_ok() {
                *locked(&BEFORE) = Some(before);
                let _ = deliver(&mut io::stderr(), "\x1b[?2004h");
            }
        }
        Marked
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        restore("");
    }
}

/// The terminal as it was before a question, for who ends the process in the middle of one.
pub fn restore_terminal() {
    restore("\n");
}

fn restore(line_end: &str) {
    if let Some(before) = locked(&BEFORE).take() {
        let _ = deliver(&mut io::stderr(), &format!("\x1b[?2004l{line_end}"));
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}

/// Whether more of what is pasted comes after this line.
pub(super) fn goes_on(pasting: bool, line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    match (line.rfind(BEGIN), line.rfind(END)) {
        (None, None) => pasting,
        (begin, end) => begin > end,
    }
}

pub(super) fn without_marks(text: &str) -> String {
    text.replace(BEGIN, "").replace(END, "")
}
