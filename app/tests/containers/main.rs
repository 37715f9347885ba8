//! Runs whose workers are containers, with a real engine.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[expect(dead_code, reason = "shared with the other tests of the whole program")]
#[path = "../e2e/support.rs"]
mod support;

mod boundary;
mod endings;
mod engine;
mod faults;
mod proxy;
mod runs;
