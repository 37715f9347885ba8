//! Tells which package manager a project uses and how to call it.

use super::manifest::{Content, Manifest, at};
use super::tree::{Tree, dir_of};

/// Returns the manager of a `package.json`: the one it names, else the one of the nearest lock file at or above it.
pub fn npm_manager(tree: &Tree, manifest: &Manifest) -> &'static str {
    if let Content::Npm(json) = &manifest.content
        && let Some(named) = json["packageManager"].as_str()
        && let Some(manager) = ["pnpm", "yarn", "bun", "npm"].into_iter().find(|known| named.starts_with(known))
    {
        return manager;
    }
    let lock_files = [
        ("pnpm-lock.yaml", "pnpm"),
        ("yarn.lock", "yarn"),
        ("bun.lock", "bun"),
        ("bun.lockb", "bun"),
        ("package-lock.json", "npm"),
        ("npm-shrinkwrap.json", "npm"),
    ];
    let found = at_or_above(&manifest.dir).find_map(|dir| {
        lock_files.iter().find(|(file, _)| tree.first_in(dir, &[file]).is_some()).map(|(_, manager)| *manager)
    });
    found.unwrap_or("npm")
}

/// Returns the manager of a Python project, and the prefix that runs a command in its environment.
pub fn python_manager(tree: &Tree, dir: &str, pyproject: Option<&toml::Table>) -> (&'static str, &'static str) {
    let says = |key: &str| pyproject.is_some_and(|toml| at(toml, &["tool", key]).is_some());
    let locked = |file: &str| at_or_above(dir).any(|dir| tree.first_in(dir, &[file]).is_some());
    let there = |file: &str| tree.first_in(dir, &[file]).is_some();
    match () {
        () if locked("uv.lock") || says("uv") => ("uv", "uv run "),
        () if locked("poetry.lock") || says("poetry") => ("poetry", "poetry run "),
        () if locked("pdm.lock") || says("pdm") => ("pdm", "pdm run "),
        () if there("Pipfile") => ("pipenv", "pipenv run "),
        () => ("pip", ""),
    }
}

pub fn maven(tree: &Tree, dir: &str) -> &'static str {
    if tree.first_in(dir, &["mvnw"]).is_some() { "./mvnw" } else { "mvn" }
}

pub fn gradle(tree: &Tree, dir: &str) -> &'static str {
    if tree.first_in(dir, &["gradlew"]).is_some() { "./gradlew" } else { "gradle" }
}

/// Iterates over the directory and its parents, up to the root.
pub fn at_or_above(dir: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(dir), |dir| (!dir.is_empty()).then(|| dir_of(dir)))
}
