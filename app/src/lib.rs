//! The acting half.

pub mod agent;
pub mod error;
pub mod git;
pub mod proc;
pub mod store;
pub mod worker;
