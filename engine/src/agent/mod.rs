//! Drives coding agents by their profiles. What an agent prints is read by the parser of its format (`format`); Claude Code,
//! to which messages are sent while it works, and plain commands have drivers of their own.
//!
//! Called by `worker` for attempts, and by `plan`, `design` and `init` for questions. What an agent says of its work is
//! passed on, never believed: the worker checks.

mod ask;
mod check;
pub mod claude;
mod command;
mod commands;
mod event;
mod format;
mod list;
mod login;
mod profile;
mod protocol;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mahabharatha_core::config::{AgentConfig, Config, Format, Isolation};
use mahabharatha_core::cost::Cost;
use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::Time;
use mahabharatha_core::markdown::bound_text;
use mahabharatha_core::names::suggestion;
use mahabharatha_core::prompt::Prompt;
use mahabharatha_core::run::event::Reason;
use mahabharatha_core::secrets::Redactor;
use mahabharatha_core::spec::TaskSpec;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc::{self, Cmd, Ended};
use mahabharatha_sys::sandbox::Sandbox;
use serde::{Deserialize, Serialize};

pub use ask::{Answer, Asked, ask};
pub use check::{Found, Problem, check};
pub use commands::commands;
pub use event::AgentEvent;
pub use list::{ListedAgent, list};
pub use login::forget as forget_logins;

/// Bytes kept from the start and the end of output that the next attempt is given.
const FEEDBACK_BYTES: (usize, usize) = (6 * 1024, 10 * 1024);
/// Number of decisions that are kept from one answer.
const MAX_DECISIONS: usize = 20;
const MAX_DECISION_CHARS: usize = 500;

/// An agent and how to call it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// Its name in the configuration.
    #[serde(default)]
    pub name: String,
    pub profile: AgentConfig,
    pub terms: Terms,
}

/// What a run asks of an agent, as far as the agent can do it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Remaining budget of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
    /// Used fraction of the context window at which the agent is asked to stop.
    pub context_threshold: f64,
    /// Whether the agent gets the tools that read and change the feature's task list.
    pub task_tools: bool,
    /// The project's build and test commands.
    pub commands: Vec<String>,
}

impl AgentSpec {
    /// Returns the model that it is asked to use for a task; none for its own default.
    pub fn model<'a>(&'a self, task: &'a TaskSpec) -> Option<&'a str> {
        self.profile.model_for(task)
    }

    /// Returns the cost of an attempt for which the agent reported nothing: none for a task's own `run`, unknown for
    /// any other program, which may be a coding agent.
    pub fn unreported_cost(&self) -> Cost {
        if self.profile.command.is_empty() { Cost::default() } else { Cost::unknown() }
    }

    pub fn agent(&self) -> Box<dyn Agent> {
        match self.profile.format {
            Format::Command => Box::new(command::Program::new(&self.profile.command)),
            Format::Claude => Box::new(claude::Claude::new(self)),
            _ => Box::new(profile::Profiled::new(&self.profile)),
        }
    }
}

/// Returns the agent that does a task; an error if the configuration has no agent of that name.
pub fn choose<'a>(
    config: &'a Config,
    task: &'a TaskSpec,
    asked: Option<&'a str>,
) -> Result<(&'a str, &'a AgentConfig)> {
    config.agent_for(task, asked).map_err(|name| {
        Error::new(Kind::Invalid, format!("{}: there is no agent {name:?}", task.id)).hint(suggested(config, name))
    })
}

/// Returns the agent that the user names; an error if the configuration has no agent of that name.
pub fn named<'a>(config: &'a Config, name: &str) -> Result<&'a AgentConfig> {
    config
        .agent(name)
        .ok_or_else(|| Error::new(Kind::Usage, format!("there is no agent {name:?}")).hint(suggested(config, name)))
}

/// Suggests agents of the configuration for a name that is none of them.
fn suggested(config: &Config, name: &str) -> String {
    let known: Vec<&str> = config.agents.keys().map(String::as_str).collect();
    suggestion(name, "agents", &known)
}

/// Finds an agent's program: a plain name on PATH, a relative path from the main checkout.
pub fn find_program(root: &Path, program: &str) -> Option<PathBuf> {
    if !program.contains('/') {
        return proc::find_program(program);
    }
    Some(root.join(program)).filter(|path| proc::is_program(path))
}

/// Returns the command for a program, which is made visible in the sandbox; a relative path starts from the main
/// checkout.
fn program(sandbox: &mut Sandbox, root: &Path, program: &str, args: &[String]) -> Result<Cmd> {
    // In a container a plain name is a program of the image.
    let is_of_image = sandbox.isolation() == Isolation::Container && !program.contains('/');
    let found = if is_of_image { None } else { find_program(root, program) };
    let found = found.map(|found| sandbox.show_program(&found, root)).transpose()?;
    Ok(Cmd::new(found.unwrap_or_else(|| program.into())).args(args))
}

/// Input of an agent for one attempt.
pub struct Session<'a> {
    pub prompt: &'a Prompt,
    pub task: &'a TaskSpec,
    pub owned: &'a [OwnedPath],
    /// The main checkout.
    pub root: &'a Path,
    pub worktree: &'a Path,
    pub spec_dir: &'a Path,
    /// Directory of the job, for the agent's own files.
    pub job_dir: &'a Path,
    pub env: BTreeMap<OsString, OsString>,
    /// The sandbox in which the agent will run.
    pub sandbox: &'a mut Sandbox,
    /// Takes secrets out of what the agent says, before any of it is passed on.
    pub redactor: Redactor,
    /// Receives the agent's events as they happen.
    pub events: EventSink,
}

/// Receives an agent's events.
pub type EventSink = Box<dyn FnMut(AgentEvent) + Send>;

/// Result of an agent that ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentOutcome {
    Done,
    /// Stopped before it was done; the next attempt continues from the note.
    Checkpoint(String),
    Blocked(String),
    Escalated(String),
    /// The API was unavailable or refused service, which says nothing about the task.
    Unserved {
        why: String,
        /// None if it is neither a limit nor access.
        reason: Option<Reason>,
        until: Option<Time>,
    },
    /// Stopped because the budget of the task is used up.
    OverBudget(String),
    /// Failed; the text is passed to the next attempt.
    Failed(String),
}

/// The agent of one attempt.
pub trait Agent {
    /// Returns the command that runs the agent.
    fn command(&self, session: Session<'_>) -> Result<Cmd>;
    /// Returns a key of the prompt prefix that the agent shares with other workers; `None` if no service caches it.
    fn shared_prefix(&self, session: &Session<'_>) -> Option<String>;
    /// Returns the result of an agent that ended by itself.
    fn outcome(&self, ended: &Ended) -> AgentOutcome;
    /// Returns the cost that the agent reported before it ended or was killed.
    fn reported_cost(&self) -> Option<Cost>;
    /// Returns the agent's last words in one line, also if it was killed.
    fn last_words(&self, ended: &Ended) -> Option<String>;
    /// Takes back what the agent was lent, once it has ended or was killed.
    fn clean_up(&self);
    /// Returns the agent's decisions that later tasks should know.
    fn decisions(&self, ended: &Ended) -> Vec<String>;
}

/// Returns the lines of an agent's last answer that begin with `DECISION:`, at most `MAX_DECISIONS`, each cut to
/// `MAX_DECISION_CHARS`.
fn decisions_in(answer: &str) -> Vec<String> {
    let lines = answer.lines().filter_map(|line| line.trim().strip_prefix("DECISION:"));
    lines
        .map(|decision| bound_text(decision.trim(), MAX_DECISION_CHARS))
        .filter(|decision| !decision.is_empty())
        .take(MAX_DECISIONS)
        .collect()
}
