//! Decides whether `init` starts a new project in a directory or discovers an existing one.

use std::fs;
use std::path::Path;

use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::store::file_set::JOURNAL_DIR_PREFIX;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A new project.
    Inception,
    /// An existing one.
    Discovery,
}

/// Names that indicate a project, whatever else is there.
const INDICATORS: [&str; 10] =
    [".git", "pyproject.toml", "package.json", "go.mod", "Cargo.toml", "src", "lib", "app", "pom.xml", "Gemfile"];
const INDICATING_ENDINGS: [&str; 2] = [".csproj", ".sln"];

/// Names that a directory may contain and still count as empty: what forges put into a new repository, what editors and
/// operating systems leave behind, and our own directories.
const IGNORED_NAMES: [&str; 10] = [
    ".gitignore",
    ".gitattributes",
    ".editorconfig",
    ".DS_Store",
    ".idea",
    ".vscode",
    ".claude",
    ".devcontainer",
    ".gsd",
    ".mahabharatha",
];
const DOCUMENT_STEMS: [&str; 5] = ["readme", "license", "licence", "copying", "notice"];

/// Returns the mode and the reason for it.
pub fn of(root: &Path) -> Result<(Mode, String)> {
    Ok(mode_of(&names(root)?))
}

/// Returns true if the directory is a repository without anything that shows what it will contain.
pub fn is_bare_beginning(root: &Path) -> Result<bool> {
    let names: Vec<String> = names(root)?.into_iter().filter(|name| name != ".git").collect();
    Ok(mode_of(&names).0 == Mode::Inception)
}

fn names(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root).map_err(io("read", root))? {
        names.push(entry.map_err(io("read", root))?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn mode_of(names: &[String]) -> (Mode, String) {
    let in_order = INDICATORS.iter().filter_map(|known| names.iter().find(|name| name == known));
    let by_ending = names.iter().filter(|name| INDICATING_ENDINGS.iter().any(|ending| name.ends_with(ending)));
    if let Some(name) = in_order.chain(by_ending).next() {
        return (Mode::Discovery, format!("it contains {name:?}"));
    }
    // Without an indicator too: a scaffold does not belong among the user's files.
    if let Some(name) = names.iter().find(|name| !is_ignored(name)) {
        return (Mode::Discovery, format!("it is not empty: it contains {name:?}"));
    }
    match names.iter().find(|name| !name.starts_with('.')) {
        Some(name) => (Mode::Inception, format!("it contains only {name:?} and the like")),
        None => (Mode::Inception, "the directory is empty".to_owned()),
    }
}

fn is_ignored(name: &str) -> bool {
    IGNORED_NAMES.contains(&name) || is_document(name) || name.starts_with(JOURNAL_DIR_PREFIX)
}

/// Returns true for a readme, a licence or the like.
pub fn is_document(name: &str) -> bool {
    let stem = name.split(['.', '-', '_']).next().unwrap_or(name).to_ascii_lowercase();
    DOCUMENT_STEMS.contains(&stem.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(names: &[&str]) -> Mode {
        mode_of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).0
    }

    #[test]
    fn every_single_indicator_means_an_existing_project() {
        for name in INDICATORS.into_iter().chain(["Shop.csproj", "Shop.sln"]) {
            assert_eq!(mode(&[name]), Mode::Discovery, "{name}");
            assert_eq!(mode(&["README.md", name]), Mode::Discovery, "{name}");
        }
    }

    #[test]
    fn a_readme_or_a_licence_does_not_indicate_a_project() {
        for names in [
            &[][..],
            &["README.md"],
            &["LICENSE"],
            &["readme.rst", "LICENCE.txt", "LICENSE-MIT", "NOTICE"],
            &[".gitignore", ".DS_Store", "COPYING"],
            &[".mahabharatha", ".gsd", ".claude"],
        ] {
            assert_eq!(mode(names), Mode::Inception, "{names:?}");
        }
    }

    #[test]
    fn unknown_user_files_indicate_a_project() {
        let (mode, why) = mode_of(&["README.md".to_owned(), "main.py".to_owned()]);
        assert_eq!((mode, why.as_str()), (Mode::Discovery, "it is not empty: it contains \"main.py\""));
    }
}
