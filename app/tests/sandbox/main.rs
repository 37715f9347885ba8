//! What confined programs can reach: attacks, git, processes, and work as usual. Run with bubblewrap and with Landlock.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use mahabharatha_testing::support;

mod attacks;
mod cases;
mod git;
mod killed_trial;
mod life;
mod runs;
mod surroundings;
mod trial;
