//! Single decisions of a run.
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod answers;
mod budget;
mod commands;
mod roster;
mod service;
mod story;
mod time;
