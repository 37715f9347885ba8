//! `init` on projects as people have them: the layouts of seven well-known kinds, rebuilt small, and bad ones.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod again;
mod bench;
mod discovery;
mod fixtures;
mod groups;
mod hostile;
mod rules;
mod scout;
#[expect(dead_code, reason = "shared with the other tests of the whole program")]
#[path = "../e2e/support.rs"]
mod support;
