//! The acting half.

pub mod git;
pub mod proc;
