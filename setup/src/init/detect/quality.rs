//! The scout for quality: the commands by which the project itself is tested, linted, type-checked and built, its CI, and
//! the coverage that it asks for.

mod commands;
mod coverage;
mod python;
mod shared;
mod web;

use mahabharatha_sys::proc::called_by;
use serde::Serialize;

use super::manifest::Manifest;
use super::tree::Tree;

pub use coverage::Coverage;
pub use shared::quoted as for_shell;

#[derive(Debug, Serialize)]
pub struct Quality {
    pub commands: Vec<Command>,
    /// What has to be installed before the commands can run in a fresh checkout, or locked before it can land.
    pub prepare: Vec<Command>,
    pub ci: Vec<Ci>,
    pub coverage: Option<Coverage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Command {
    pub kind: Kind,
    /// For a shell, at the root.
    pub command: String,
    /// The directory that it is about; empty for the root.
    pub dir: String,
    /// What shows that the project uses it.
    pub from: String,
    /// What does for it where its program is not installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
}

impl Command {
    /// As it can be called here: `is_there` tells whether a program is installed.
    pub fn here(&self, is_there: impl Fn(&str) -> bool) -> Command {
        let is_missing = called_by(&self.command).is_some_and(|program| !is_there(program));
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
    /// Its shell commands, as far as they stand on a line of their own.
    pub commands: Vec<String>,
}

pub fn scout(tree: &Tree, manifests: &[Manifest]) -> Quality {
    let coverage = coverage::found(tree, manifests);
    let all = commands::found(tree, manifests, coverage.as_ref());
    let (prepare, commands) = all.into_iter().partition(|command| matches!(command.kind, Kind::Install | Kind::Lock));
    Quality { commands, prepare, ci: shared::ci(tree), coverage }
}
