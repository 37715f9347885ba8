//! Renders commands, agents and hooks as two Claude Code plugins in a directory that is also a marketplace.
//!
//! The first plugin has everything. The second has only the commands under their short names: hooks in both plugins
//! would run twice.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{commands, settings};

const NAME: &str = "mahabharatha";
const SHORT_NAME: &str = "z";
const DESCRIPTION: &str = "Turns a written spec into verified, merged code with many coding agents at once";
const SHORT_DESCRIPTION: &str = "Short names for the commands of the plugin mahabharatha";

/// Returns every file by its path below the directory.
pub fn files() -> Vec<(PathBuf, String)> {
    let mut files = commands::plugin_files();
    let mut add = |path: &str, text: String| files.push((PathBuf::from(path), text));
    add(".claude-plugin/marketplace.json", pretty(&marketplace()));
    add("mahabharatha/.claude-plugin/plugin.json", pretty(&manifest(NAME, DESCRIPTION)));
    add("mahabharatha/hooks/hooks.json", pretty(&settings::plugin_hooks()));
    add("mahabharatha/README.md", include_str!("../../assets/claude/plugin/README.md").to_owned());
    add("mahabharatha/LICENSE", LICENSE.to_owned());
    add("z/.claude-plugin/plugin.json", pretty(&short_manifest()));
    add("z/README.md", include_str!("../../assets/claude/plugin/README.z.md").to_owned());
    add("z/LICENSE", LICENSE.to_owned());
    files
}

const LICENSE: &str = include_str!("../../LICENSE");

fn marketplace() -> Value {
    let plugin = |name: &str, description: &str| json!({ "name": name, "source": format!("./{name}"), "description": description });
    json!({
        "name": NAME,
        "description": DESCRIPTION,
        "owner": author(),
        "plugins": [plugin(NAME, DESCRIPTION), plugin(SHORT_NAME, SHORT_DESCRIPTION)],
    })
}

fn manifest(name: &str, description: &str) -> Value {
    json!({
        "name": name,
        "version": env!("CARGO_PKG_VERSION"),
        "description": description,
        "author": author(),
        "license": env!("CARGO_PKG_LICENSE"),
    })
}

/// Returns the second plugin's manifest, which depends on the first plugin for the agents.
fn short_manifest() -> Value {
    let mut manifest = manifest(SHORT_NAME, SHORT_DESCRIPTION);
    manifest["dependencies"] = json!([NAME]);
    manifest
}

fn author() -> Value {
    json!({ "name": "The MAHABHARATHA developers" })
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
