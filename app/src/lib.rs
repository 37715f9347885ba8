//! The acting half of mahabharatha.

pub mod cli;
pub mod error;
pub mod proc;
pub mod store;
