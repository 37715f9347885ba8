//! Integration with interactive Claude Code: slash commands, agents, hooks, and the feature's task list.
//!
//! Called by the hooks, the slash commands, `session` and `report`. No run may depend on it.

pub mod commands;
pub mod groups;
pub mod guard;
pub mod install;
pub mod json_text;
mod mcp_json;
mod plugin;
mod settings;
pub mod tasks;
pub mod validate;
