//! The real client, where `./test` has put it.

use std::path::{Path, PathBuf};

pub fn program() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let package = format!("target/claude-client/node_modules/@anthropic-ai/claude-code-linux-{arch}/claude");
    Some(root.join(package)).filter(|path| path.is_file())
}
