//! The real coding agents, where `./test` or the user has put them.

use std::path::{Path, PathBuf};

use crate::claude_client;

/// Returns the program of an agent: the one that `MAHABHARATHA_TEST_<NAME>` names, else the one that
/// `app/tests/agents/install` has put into `target/agents/<name>`, else one on `PATH`.
pub fn program(name: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(format!("MAHABHARATHA_TEST_{}", name.to_uppercase())) {
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    installed(name).or_else(|| on_path(name))
}

fn installed(name: &str) -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.join("target/agents").join(name);
    let packages = place.join("node_modules");
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let program = match name {
        "claude" => return claude_client::program(),
        // Its launcher works only once a script of the package has run.
        "opencode" => packages.join(format!("opencode-linux-{arch}/bin/opencode")),
        // In a virtual environment of Python.
        "aider" => place.join("bin/aider"),
        _ => packages.join(".bin").join(name),
    };
    Some(program).filter(|path| path.is_file())
}

fn on_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}
