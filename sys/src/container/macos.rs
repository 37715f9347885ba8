//! macOS: containers are refused. The helper in a container is this program itself, which Linux cannot run.

use crate::error::{Error, Kind, Result};

/// Tells whether this program can run programs in containers.
pub fn check_support() -> Result<()> {
    Err(Error::new(Kind::Preflight, "containers need Linux: their helper is this program, which is built for macOS")
        .hint("Use --mode subprocess."))
}
