//! How a job is started. A launcher only starts `mahabharatha worker` somewhere and learns that it ended.

pub mod subprocess;
