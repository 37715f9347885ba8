//! The real program on real git.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod agents;
mod gates;
mod landing;
mod resume;
mod stop;
mod support;
mod whole_way;
