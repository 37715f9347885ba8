//! The acting half.

pub mod error;
pub mod git;
pub mod host;
pub mod proc;
pub mod project;
pub mod store;
