//! From an idea to a task graph: by flags, at a terminal, and with agents that are asked.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[path = "../support/claude_client.rs"]
mod claude_client;
#[expect(dead_code, reason = "shared with the tests of the real client")]
#[path = "../claude/client.rs"]
mod client;
#[expect(dead_code, reason = "shared with the tests of the real client")]
#[path = "../support/messages_api.rs"]
mod messages_api;
#[expect(dead_code, reason = "shared with the other tests of the whole program")]
#[path = "../e2e/support.rs"]
mod support;
#[expect(dead_code, reason = "shared with the other tests of the whole program")]
#[path = "../support/terminal.rs"]
mod terminal;

mod agents;
mod approval;
mod architect;
mod conversation;
mod costs;
mod design;
mod killed;
mod plan;
mod whole_way;
