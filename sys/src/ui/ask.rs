//! Asks the user questions at the terminal.

use std::fmt;
use std::io::{self, BufRead, IsTerminal, Read};

use super::edit::{Edited, Editor};
use super::terminal_mode::EditMode;
use super::{Style, Ui, clean, deliver, one_line, width};

/// Maximum length of an answer, well above anything a user types.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// Maximum length of a line, including the line break: a terminal that edits lines itself drops everything beyond it.
const MAX_LINE_BYTES: usize = 4096;
/// Minimum number of columns for an answer beside its question.
const MIN_COLUMNS: usize = 20;

/// A question that could not be asked, or got no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAnswer {
    pub question: String,
    /// The flag that answers it.
    pub flag: String,
    /// There was a terminal, but its input ended.
    pub ended: bool,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.ended { "got no answer" } else { "cannot be asked without a terminal" };
        write!(f, "\"{}\" {why}; answer it with {}", self.question, self.flag)
    }
}

impl std::error::Error for NoAnswer {}

impl Ui {
    /// Tells whether the user can be asked: stdin and stderr are terminals.
    pub fn can_ask(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Tells whether every question is answered with yes (`--yes`).
    pub fn yes(&self) -> bool {
        self.flags.yes
    }

    /// Asks a yes/no question. `flag` is the flag that answers the question without a terminal.
    pub fn confirm(&self, question: &str, flag: &str) -> Result<bool, NoAnswer> {
        if self.flags.yes {
            return Ok(true);
        }
        Ok(is_yes(&self.ask(&format!("{question} [y/N]"), flag)?))
    }

    /// Asks for text like `ask`, but lets the user edit it, and takes pasted text of several lines as one answer. The
    /// caller must make sure that signals call `restore_terminal`.
    pub fn ask_text(&self, question: &str, flag: &str) -> Result<String, NoAnswer> {
        self.ask_with(question, flag, true)
    }

    /// Asks for a line and returns it without surrounding whitespace.
    pub fn ask(&self, question: &str, flag: &str) -> Result<String, NoAnswer> {
        self.ask_with(question, flag, false)
    }

    fn ask_with(&self, question: &str, flag: &str, edits: bool) -> Result<String, NoAnswer> {
        let no_answer = |ended| {
            let question = question.split(" [").next().unwrap_or_default();
            NoAnswer { question: one_line(question), flag: flag.to_string(), ended }
        };
        if !self.can_ask() {
            return Err(no_answer(false));
        }
        let question = clean(question);
        let mode = edits.then(EditMode::enable).flatten();
        loop {
            let answer = match &mode {
                Some(_) => self.edit_answer(&question),
                None => self.type_answer(&question),
            };
            match answer {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {
                    let _ = deliver(&mut io::stderr(), "\n");
                    return Err(no_answer(true));
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => self.warn(&error.to_string()),
                Err(_) => return Err(no_answer(true)),
            }
        }
    }

    /// Asks on a terminal that shows nothing by itself.
    fn edit_answer(&self, question: &str) -> io::Result<Option<String>> {
        let columns = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        let columns = if columns == 0 { 80 } else { columns };
        let mut prompt = format!("{} ", self.err.apply(Style::Strong, question));
        let mut start = width(question.lines().next_back().unwrap_or_default()) + 1;
        if start + MIN_COLUMNS > columns {
            prompt.push_str("\n> ");
            start = 2;
        }
        deliver(&mut io::stderr(), &prompt)?;
        let editor = Editor::new(start, columns, MAX_ANSWER_BYTES as usize);
        // Without the terminal the next key cannot be read either.
        let draw = |text: &str| drop(deliver(&mut io::stderr(), text));
        match editor.read(&mut io::stdin().lock(), draw)? {
            Edited::Line(line) => Ok(Some(line.trim().to_string())),
            Edited::TooLong => Err(too_long()),
            Edited::Ended => Ok(None),
        }
    }

    /// Asks on a terminal that lets the user type, and at most delete.
    fn type_answer(&self, question: &str) -> io::Result<Option<String>> {
        deliver(&mut io::stderr(), &format!("{} ", self.err.apply(Style::Strong, question)))?;
        read_answer(&mut io::stdin().lock())
    }

    /// Reads standard input, at most one byte more than `limit`, so that the caller can tell that it is too long.
    pub fn input(&self, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        io::stdin().lock().take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Reads one line; returns `None` at the end of input.
fn read_answer(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    from.by_ref().take(MAX_ANSWER_BYTES).read_until(b'\n', &mut line)?;
    if line.len() == MAX_LINE_BYTES && line.ends_with(b"\n") {
        return Err(invalid("the terminal cuts off a line this long; use several lines, or a file and a flag"));
    }
    if line.len() as u64 == MAX_ANSWER_BYTES {
        if !line.ends_with(b"\n") {
            from.skip_until(b'\n')?;
        }
        return Err(too_long());
    }
    match String::from_utf8(line) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) if text.contains('\x1b') => Err(invalid("cursor keys do not work here; enter the answer again")),
        Ok(text) => Ok(Some(text.trim().to_string())),
        Err(_) => Err(invalid("the answer is not UTF-8 text; enter it again")),
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn too_long() -> io::Error {
    invalid("the answer is too long; use a shorter one, or a file and a flag")
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::super::Flags;
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        assert!(["y", "Y\n", " yes \n"].into_iter().all(is_yes));
        assert!(!["", "\n", "n", "no", "yep", "y y"].into_iter().any(is_yes));
    }

    #[test]
    fn yes_answers_every_question() {
        let ui = Ui::new(Flags { yes: true, ..Flags::default() });
        assert_eq!(ui.confirm("Remove it?", "--yes"), Ok(true));
    }

    #[test]
    fn a_question_that_cannot_be_asked_names_its_flag() {
        let error = NoAnswer { question: "Remove it?".to_string(), flag: "--yes".to_string(), ended: false };
        insta::assert_snapshot!(error, @r#""Remove it?" cannot be asked without a terminal; answer it with --yes"#);
    }

    #[test]
    fn answers_are_lines_of_text_of_limited_length() {
        let huge = "x".repeat(MAX_ANSWER_BYTES as usize + 5);
        let text = [b" one \n\n".to_vec(), huge.into_bytes(), b"\n\xff\nlast".to_vec()].concat();
        let mut from = text.as_slice();
        assert_eq!(read_answer(&mut from).unwrap().as_deref(), Some("one"));
        assert_eq!(read_answer(&mut from).unwrap().as_deref(), Some(""));
        assert!(read_answer(&mut from).unwrap_err().to_string().contains("too long"));
        assert!(read_answer(&mut from).unwrap_err().to_string().contains("UTF-8"));
        assert_eq!(read_answer(&mut from).unwrap().as_deref(), Some("last"));
        assert_eq!(read_answer(&mut from).unwrap(), None);
    }

    #[test]
    fn what_a_plain_terminal_cannot_take_is_asked_again() {
        let long = "y".repeat(MAX_LINE_BYTES - 1);
        let text = format!("left\x1b[D\n{long}\nnext\n");
        let mut from = text.as_bytes();
        assert!(read_answer(&mut from).unwrap_err().to_string().contains("cursor"));
        assert!(read_answer(&mut from).unwrap_err().to_string().contains("cuts off"));
        assert_eq!(read_answer(&mut from).unwrap().as_deref(), Some("next"));
        assert_eq!(read_answer(&mut from).unwrap(), None);
    }
}
