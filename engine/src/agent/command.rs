//! Drives any program that takes a prompt on its standard input, or the task's own `run` command.

use mahabharatha_core::cost::Cost;
use mahabharatha_core::excerpt::{failure_report, last_words};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc::{Cmd, Ended, Exit, bounded_text};

use super::{Agent, AgentOutcome, FEEDBACK_BYTES, Session};

/// Bytes kept from the start and the end of a note or reason.
const NOTE_BYTES: (usize, usize) = (6 * 1024, 2 * 1024);

pub struct Program {
    configured: Vec<String>,
}

impl Program {
    pub fn new(configured: &[String]) -> Program {
        Program { configured: configured.to_vec() }
    }
}

impl Agent for Program {
    fn command(&self, session: Session<'_>) -> Result<Cmd> {
        let cmd = match (self.configured.as_slice(), &session.task.run) {
            ([program, args @ ..], _) => super::program(session.sandbox, session.root, program, args)?,
            ([], Some(run)) => Cmd::shell(run),
            ([], None) => {
                return Err(Error::new(Kind::Failed, "this task has no command to run")
                    .hint("Set `run` in the task, or `command` for the agent in .mahabharatha/config.yaml."));
            }
        };
        Ok(cmd.envs(session.env).stdin(session.prompt.text()))
    }

    fn shared_prefix(&self, _session: &Session<'_>) -> Option<String> {
        None
    }

    fn outcome(&self, ended: &Ended) -> AgentOutcome {
        let text = || bounded_text(&ended.stdout, NOTE_BYTES).trim().to_owned();
        match ended.status {
            Exit::Code(0) => AgentOutcome::Done,
            // A checkpoint needs a note to continue from; without one, 2 is also how a shell or `make` reports a
            // failure.
            Exit::Code(2) if !text().is_empty() => AgentOutcome::Checkpoint(text()),
            Exit::Code(3) => AgentOutcome::Blocked(last_words_first(&text())),
            Exit::Code(4) => AgentOutcome::Escalated(last_words_first(&text())),
            status => {
                let output = [ended.stdout.as_slice(), ended.stderr.as_slice()].concat();
                let output = bounded_text(&output, FEEDBACK_BYTES);
                AgentOutcome::Failed(failure_report(&format!("The agent failed with {status}"), None, &output))
            }
        }
    }

    fn clean_up(&self) {}

    fn reported_cost(&self) -> Option<Cost> {
        None
    }

    fn last_words(&self, ended: &Ended) -> Option<String> {
        let of = |output: &[u8]| last_words(&String::from_utf8_lossy(output));
        of(&ended.stdout).or_else(|| of(&ended.stderr))
    }

    fn decisions(&self, ended: &Ended) -> Vec<String> {
        super::decisions_in(&String::from_utf8_lossy(&ended.stdout))
    }
}

/// A program logs as it goes and says last why it cannot go on. Readers see the first paragraph first.
fn last_words_first(output: &str) -> String {
    match last_words(output) {
        Some(words) if words != output => format!("{words}\n\n{output}"),
        _ => output.to_owned(),
    }
}
