//! Starts jobs. A launcher only starts `mahabharatha worker` somewhere and learns when it has ended.
//!
//! Called by `host`. Never decides whether a job is tried again.

pub mod subprocess;
