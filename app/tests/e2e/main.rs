//! The real program on real git.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod base_moves;
mod checkout;
mod completion;
mod gates;
mod landing;
mod peers_integration;
mod support;
mod whole_way;
