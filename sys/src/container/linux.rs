//! Linux: what the helper in a container, and the sessions with it, need of the system.

use std::io;

use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::error::Result;

/// Keeps received descriptors from being inherited.
pub const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// Tells whether this program can run programs in containers.
pub fn check_support() -> Result<()> {
    Ok(())
}

/// Forbids other processes of this user to trace this one or read its memory.
pub fn refuse_tracing() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
