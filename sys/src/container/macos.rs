//! macOS: containers are refused. The helper in a container is this program itself, which Linux cannot run.

use std::io;

use rustix::net::RecvFlags;

use crate::error::{Error, Kind, Result};

/// There is no such flag; no session begins on macOS.
pub const CLOSE_ON_EXEC: RecvFlags = RecvFlags::empty();

/// Tells whether this program can run programs in containers.
pub fn check_support() -> Result<()> {
    Err(Error::new(Kind::Preflight, "containers need Linux: their helper is this program, which is built for macOS")
        .hint("Use --mode subprocess."))
}

/// Refuses: the helper runs in Linux containers only.
pub fn refuse_tracing() -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "the helper in a container needs Linux"))
}
