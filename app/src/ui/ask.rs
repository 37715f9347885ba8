//! Questions to the person at the terminal.

use std::fmt;
use std::io::{self, BufRead, IsTerminal, Read};

use super::{Style, Ui, clean, deliver, one_line};

/// No answer that somebody typed is longer.
const LONGEST_ANSWER: u64 = 64 << 10;

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

/// One line; nothing where there is no more.
fn read_answer(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    from.by_ref().take(LONGEST_ANSWER).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let invalid = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if bytes.len() as u64 == LONGEST_ANSWER && !bytes.ends_with(b"\n") {
        from.skip_until(b'\n')?;
        return invalid("the answer is too long; give a shorter one, or a file by a flag");
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text.trim().to_string())),
        Err(_) => invalid("the answer is not UTF-8 text; give it again"),
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
}
