//! Every process killed at every point: whatever was under way, the next run ends as if nothing had happened.
//!
//! `CRASH_ONLY=<text>` tries only the points whose name has the text in it.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod outcome;
mod scenario;
#[path = "../e2e/support.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod support;
mod sweep;
