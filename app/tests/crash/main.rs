//! Every process killed at every point: whatever was under way, the next run ends as if nothing had happened.
//!
//! `CRASH_ONLY=<text>` tries only the points whose name has the text in it.

// A release has no such points.
#![cfg(debug_assertions)]
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use mahabharatha_testing::support;

mod containers;
mod outcome;
mod scenario;
mod sweep;
