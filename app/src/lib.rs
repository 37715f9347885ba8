//! The acting half.
pub mod report;
