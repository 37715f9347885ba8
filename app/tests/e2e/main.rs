//! The real program on real git.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod agents;
mod attempts;
mod bad_input;
mod commands;
mod gates;
mod landing;
mod ownership;
mod plan;
mod preflight;
mod resume;
mod specs;
mod state_files;
mod stop;
mod support;
mod whole_way;
