//! What Claude Code is given: slash commands, agents, hooks; and what it sees of a feature: the task list.

pub mod commands;
pub mod guard;
pub mod install;
mod settings;
pub mod tasks;
pub mod validate;
