//! Starts jobs. A launcher only starts `mahabharatha worker` somewhere and learns when it has ended.

pub mod subprocess;
