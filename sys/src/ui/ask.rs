//! Questions to the person at the terminal.

use std::fmt;
use std::io::{self, BufRead, IsTerminal, Read};

use super::paste::{Marked, goes_on, without_marks};
use super::{Style, Ui, clean, deliver, one_line};

/// No answer that somebody typed is longer.
const LONGEST_ANSWER: u64 = 64 << 10;
/// With its end. A terminal drops what comes after so much on one line.
const LONGEST_LINE: usize = 4096;

/// A question that nobody is there to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAnswer {
    pub question: String,
    /// The flag that answers it.
    pub flag: String,
    /// The terminal was there, but no more came from it.
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
    /// Whether somebody is there to be asked.
    pub fn can_ask(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Whether every question is answered with yes.
    pub fn yes(&self) -> bool {
        self.flags.yes
    }

    /// Asks for a yes. `flag` is what answers the question where nobody can be asked.
    pub fn confirm(&self, question: &str, flag: &str) -> Result<bool, NoAnswer> {
        if self.flags.yes {
            return Ok(true);
        }
        Ok(is_yes(&self.ask(&format!("{question} [y/N]"), flag)?))
    }

    /// As `ask`; what is pasted is one answer, whatever number of lines it has.
    pub fn ask_text(&self, question: &str, flag: &str) -> Result<String, NoAnswer> {
        let _until_answered = self.can_ask().then(Marked::begin);
        self.ask(question, flag)
    }

    /// A line, without the space around it.
    pub fn ask(&self, question: &str, flag: &str) -> Result<String, NoAnswer> {
        let no_answer = |ended| {
            let question = question.split(" [").next().unwrap_or_default();
            NoAnswer { question: one_line(question), flag: flag.to_string(), ended }
        };
        if !self.can_ask() {
            return Err(no_answer(false));
        }
        let prompt = format!("{} ", self.err.apply(Style::Strong, &clean(question)));
        loop {
            deliver(&mut io::stderr(), &prompt).map_err(|_| no_answer(true))?;
            match read_answer(&mut io::stdin().lock()) {
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

    /// All of the standard input, where it is no longer than that.
    pub fn input(&self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        io::stdin().lock().take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// One line, or more where they were pasted; nothing where there is no more.
fn read_answer(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let (mut bytes, mut trouble, mut pasting) = (Vec::new(), None, false);
    loop {
        let mut line = Vec::new();
        from.by_ref().take(LONGEST_ANSWER).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            break;
        }
        if line.len() == LONGEST_LINE && line.ends_with(b"\n") {
            trouble = Some("the terminal cuts so long a line; give it on several lines, or a file by a flag");
        } else if (bytes.len() + line.len()) as u64 >= LONGEST_ANSWER {
            trouble = Some("the answer is too long; give a shorter one, or a file by a flag");
            if !line.ends_with(b"\n") {
                from.skip_until(b'\n')?;
            }
        } else {
            bytes.extend(&line);
        }
        pasting = goes_on(pasting, &line);
        if !pasting {
            break;
        }
    }
    let invalid = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    match (trouble, String::from_utf8(bytes)) {
        (Some(what), _) => invalid(what),
        (None, Ok(text)) if text.is_empty() => Ok(None),
        (None, Ok(text)) => match without_marks(&text) {
            text if text.contains('\x1b') => {
                invalid("keys that move the cursor do not edit here; give the answer again")
            }
            text => Ok(Some(text.trim().to_string())),
        },
        (None, Err(_)) => invalid("the answer is not UTF-8 text; give it again"),
    }
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
    fn answers_are_lines_of_text_and_no_longer_than_anybody_types() {
        let huge = "x".repeat(LONGEST_ANSWER as usize + 5);
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
    fn what_is_pasted_is_one_answer() {
        let huge = "x\n".repeat(LONGEST_ANSWER as usize);
        let long = "y".repeat(LONGEST_LINE - 1);
        let text = format!(
            "left\x1b[D\nsee \x1b[200~one\n\ntwo\x1b[201~ and three\n\x1b[200~{huge}\x1b[201~\n{long}\nnext\n\x1b[200~a\x1b[201~\x1b[200~b\nc"
        );
        let mut from = text.as_bytes();
        assert!(read_answer(&mut from).unwrap_err().to_string().contains("cursor"));
        assert_eq!(read_answer(&mut from).unwrap().as_deref(), Some("see one\n\ntwo and three"));
        assert!(read_answer(&mut from).unwrap_err().to_string().contains("too long"));
        assert!(read_answer(&mut from).unwrap_err().to_string().contains("cuts"));
        assert_eq!(read_answer(&mut from).unwrap().as_deref(), Some("next"));
        assert_eq!(read_answer(&mut from).unwrap().as_deref(), Some("ab\nc"));
        assert_eq!(read_answer(&mut from).unwrap(), None);
    }
}
