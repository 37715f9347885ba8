//! What tests of the whole program share: a repository to run it on, agents, a terminal, and an
//! API that the Claude Code client talks to.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]
#![expect(clippy::new_without_default, reason = "a repository on the disk is no default value")]

pub mod agents;
pub mod claude_client;
pub mod messages_api;
pub mod support;
pub mod terminal;

use std::path::PathBuf;

/// Returns the program under test, which cargo builds next to the directory of the tests.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(|deps| deps.parent()).unwrap().join("mahabharatha")
}
