//! Surveys an existing project by reading its files. It must never run a program, use the network or read outside the
//! root, and the same project always gives the same result.

mod architecture;
mod languages;
mod manifest;
mod markup;
mod package;
mod quality;
mod security;
mod stack;
mod toolchain;
mod tree;

use std::path::Path;
use std::thread;

use mahabharatha_sys::error::Result;
use serde::Serialize;

pub use architecture::Architecture;
pub use quality::{Command, Kind, Quality, for_shell};
pub use security::Security;
pub use stack::Stack;
pub use toolchain::{Tool, Toolchain};

use manifest::Manifest;
use tree::Tree;

/// Result of surveying a project.
#[derive(Debug, Serialize)]
pub struct Survey {
    /// From the project's own manifest.
    pub name: Option<String>,
    pub description: Option<String>,
    pub stack: Stack,
    pub architecture: Architecture,
    pub quality: Quality,
    pub security: Security,
    /// What could not be read or listed, and why.
    pub notes: Vec<String>,
}

impl Survey {
    /// Returns true if a manifest or source code shows that the project uses the tool.
    pub fn uses(&self, tool: Tool) -> bool {
        let languages: &[&str] = match tool {
            Tool::Python => &["Python"],
            Tool::Node => &["JavaScript", "TypeScript", "Vue", "Svelte"],
            Tool::Go => &["Go"],
            Tool::Rust => &["Rust"],
            Tool::Java => &["Java", "Kotlin"],
            Tool::DotNet => &["C#", "F#"],
            Tool::Ruby => &["Ruby"],
            Tool::Php => &["PHP"],
        };
        self.toolchain(tool).is_some() || self.stack.languages.iter().any(|found| languages.contains(&found.name))
    }

    pub fn toolchain(&self, tool: Tool) -> Option<&Toolchain> {
        self.stack.toolchains.iter().find(|found| found.tool == tool)
    }
}

/// Surveys the project. Files for which `is_ours` returns true were written by `init` and are left out.
pub fn survey(root: &Path, is_ours: impl Fn(&str) -> bool) -> Result<Survey> {
    let tree = Tree::walk(root, is_ours)?;
    let manifests = manifest::read_all(&tree);
    let (stack, architecture, quality, security) = thread::scope(|scope| {
        let stack = scope.spawn(|| stack::survey(&tree, &manifests));
        let architecture = scope.spawn(|| architecture::survey(&tree, &manifests));
        let quality = scope.spawn(|| quality::survey(&tree, &manifests));
        let security = security::survey(&tree, &manifests);
        (join(stack), join(architecture), join(quality), security)
    });
    let (name, description) = named(&manifests);
    Ok(Survey { name, description, stack, architecture, quality, security, notes: tree.notes() })
}

fn join<T>(handle: thread::ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns name and description from the first manifest at the root that has a name.
fn named(manifests: &[Manifest]) -> (Option<String>, Option<String>) {
    let at_root = manifests.iter().filter(|manifest| manifest.dir.is_empty());
    let mut named: Vec<_> = at_root.map(Manifest::named).filter(|(name, _)| name.is_some()).collect();
    if named.is_empty() { (None, None) } else { named.swap_remove(0) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::init::{config, infrastructure};

    const NAMES: [&str; 16] = [
        "package.json",
        "pyproject.toml",
        "Cargo.toml",
        "Pipfile",
        "requirements.txt",
        "go.mod",
        "pom.xml",
        "build.gradle",
        "a.csproj",
        "a.sln",
        "Gemfile",
        "pnpm-workspace.yaml",
        ".github/workflows/ci.yml",
        ".coveragerc",
        ".nvmrc",
        "Makefile",
    ];
    /// Fragments of what the parsers look for.
    const PARTS: &str = r#"(\{|\}|\[|\]|"|'|:|,|=|\n|\.|/|<|>|<!--|-->|é|\x00|[a-z]{1,3}|[0-9]{1,3}|"name": "x"|"scripts": \{"test": "jest"\}|"workspaces": \["\*\*"\]|\[workspace\]|members = \["a"\]|\[tool\.ruff\]|<module>a</module>|fail_under = |<minimum>|run: \||- run: |go 1|require a\.b/c v1|gem "a"|Project\("|test:|include 'a'|[ ]{1,3})"#;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_manifest_makes_the_survey_fail(files in proptest::collection::vec((0..NAMES.len(), proptest::collection::vec(PARTS, 0..30)), 1..5)) {
            let dir = tempfile::tempdir().unwrap();
            for (name, parts) in files {
                let path = dir.path().join(NAMES[name]);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, parts.concat()).unwrap();
            }
            let survey = survey(dir.path(), |_| false).unwrap();
            let report = infrastructure::text(&survey);
            prop_assert_eq!(report.lines().filter(|line| line.starts_with("# ")).count(), 1);
            let text = config::text(&survey, |_| true, |_| true, |_| true);
            let config = mahabharatha_core::config::Config::parse(&text);
            prop_assert!(config.is_ok(), "{:?}\n{}", config, text);
        }
    }
}
