//! How a coding agent is driven. One file for each kind.

mod ask;
pub mod claude;
mod command;
mod event;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mahabharatha_core::config::{self, AgentConfig, Config};
use mahabharatha_core::cost::Cost;
use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::Time;
use mahabharatha_core::prompt::{Prompt, bound_text};
use mahabharatha_core::spec::TaskSpec;
use mahabharatha_sys::error::{Error, ExitCode, Result};
use mahabharatha_sys::proc::{self, Cmd, Ended};
use serde::{Deserialize, Serialize};

pub use ask::{Answer, Asked, ask};
pub use event::AgentEvent;

/// Which agent, and how it is called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    pub kind: AgentKind,
    /// The program and its arguments. Empty, with kind `command`: the task's own `run`.
    #[serde(default)]
    pub command: Vec<String>,
    /// Variables of the caller that this agent gets.
    #[serde(default)]
    pub env_pass: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    Claude(claude::Terms),
    Command,
}

impl AgentSpec {
    /// Returns the cost of an attempt for which the agent reported nothing: none for a task's own `run`, unknown for any
    /// other program, which may be a coding agent.
    pub fn unreported_cost(&self) -> Cost {
        match (&self.kind, self.command.as_slice()) {
            (AgentKind::Command, []) => Cost::default(),
            _ => Cost::unknown(),
        }
    }
}

/// Returns the agent that does a task: the task's own, else the one asked for, else the configured default. A task with a
/// `run` command of its own needs no coding agent.
pub fn choose<'a>(config: &'a Config, task: &TaskSpec, asked: Option<&str>) -> Result<(String, &'a AgentConfig)> {
    let name = task.agent.as_deref().or(asked).unwrap_or(&config.agent);
    let found = config.agent(name).ok_or_else(|| {
        Error::new(ExitCode::Invalid, format!("{}: there is no agent {name:?}", task.id))
            .hint("Name one of `agents:` in .mahabharatha/config.yaml.")
    })?;
    if found.kind == config::AgentKind::Claude
        && task.agent.is_none()
        && task.run.is_some()
        && let Some(command) = config.agent("command")
    {
        return Ok(("command".to_string(), command));
    }
    Ok((name.to_string(), found))
}

/// Where the program of an agent is: on PATH, or from the main checkout where a relative path names it.
pub fn find_program(root: &Path, program: &str) -> Option<PathBuf> {
    if !program.contains('/') {
        return proc::find_program(program);
    }
    Some(root.join(program)).filter(|path| proc::is_program(path))
}

/// A program and its arguments; a relative path starts from the main checkout.
fn program(root: &Path, program: &str, args: &[String]) -> Cmd {
    let relative = program.contains('/') && !program.starts_with('/');
    let program = if relative { root.join(program) } else { PathBuf::from(program) };
    Cmd::new(program).args(args)
}

/// What an agent is given for one attempt.
pub struct Session<'a> {
    pub prompt: &'a Prompt,
    pub task: &'a TaskSpec,
    pub owned: &'a [OwnedPath],
    /// The main checkout.
    pub root: &'a Path,
    pub worktree: &'a Path,
    pub spec_dir: &'a Path,
    /// For the agent's own files.
    pub job_dir: &'a Path,
    pub env: BTreeMap<OsString, OsString>,
    /// Hears what happens, while it happens.
    pub tell: Tell,
}

pub type Tell = Box<dyn FnMut(AgentEvent) + Send>;

/// What an agent that ended by itself has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Done,
    /// Stopped in good order; somebody goes on from the note.
    Checkpoint(String),
    Blocked(String),
    Escalated(String),
    /// The service behind it did not serve, which says nothing about the task.
    Unserved {
        why: String,
        until: Option<Time>,
    },
    /// Its output goes to the next attempt.
    Failed(String),
}

/// One attempt's agent.
pub trait Agent {
    /// The program to run.
    fn command(&self, session: Session<'_>) -> Result<Cmd>;
    /// Names what its requests share with those of other workers; none where no service caches it.
    fn shared_prefix(&self, session: &Session<'_>) -> Option<String>;
    /// What it has to say, once it ended by itself.
    fn said(&self, ended: &Ended) -> Said;
    /// Returns the cost that the agent reported, as far as it did before it ended or was ended.
    fn reported_cost(&self) -> Option<Cost>;
    /// What it decided and later tasks should know.
    fn decisions(&self, ended: &Ended) -> Vec<String>;
}

/// The lines of an agent's last answer that begin with `DECISION:`, as many and as long as anybody would read.
fn decisions_in(answer: &str) -> Vec<String> {
    let lines = answer.lines().filter_map(|line| line.trim().strip_prefix("DECISION:"));
    lines.map(|decision| bound_text(decision.trim(), 500)).filter(|decision| !decision.is_empty()).take(20).collect()
}

impl AgentSpec {
    pub fn agent(&self) -> Box<dyn Agent> {
        match &self.kind {
            AgentKind::Command => Box::new(command::Program::new(&self.command)),
            AgentKind::Claude(terms) => Box::new(claude::Claude::new(&self.command, terms)),
        }
    }
}
