//! Bracketed paste: the terminal marks where pasted text begins and ends, so that its line breaks are not taken as
//! answers to the next questions.

use std::io;
use std::sync::Mutex;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::{deliver, locked};

const BEGIN: &str = "\x1b[200~";
const END: &str = "\x1b[201~";

/// Terminal modes before bracketed paste was enabled.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Keeps bracketed paste enabled until dropped.
pub(super) struct PasteMarkers;

impl PasteMarkers {
    pub fn enable() -> PasteMarkers {
        let is_dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb");
        if let (false, Ok(before)) = (is_dumb, tcgetattr(io::stdin())) {
            let mut modes = before.clone();
            // Echo the markers unchanged: terminals do not display them.
            modes.local_modes.remove(LocalModes::ECHOCTL);
            if tcsetattr(io::stdin(), OptionalActions::Now, &modes).is_ok() {
                *locked(&BEFORE) = Some(before);
                let _ = deliver(&mut io::stderr(), "\x1b[?2004h");
            }
        }
        PasteMarkers
    }
}

impl Drop for PasteMarkers {
    fn drop(&mut self) {
        restore("");
    }
}

/// Restores the terminal modes from before a question. Must be called before the process ends during a question.
pub fn restore_terminal() {
    restore("\n");
}

fn restore(line_end: &str) {
    if let Some(before) = locked(&BEFORE).take() {
        let _ = deliver(&mut io::stderr(), &format!("\x1b[?2004l{line_end}"));
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}

/// Tells whether the pasted text continues after this line.
pub(super) fn is_pasting(pasting: bool, line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    match (line.rfind(BEGIN), line.rfind(END)) {
        (None, None) => pasting,
        (begin, end) => begin > end,
    }
}

pub(super) fn strip_markers(text: &str) -> String {
    text.replace(BEGIN, "").replace(END, "")
}
