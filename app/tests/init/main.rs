//! `init` on projects as people have them: the layouts of seven well-known kinds, rebuilt small, and bad ones.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use mahabharatha_testing::support;

mod again;
mod bench;
mod discovery;
mod fixtures;
mod groups;
mod hostile;
mod rules;
mod scout;
