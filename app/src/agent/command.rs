//! Any program that takes a prompt on its standard input, or the task's own command.

use std::path::PathBuf;

use super::{Said, Session};
use crate::error::{Error, ExitCode, Result};
use crate::proc::{Cmd, Ended, Exit, bounded_text};

/// A note or a reason longer than this is not one.
const SAID: (usize, usize) = (6 * 1024, 2 * 1024);
const FEEDBACK: (usize, usize) = (6 * 1024, 10 * 1024);

pub fn command(configured: &[String], session: &Session<'_>) -> Result<Cmd> {
    let cmd = match (configured, session.run) {
        ([program, args @ ..], _) => {
            let relative = program.contains('/') && !program.starts_with('/');
            let program = if relative { session.root.join(program) } else { PathBuf::from(program) };
            Cmd::new(program).args(args)
        }
        ([], Some(run)) => Cmd::shell(run),
        ([], None) => {
            return Err(Error::new(ExitCode::Failed, "there is no command to run for this task")
                .hint("Give the task a `run`, or the agent a `command` in .mahabharatha/config.yaml."));
        }
    };
    Ok(cmd.cwd(session.worktree).envs(session.env.clone()).stdin(session.prompt))
}

pub fn said(ended: &Ended) -> Said {
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
