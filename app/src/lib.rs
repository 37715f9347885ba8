//! The acting half.

pub mod report;
pub mod ui;
