//! Linux: containers are supported.

use crate::error::Result;

/// Tells whether this program can run programs in containers.
pub fn check_support() -> Result<()> {
    Ok(())
}
