//! The acting half.

pub mod proc;
