//! What Claude Code is given: slash commands, agents, hooks.

pub mod commands;
pub mod guard;
pub mod install;
pub mod listed;
mod settings;
pub mod validate;
