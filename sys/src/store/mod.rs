//! State on disk that outlives the process: the journal, its projection, locks and the command spool.
//!
//! Only the holder of a feature's lock may change the feature's state.

pub mod atomic;
pub mod clone;
pub mod costs;
pub mod disk;
mod fault;
pub mod file_set;
pub mod journal;
pub mod lines;
pub mod locks;
pub mod log_file;
pub mod ports;
pub mod projection;
pub mod prompt_cache;
mod reflink;
pub mod spool;
pub mod state_file;
pub mod tree;
pub mod watch;
