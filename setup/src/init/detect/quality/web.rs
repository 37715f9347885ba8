//! Finds the commands of a Node.js package.

use serde_json::Value;

use super::shared::{command, evidence};
use super::{Command, Coverage, Kind};
use crate::init::detect::manifest::Manifest;
use crate::init::detect::package;
use crate::init::detect::tree::Tree;

/// Conventional script names by kind.
const SCRIPTS: [(Kind, &[&str]); 4] = [
    (Kind::Lint, &["lint"]),
    (Kind::Format, &["format:check", "format-check", "check:format", "prettier:check"]),
    (Kind::TypeCheck, &["typecheck", "type-check", "check-types", "check:types", "types:check", "tsc"]),
    (Kind::Test, &["test"]),
];

const BIOME: &[&str] = &["biome.json", "biome.jsonc"];
const ESLINT: &[&str] =
    &["eslint.config.js", "eslint.config.mjs", "eslint.config.ts", ".eslintrc.json", ".eslintrc.js", ".eslintrc.cjs"];
const TSC: &[&str] = &["tsconfig.json"];

pub fn commands(tree: &Tree, manifest: &Manifest, json: &Value, coverage: Option<&Coverage>) -> Vec<Command> {
    let manager = package::npm_manager(tree, manifest);
    let dir = manifest.dir.as_str();
    let mut found = Vec::new();
    for (kind, names) in SCRIPTS {
        let script = names.iter().find_map(|name| Some((*name, json["scripts"][*name].as_str()?)));
        match script {
            // The placeholder that `npm init` writes.
            Some((_, text)) if text.contains("no test specified") => {}
            Some((name, text)) => {
                let mut call = if name == "test" { format!("{manager} test") } else { format!("{manager} run {name}") };
                if kind == Kind::Test && coverage.is_some_and(|coverage| coverage.dir == dir) {
                    call = with_coverage(call, manager, text);
                }
                found.push(command(kind, dir, call, manifest.path.clone()));
            }
            None => found.extend(by_settings(tree, manifest, manager, kind)),
        }
    }
    if !found.is_empty() {
        found.push(command(Kind::Install, dir, format!("{manager} install"), manifest.path.clone()));
    }
    found
}

/// Turns on measuring, since the test runners check the threshold only when they measure coverage.
fn with_coverage(call: String, manager: &str, script: &str) -> String {
    let measures = ["--coverage", "nyc", "c8"].iter().any(|word| script.contains(word));
    let can = ["jest", "vitest"].iter().any(|runner| script.contains(runner));
    let separator = if manager == "npm" { " --" } else { "" };
    if can && !measures { format!("{call}{separator} --coverage") } else { call }
}

/// Finds a command for a check without a script, if the tool is both configured and a dependency.
fn by_settings(tree: &Tree, manifest: &Manifest, manager: &str, kind: Kind) -> Option<Command> {
    let has_biome = evidence(tree, &manifest.dir, BIOME).is_some();
    let (tool, files, call) = match kind {
        Kind::Lint if has_biome => ("@biomejs/biome", BIOME, "biome check ."),
        Kind::Lint => ("eslint", ESLINT, "eslint ."),
        Kind::TypeCheck => ("typescript", TSC, "tsc --noEmit"),
        _ => return None,
    };
    let from = evidence(tree, &manifest.dir, files)?;
    let execute = match manager {
        "pnpm" => "pnpm exec",
        "yarn" => "yarn",
        "bun" => "bunx",
        _ => "npx --no-install",
    };
    manifest.depends_on(tool).then(|| command(kind, &manifest.dir, format!("{execute} {call}"), from))
}
