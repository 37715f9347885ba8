//! The real program on real git.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod attempts;
mod bad_input;
mod ownership;
mod plan;
mod preflight;
mod specs;
mod support;
mod whole_way;
