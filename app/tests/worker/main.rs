//! The real worker on real git, one job at a time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod ends;
mod guard;
mod ownership;
mod start;
mod verify;
