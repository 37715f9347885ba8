//! How a coding agent is driven. One file for each kind.

mod command;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::proc::{self, Cmd, Ended};

/// Which agent, and how it is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentOrder {
    pub kind: AgentKind,
    /// The program and its arguments. Empty, with kind `command`: the task's own `run`.
    #[serde(default)]
    pub command: Vec<String>,
    /// Variables of the caller that this agent gets.
    #[serde(default)]
    pub env_pass: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    Command,
}

/// Where the program of an agent is: on PATH, or from the main checkout where a relative path names it.
pub fn find_program(root: &Path, program: &str) -> Option<PathBuf> {
    if !program.contains('/') {
        return proc::find_program(program);
    }
    Some(root.join(program)).filter(|path| proc::is_program(path))
}

/// What an agent is given for one attempt.
pub struct Session<'a> {
    pub prompt: &'a str,
    /// The task's own command.
    pub run: Option<&'a str>,
    /// The main checkout, which a relative path of the agent's program starts from.
    pub root: &'a Path,
    pub worktree: &'a Path,
    pub env: BTreeMap<OsString, OsString>,
}

/// What an agent that ended by itself has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Done,
    /// Stopped in good order; somebody goes on from the note.
    Checkpoint(String),
    Blocked(String),
    Escalated(String),
    /// Its output goes to the next attempt.
    Failed(String),
}

impl AgentOrder {
    pub fn command(&self, session: &Session<'_>) -> Result<Cmd> {
        match self.kind {
            AgentKind::Command => command::command(&self.command, session),
        }
    }

    pub fn said(&self, ended: &Ended) -> Said {
        match self.kind {
            AgentKind::Command => command::said(ended),
        }
    }
}
