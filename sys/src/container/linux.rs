//! Linux: what the helper in a container, and the sessions with it, need of the system.

use std::io;

use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::error::Result;

/// Lets received descriptors not be inherited by programs.
pub const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// Tells whether this program can run programs in containers.
pub fn check_support() -> Result<()> {
    Ok(())
}

/// Has the kernel let no other process of this user trace this one or look into it.
pub fn refuse_tracing() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
