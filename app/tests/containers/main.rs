//! Runs whose workers are containers, with a real engine.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use mahabharatha_testing::{claude_client, messages_api, support};

#[expect(dead_code, reason = "shared with the tests of the real client")]
#[path = "../claude/client.rs"]
mod client;
#[expect(dead_code, reason = "shared with the tests of the real client")]
#[path = "../claude/session.rs"]
mod session;

mod boundary;
mod builders;
mod devcontainer;
mod endings;
mod faults;
mod helper;
mod inside;
mod proxy;
mod runs;
