//! The real program with real coding agents, which talk to a scripted model API on loopback.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use mahabharatha_testing::{coding_agents, model_api, support};

mod bench;
mod known;
mod planned;
mod stopped;
mod table;
