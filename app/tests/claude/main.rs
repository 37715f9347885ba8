//! The real program with the real Claude Code client, which talks to a Messages API of ours on loopback.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[path = "../support/claude_client.rs"]
mod claude_client;
mod client;
#[path = "../support/messages_api.rs"]
mod messages_api;
#[expect(dead_code, reason = "shared with the other tests of the whole program")]
#[path = "../e2e/support.rs"]
mod support;

mod commands;
mod confined;
mod context;
mod driven;
mod endings;
mod hooks;
mod kills;
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
