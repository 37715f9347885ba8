//! macOS: its only sandbox is `sandbox-exec`. Type-checked, never run.

use std::ffi::{OsStr, OsString};
use std::io;

use mahabharatha_core::config::Isolation;

use super::Layout;

/// The sandboxes of this system.
pub const SANDBOXES: [Isolation; 1] = [Isolation::SandboxExec];

/// Refuses: bubblewrap and Landlock need Linux.
pub fn run(_layout: &Layout, _program: &OsStr, _args: &[OsString]) -> io::Result<i32> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "it needs Linux"))
}

/// Does nothing: macOS kills no process with its parent. `proc::Attended` watches the parent instead.
pub fn die_with_caller() -> io::Result<()> {
    Ok(())
}

/// Does nothing: macOS has no session keyring. The profile denies the Keychain.
pub fn leave_session_keyring() -> io::Result<()> {
    Ok(())
}
