//! Runs whose workers are containers, with a real engine.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use mahabharatha_testing::support;

mod boundary;
mod endings;
mod engine;
mod faults;
mod proxy;
mod runs;
