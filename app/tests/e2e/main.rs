//! The real program on real git.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod agents;
mod attempts;
mod features;
mod peers_steering;
mod progress;
mod resume;
mod status;
mod steering;
mod stop;
mod support;
mod whole_way;
