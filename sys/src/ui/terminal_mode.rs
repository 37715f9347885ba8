//! Sets the terminal up for editing an answer, and restores it.

use std::io;
use std::sync::Mutex;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::{deliver, is_dumb, locked};

/// Terminal modes before a question.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Until dropped, the terminal passes on every key and shows none.
pub(super) struct EditMode(());

impl EditMode {
    /// Returns none if the terminal cannot be told where to draw. Until dropped, the terminal also marks where pasted
    /// text begins and ends, so that its line breaks are not taken as answers to the next questions.
    pub fn enable() -> Option<EditMode> {
        let before = if is_dumb() { None } else { tcgetattr(io::stdin()).ok() }?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &modes).ok()?;
        *locked(&BEFORE) = Some(before);
        let _ = deliver(&mut io::stderr(), "\x1b[?2004h");
        Some(EditMode(()))
    }
}

impl Drop for EditMode {
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
