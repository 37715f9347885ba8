//! Finds the toolchains that the project needs, and their versions.

use std::collections::BTreeMap;

use mahabharatha_sys::ui::{fit, one_line};
use serde::Serialize;

use super::manifest::{Content, Manifest, at};
use super::markup;
use super::tree::{Tree, file_name};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    Python,
    Node,
    Go,
    Rust,
    Java,
    #[serde(rename = "dotnet")]
    DotNet,
    Ruby,
    Php,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Toolchain {
    pub tool: Tool,
    /// As written in the project's files.
    pub version: Option<String>,
    /// The file that names the version, or shows that the tool is needed.
    pub from: String,
}

impl Tool {
    pub fn name(self) -> &'static str {
        match self {
            Tool::Python => "Python",
            Tool::Node => "Node.js",
            Tool::Go => "Go",
            Tool::Rust => "Rust",
            Tool::Java => "Java",
            Tool::DotNet => ".NET",
            Tool::Ruby => "Ruby",
            Tool::Php => "PHP",
        }
    }
}

impl Toolchain {
    /// Returns the first version number in the text, cut to this many parts: `>=3.11,<4` becomes `3.11` with two.
    pub fn number(&self, parts: usize) -> Option<String> {
        let text = self.version.as_deref()?;
        let start = text.find(|c: char| c.is_ascii_digit())?;
        let end = text[start..].find(|c: char| !(c.is_ascii_digit() || c == '.')).map_or(text.len(), |end| start + end);
        let numbers: Vec<&str> = text[start..end].split('.').filter(|part| !part.is_empty()).take(parts).collect();
        // Reject long numbers: the result becomes part of an image tag.
        (numbers.iter().all(|number| number.len() <= 4)).then(|| numbers.join("."))
    }
}

/// Returns one toolchain per tool, from the manifest nearest to the root that names a version, else from the nearest
/// one.
pub fn found(tree: &Tree, manifests: &[Manifest]) -> Vec<Toolchain> {
    let mut by_tool: BTreeMap<Tool, (Option<String>, String)> = BTreeMap::new();
    let named = manifests.iter().filter_map(|manifest| {
        let (tool, version) = needed(manifest);
        Some((tool?, version, manifest.path.clone()))
    });
    for (tool, version, from) in pinned(tree).chain(named) {
        let version = version.map(|version| fit(&one_line(&version), 40)).filter(|version| !version.is_empty());
        let known = by_tool.entry(tool).or_insert_with(|| (version.clone(), from.clone()));
        if known.0.is_none() && version.is_some() {
            *known = (version, from);
        }
    }
    by_tool.into_iter().map(|(tool, (version, from))| Toolchain { tool, version, from }).collect()
}

fn needed(manifest: &Manifest) -> (Option<Tool>, Option<String>) {
    let text = |value: Option<&toml::Value>| value.and_then(toml::Value::as_str).map(str::to_owned);
    match &manifest.content {
        Content::Npm(json) => (Some(Tool::Node), json["engines"]["node"].as_str().map(str::to_owned)),
        Content::Composer(json) => (Some(Tool::Php), json["require"]["php"].as_str().map(str::to_owned)),
        Content::Python(toml) => {
            let version = at(toml, &["project", "requires-python"]);
            (Some(Tool::Python), text(version.or(at(toml, &["tool", "poetry", "dependencies", "python"]))))
        }
        Content::Pipfile(toml) => (Some(Tool::Python), text(at(toml, &["requires", "python_version"]))),
        Content::Requirements(_) => (Some(Tool::Python), None),
        Content::Cargo(toml) => {
            let version = at(toml, &["package", "rust-version"]);
            (Some(Tool::Rust), text(version.or(at(toml, &["workspace", "package", "rust-version"]))))
        }
        Content::Go(text) => {
            let version = text.lines().find_map(|line| line.trim().strip_prefix("go "));
            (Some(Tool::Go), version.map(str::to_owned))
        }
        Content::Maven(text) => {
            let places = ["maven.compiler.release", "java.version", "maven.compiler.source", "release"];
            (Some(Tool::Java), places.iter().find_map(|place| markup::text_of(text, place)).map(str::to_owned))
        }
        Content::Gradle(text) => (Some(Tool::Java), gradle_java(text)),
        Content::DotNet(text) => {
            let version = markup::text_of(text, "TargetFramework").or(markup::text_of(text, "TargetFrameworks"));
            (Some(Tool::DotNet), version.map(str::to_owned))
        }
        Content::Gemfile(text) => {
            let version = text.lines().find_map(|line| line.trim().strip_prefix("ruby "));
            (Some(Tool::Ruby), version.map(|version| version.trim_matches(['"', '\'']).to_owned()))
        }
    }
}

/// Parses `languageVersion = JavaLanguageVersion.of(17)`.
fn gradle_java(text: &str) -> Option<String> {
    let (_, after) = text.split_once("JavaLanguageVersion.of(")?;
    after.split(')').next().map(str::to_owned)
}

/// Returns the versions from files at the root that only pin a version. They take precedence over manifests.
fn pinned(tree: &Tree) -> impl Iterator<Item = (Tool, Option<String>, String)> + '_ {
    let files = [
        (".python-version", Tool::Python),
        (".nvmrc", Tool::Node),
        (".node-version", Tool::Node),
        ("rust-toolchain", Tool::Rust),
        ("rust-toolchain.toml", Tool::Rust),
        (".ruby-version", Tool::Ruby),
        ("global.json", Tool::DotNet),
    ];
    files.into_iter().filter_map(|(file, tool)| {
        let text = tree.read(file)?;
        let version = match file_name(file) {
            "global.json" => {
                let json: serde_json::Value = serde_json::from_str(&text).ok()?;
                json["sdk"]["version"].as_str().map(str::to_owned)
            }
            "rust-toolchain.toml" => {
                let toml: toml::Table = text.parse().ok()?;
                at(&toml, &["toolchain", "channel"]).and_then(toml::Value::as_str).map(str::to_owned)
            }
            _ => text.lines().next().map(str::to_owned),
        };
        Some((tool, version, file.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_number_is_extracted_from_any_notation() {
        let number = |version: &str, parts| {
            Toolchain { tool: Tool::Python, version: Some(version.to_owned()), from: String::new() }.number(parts)
        };
        assert_eq!(number(">=3.11,<4", 2).as_deref(), Some("3.11"));
        assert_eq!(number("v20.11.1", 1).as_deref(), Some("20"));
        assert_eq!(number("net8.0", 2).as_deref(), Some("8.0"));
        assert_eq!(number("lts/*", 1), None);
        assert_eq!(number("123456789", 1), None);
    }
}
