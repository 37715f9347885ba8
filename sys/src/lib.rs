//! Access to the outside world, one module per boundary: processes, git, files, the terminal.

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("only Linux and macOS are supported");

pub mod bounded;
mod channel;
pub mod container;
pub mod crash;
pub mod error;
pub mod git;
pub mod github;
pub mod http;
pub mod interrupt;
pub mod proc;
pub mod project;
mod raw;
pub mod sandbox;
pub mod signals;
pub mod store;
pub mod ui;
