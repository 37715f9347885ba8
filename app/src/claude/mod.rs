//! What Claude Code is given and sees: slash commands, agents, hooks, the feature's task list.

pub mod commands;
pub mod guard;
pub mod install;
mod settings;
pub mod subagents;
pub mod tasks;
pub mod validate;
