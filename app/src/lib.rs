//! The acting half of mahabharatha.

pub mod agent;
pub mod cli;
mod crash;
pub mod error;
pub mod git;
mod host;
mod launch;
mod planning;
pub mod preflight;
pub mod proc;
pub mod project;
pub mod report;
pub mod session;
mod specs;
pub mod store;
pub mod ui;
pub mod worker;
