//! From an idea to a task graph: by flags, at a terminal, and with agents that are asked.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use mahabharatha_testing::{claude_client, messages_api, support, terminal};

#[expect(dead_code, reason = "shared with the tests of the real client")]
#[path = "../claude/client.rs"]
mod client;

mod agents;
mod approval;
mod architect;
mod conversation;
mod costs;
mod design;
mod killed;
mod plan;
mod quick;
mod whole_way;
