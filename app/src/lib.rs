//! The acting half of mahabharatha.

pub mod agent;
pub mod claude;
pub mod cli;
mod crash;
pub mod error;
pub mod git;
mod host;
mod init;
mod launch;
pub mod lease;
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
