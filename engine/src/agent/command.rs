//! Any program that takes a prompt on its standard input, or the task's own command.

use mahabharatha_core::cost::Cost;
use mahabharatha_sys::error::{Error, ExitCode, Result};
use mahabharatha_sys::proc::{Cmd, Ended, Exit, bounded_text};

use super::{Agent, Said, Session};

/// A note or a reason longer than this is not one.
const SAID: (usize, usize) = (6 * 1024, 2 * 1024);
const FEEDBACK: (usize, usize) = (6 * 1024, 10 * 1024);

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
            ([program, args @ ..], _) => super::program(session.root, program, args),
            ([], Some(run)) => Cmd::shell(run),
            ([], None) => {
                return Err(Error::new(ExitCode::Failed, "there is no command to run for this task")
                    .hint("Give the task a `run`, or the agent a `command` in .mahabharatha/config.yaml."));
            }
        };
        Ok(cmd.cwd(session.worktree).envs(session.env).stdin(session.prompt.text()))
    }

    fn shared_prefix(&self, _session: &Session<'_>) -> Option<String> {
        None
    }

    fn said(&self, ended: &Ended) -> Said {
        let text = || bounded_text(&ended.stdout, SAID).trim().to_owned();
        match ended.status {
            Exit::Code(0) => Said::Done,
            // Without a note nobody can go on from it; a shell or `make` that failed ends with 2 as well.
            Exit::Code(2) if !text().is_empty() => Said::Checkpoint(text()),
            Exit::Code(3) => Said::Blocked(text()),
            Exit::Code(4) => Said::Escalated(text()),
            status => {
                let output = [ended.stdout.as_slice(), ended.stderr.as_slice()].concat();
                Said::Failed(format!("The agent failed with {status}.\n\n{}", bounded_text(&output, FEEDBACK)))
            }
        }
    }

    fn reported_cost(&self) -> Option<Cost> {
        None
    }

    fn decisions(&self, ended: &Ended) -> Vec<String> {
        super::decisions_in(&String::from_utf8_lossy(&ended.stdout))
    }
}
