//! Surveys quality checks: the project's own commands for tests, lints, type checks and installation, its CI, and its
//! coverage threshold.

mod commands;
mod coverage;
mod install;
mod python;
mod shared;
mod web;

use mahabharatha_sys::proc::leading_program;
use serde::Serialize;

use super::manifest::Manifest;
use super::tree::Tree;

pub use coverage::Coverage;
pub use shared::quoted as for_shell;

#[derive(Debug, Serialize)]
pub struct Quality {
    pub commands: Vec<Command>,
    /// Commands that install what the other commands need in a fresh checkout, or that update a lock file before
    /// landing.
    pub prepare: Vec<Command>,
    /// Commands that install in a worktree what its lock files name.
    pub setup: Vec<Command>,
    pub ci: Vec<Ci>,
    pub coverage: Option<Coverage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Command {
    pub kind: Kind,
    /// Shell command, to run at the root.
    pub command: String,
    /// The directory that it checks; empty for the root.
    pub dir: String,
    /// The file that shows that the project uses it.
    pub from: String,
    /// Fallback command for when its program is not installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
}

impl Command {
    /// Returns the command to use on this machine, which is the fallback if the program is missing. `is_there` tells
    /// whether a program is installed.
    pub fn here(&self, is_there: impl Fn(&str) -> bool) -> Command {
        let is_missing = leading_program(&self.command).is_some_and(|program| !is_there(program));
        let command = self.otherwise.clone().filter(|_| is_missing).unwrap_or_else(|| self.command.clone());
        Command { command, otherwise: None, ..self.clone() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Lint,
    Format,
    TypeCheck,
    Test,
    Install,
    /// Brings a lock file in line with its manifest.
    Lock,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Ci {
    pub system: &'static str,
    pub file: String,
    /// Its shell commands, as far as a plain text search finds them.
    pub commands: Vec<String>,
}

pub fn survey(tree: &Tree, manifests: &[Manifest]) -> Quality {
    let coverage = coverage::found(tree, manifests);
    let all = commands::found(tree, manifests, coverage.as_ref());
    let (prepare, commands): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|command| matches!(command.kind, Kind::Install | Kind::Lock));
    let setup = install::locked(tree, &prepare);
    Quality { commands, prepare, setup, ci: shared::ci(tree), coverage }
}
