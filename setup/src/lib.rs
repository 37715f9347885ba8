//! The commands that come before a run: `init` prepares a project, `plan` and `design` write its specs.

pub mod init;
pub mod planning;
