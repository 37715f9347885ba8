//! Cost of agent calls outside of runs: one JSON Lines file per feature, and one for the project.
//!
//! A question is recorded before it is asked. If its second line is missing, the call did not finish and its cost is
//! unknown.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mahabharatha_core::cost::Cost;
use serde::{Deserialize, Serialize};

use super::lines::append_line;
use crate::bounded::{self, LARGE_FILE_BYTES};
use crate::error::{Error, Kind, Result, io};

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Record {
    Asked { id: String, at: Timestamp, phase: String, agent: String },
    Answered { id: String, cost: Cost },
}

/// A recorded question that is about to be asked.
#[derive(Debug)]
#[must_use = "a question whose cost is not recorded counts as one of unknown cost"]
pub struct Question {
    path: PathBuf,
    id: String,
}

impl Question {
    /// Records that an agent is about to be asked.
    pub fn record(path: &Path, phase: &str, agent: &str) -> Result<Question> {
        let at = Timestamp::now();
        let id = format!("{}-{}", std::process::id(), at.as_nanosecond());
        let record = Record::Asked { id: id.clone(), at, phase: phase.to_owned(), agent: agent.to_owned() };
        append_line(path, &record)?;
        Ok(Question { path: path.to_owned(), id })
    }

    /// Records the cost of the question, whether it was answered or not.
    pub fn cost(self, cost: Cost) -> Result<()> {
        append_line(&self.path, &Record::Answered { id: self.id, cost })
    }
}

/// Returns the total cost of all questions in the file; zero if there is no file.
pub fn total(path: &Path) -> Result<Cost> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Cost::default()),
        Ok(found) if !found.is_file() => {
            return Err(Error::new(Kind::Invalid, format!("{} is not a file", path.display()))
                .hint("Move it away; the cost of planning so far is then not counted."));
        }
        _ => {}
    }
    let bytes = bounded::read(path, LARGE_FILE_BYTES).map_err(io("read", path))?;
    let (mut questions, mut unreadable) = (BTreeMap::new(), Cost::default());
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(Record::Asked { id, .. }) => drop(questions.entry(id).or_insert_with(Cost::unknown)),
            Ok(Record::Answered { id, cost }) => drop(questions.insert(id, cost)),
            // Truncated by a crash or edited by hand: a question was asked, at unknown cost.
            Err(_) => unreadable = Cost::unknown(),
        }
    }
    Ok(questions.into_values().sum::<Cost>() + unreadable)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x/planning.jsonl");
        (dir, path)
    }

    #[test]
    fn questions_add_up() {
        let (_dir, path) = place();
        assert!(total(&path).unwrap().is_zero());
        for (usd, tokens) in [(0.25, 100), (0.5, 20)] {
            Question::record(&path, "plan", "claude").unwrap().cost(Cost::of(Some(usd), tokens)).unwrap();
        }
        assert_eq!(total(&path).unwrap(), Cost::of(Some(0.75), 120));
    }

    #[test]
    fn a_question_without_an_answer_has_an_unknown_cost() {
        let (_dir, path) = place();
        drop(Question::record(&path, "plan", "claude").unwrap());
        assert_eq!(total(&path).unwrap(), Cost::unknown());
        Question::record(&path, "design", "claude").unwrap().cost(Cost::of(Some(0.5), 7)).unwrap();
        assert_eq!(total(&path).unwrap(), Cost::of(Some(0.5), 7) + Cost::unknown());
    }

    proptest! {
        #[test]
        fn whatever_the_file_holds_is_read(start in 0..200_usize, noise in any::<Vec<u8>>()) {
            let (_dir, path) = place();
            Question::record(&path, "plan", "claude").unwrap().cost(Cost::of(Some(0.25), 3)).unwrap();
            let mut bytes = fs::read(&path).unwrap();
            bytes.splice(start.min(bytes.len())..start.min(bytes.len()), noise);
            fs::write(&path, bytes).unwrap();
            prop_assert!(total(&path).unwrap().known_usd().is_finite());
        }
    }

    #[test]
    fn lines_after_a_torn_line_are_read() {
        let (_dir, path) = place();
        Question::record(&path, "plan", "claude").unwrap().cost(Cost::of(Some(0.25), 3)).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], b"{\"record\":\"as"].concat()).unwrap();
        Question::record(&path, "plan", "claude").unwrap().cost(Cost::of(Some(0.5), 4)).unwrap();
        assert_eq!(total(&path).unwrap(), Cost::of(Some(0.75), 7) + Cost::unknown());
    }
}
