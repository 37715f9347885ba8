//! The real client, where `./test` has put it.

use std::path::{Path, PathBuf};

/// Whether the tests run with the pinned client.
pub fn is_pinned() -> bool {
    std::env::var_os("MAHABHARATHA_TEST_CLIENT").is_none()
}

/// The client to test with: the pinned one, unless `MAHABHARATHA_TEST_CLIENT` names the directory of another.
pub fn program() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let dir = std::env::var("MAHABHARATHA_TEST_CLIENT").unwrap_or_else(|_| "target/claude-client".to_owned());
    let package = format!("{dir}/node_modules/@anthropic-ai/claude-code-linux-{arch}/claude");
    Some(root.join(package)).filter(|path| path.is_file())
}
