//! The real program with the real Claude Code client, which talks to a Messages API of ours on loopback.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use mahabharatha_testing::{claude_client, messages_api, support};

mod client;
mod commands;
mod confined;
mod context;
mod driven;
mod endings;
mod hooks;
mod kills;
mod mcp;
mod ownership;
mod planned;
mod plugin;
mod preflight;
mod prompt_cache;
mod service;
mod session;
mod task_list;
mod task_mode;
mod whole_way;
