//! The acting half.

pub mod error;
pub mod store;
