//! Chooses the security rules for `.claude/rules/` by the project's stack, from the built-in set or from a repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use mahabharatha_sys::bounded;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git;

use super::detect::{Survey, Tool};
use super::place::NewFile;

const DIR: &str = ".claude/rules";
/// Limits for what is taken from a rules repository: number of files, and bytes per file.
const MAX_FILES: usize = 100;
const MAX_BYTES: u64 = 256 << 10;
/// Path words that say nothing about what the rules are for.
const GENERIC_WORDS: [&str; 8] = ["rules", "rule", "claude", "security", "secure", "coding", "src", "docs"];
/// Documents about the repository itself.
const REPOSITORY_DOCUMENTS: [&str; 6] =
    ["readme", "contributing", "changelog", "license", "code_of_conduct", "security"];
/// Path words of rules that apply to every stack.
const UNIVERSAL_WORDS: [&str; 4] = ["core", "general", "owasp", "common"];

/// Returns the rule files and any warnings. `built_in` holds pairs of file name and text.
pub fn files(
    root: &Path,
    survey: &Survey,
    repository: Option<&str>,
    built_in: &[(&str, &str)],
) -> (Vec<NewFile>, Vec<String>) {
    let words = stack_words(survey);
    let Some(repository) = repository else { return (embedded(&words, built_in), Vec::new()) };
    let warning = match from_repository(root, repository, &words) {
        Ok(files) if !files.is_empty() => return (files, Vec::new()),
        Ok(_) => format!("{repository} has no rules for this stack"),
        Err(error) => format!("cannot get the rules from {repository}: {}", error.message()),
    };
    (embedded(&words, built_in), vec![format!("{warning}; using the built-in rules")])
}

/// Returns the words by which rules for this project may be named.
fn stack_words(survey: &Survey) -> BTreeSet<String> {
    let by_tool: [(Tool, &[&str]); 8] = [
        (Tool::Python, &["python"]),
        (Tool::Node, &["node", "nodejs", "javascript"]),
        (Tool::Go, &["go", "golang"]),
        (Tool::Rust, &["rust"]),
        (Tool::Java, &["java"]),
        (Tool::DotNet, &["dotnet", "csharp"]),
        (Tool::Ruby, &["ruby"]),
        (Tool::Php, &["php"]),
    ];
    let mut words: BTreeSet<String> = BTreeSet::new();
    for (_, names) in by_tool.iter().filter(|(tool, _)| survey.uses(*tool)) {
        words.extend(names.iter().map(|name| (*name).to_owned()));
    }
    words.extend(survey.stack.languages.iter().map(|language| language.name.to_lowercase()));
    let plain = |name: &str| name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    words.extend(survey.stack.frameworks.iter().map(|framework| plain(framework.name)));
    if !survey.security.containers.is_empty() {
        words.extend(["docker", "container", "containers"].map(str::to_owned));
    }
    words
}

fn embedded(words: &BTreeSet<String>, built_in: &[(&str, &str)]) -> Vec<NewFile> {
    let concerns = |name: &str| {
        let word = name.trim_start_matches("security-").trim_end_matches(".md");
        word == "general" || words.contains(word)
    };
    let wanted = built_in.iter().filter(|(name, _)| concerns(name));
    wanted.map(|(name, text)| NewFile::ours(format!("{DIR}/{name}"), *text)).collect()
}

fn from_repository(root: &Path, repository: &str, words: &BTreeSet<String>) -> Result<Vec<NewFile>> {
    let local = root.join(repository);
    if local.is_dir() {
        return collect(&local, words);
    }
    if !repository.contains(':') {
        return Err(Error::new(Kind::Failed, "it is neither a directory nor a URL"));
    }
    let temporary = tempfile::tempdir().map_err(Error::caused("cannot create a temporary directory"))?;
    let copy = temporary.path().join("rules");
    git::shallow_clone(repository, &copy)?;
    collect(&copy, words)
}

/// Returns the documents in a directory that concern the stack, judged by their paths.
fn collect(dir: &Path, words: &BTreeSet<String>) -> Result<Vec<NewFile>> {
    let walk = WalkBuilder::new(dir).standard_filters(false).hidden(true).follow_links(false).build();
    let is_document = |path: &Path| path.extension().is_some_and(|ending| ending == "md");
    let mut paths: Vec<PathBuf> = walk
        .flatten()
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()) && is_document(entry.path()))
        .map(|entry| entry.path().to_owned())
        .collect();
    paths.sort();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for path in paths {
        let below = path.strip_prefix(dir).unwrap_or(&path).to_string_lossy().to_lowercase();
        let Some(name) = rule_name(&below, words) else { continue };
        let Ok(text) = bounded::read_to_string(&path, MAX_BYTES) else { continue };
        if found.len() < MAX_FILES {
            found.entry(name).or_insert(text);
        }
    }
    Ok(found.into_iter().map(|(name, text)| NewFile::ours(format!("{DIR}/{name}"), text)).collect())
}

/// Turns `rules/languages/python/claude.md` into `security-languages-python.md`. Returns None if the stack has no
/// Python.
fn rule_name(path: &str, words: &BTreeSet<String>) -> Option<String> {
    let stem = path.strip_suffix(".md")?;
    if !stem.contains('/') && REPOSITORY_DOCUMENTS.contains(&stem) {
        return None;
    }
    let named: Vec<&str> = stem
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty() && !GENERIC_WORDS.contains(word))
        .collect();
    let concerns = named.iter().any(|word| words.contains(*word) || UNIVERSAL_WORDS.contains(word));
    let name: String = named.join("-").chars().take(80).collect();
    concerns.then(|| format!("security-{name}.md"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::init::detect;

    const BUILT_IN: [(&str, &str); 4] = [
        ("security-general.md", "general"),
        ("security-python.md", "python"),
        ("security-node.md", "node"),
        ("security-docker.md", "docker"),
    ];

    fn project(files: &[&str]) -> (tempfile::TempDir, Survey) {
        let dir = tempfile::tempdir().unwrap();
        for path in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x\n").unwrap();
        }
        let survey = detect::survey(dir.path(), |_| false).unwrap();
        (dir, survey)
    }

    fn names(files: &[NewFile]) -> Vec<&str> {
        files.iter().map(|file| file.path.trim_start_matches(".claude/rules/")).collect()
    }

    #[test]
    fn built_in_rules_are_chosen_by_stack() {
        let (dir, survey) = project(&["main.py", "Dockerfile"]);
        let (files, _) = files(dir.path(), &survey, None, &BUILT_IN);
        assert_eq!(names(&files), ["security-general.md", "security-python.md", "security-docker.md"]);
    }

    #[test]
    fn a_rules_repository_is_mapped_by_path_and_a_missing_one_is_a_warning() {
        let (dir, survey) = project(&["main.py"]);
        let rules = tempfile::tempdir().unwrap();
        for path in [
            "README.md",
            "rules/_core/owasp-2025.md",
            "rules/languages/python/CLAUDE.md",
            "rules/languages/go/CLAUDE.md",
            "rules/backend/django/CLAUDE.md",
        ] {
            fs::create_dir_all(rules.path().join(path).parent().unwrap()).unwrap();
            fs::write(rules.path().join(path), path).unwrap();
        }
        let (found, warnings) = files(dir.path(), &survey, rules.path().to_str(), &BUILT_IN);
        assert_eq!(names(&found), ["security-core-owasp-2025.md", "security-languages-python.md"]);
        assert!(warnings.is_empty());

        for repository in ["https://127.0.0.1:1/rules.git", "nowhere", "ext::false"] {
            let (found, warnings) = files(dir.path(), &survey, Some(repository), &BUILT_IN);
            assert_eq!(names(&found), ["security-general.md", "security-python.md"], "{repository}");
            assert!(warnings[0].contains(repository), "{warnings:?}");
        }
    }
}
