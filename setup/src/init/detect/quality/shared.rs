//! Helpers for all ecosystems: CI files, makefiles, and building commands.

use mahabharatha_sys::proc::shell_word;
use mahabharatha_sys::ui::{fit, one_line};

use super::{Ci, Command, Kind};
use crate::init::detect::tree::{Tree, dir_of, file_name, join};

const MAX_CI_COMMANDS: usize = 40;

/// Builds a command for a shell at the root that runs in `dir`.
pub fn command(kind: Kind, dir: &str, command: impl Into<String>, from: impl Into<String>) -> Command {
    Command { kind, command: within(dir, command), dir: dir.to_owned(), from: from.into(), otherwise: None }
}

pub fn within(dir: &str, command: impl Into<String>) -> String {
    let command = command.into();
    if dir.is_empty() { command } else { format!("cd {} && {command}", quoted(dir)) }
}

/// Quotes an untrusted name as one shell word.
pub fn quoted(word: &str) -> String {
    if word.starts_with('-') { shell_word(&format!("./{word}")) } else { shell_word(word) }
}

/// Returns the targets of a makefile or justfile at the root whose names say what they are for.
pub fn make_targets(tree: &Tree) -> Vec<Command> {
    let kinds =
        [("lint", Kind::Lint), ("typecheck", Kind::TypeCheck), ("type-check", Kind::TypeCheck), ("test", Kind::Test)];
    let files = [("Makefile", "make"), ("justfile", "just"), ("Justfile", "just")];
    let mut found = Vec::new();
    for (file, program) in files {
        let Some(text) = tree.read(file) else { continue };
        for (target, kind) in kinds {
            let has = |line: &str| line.strip_prefix(target).is_some_and(|rest| rest.trim_start().starts_with(':'));
            if text.lines().any(|line| has(line) && !line.contains(":=")) {
                found.push(command(kind, "", format!("{program} {target}"), file));
            }
        }
    }
    found
}

pub fn ci(tree: &Tree) -> Vec<Ci> {
    let mut found = Vec::new();
    for entry in tree.files() {
        let path = entry.path.as_str();
        let system = match (dir_of(path), file_name(path)) {
            (".github/workflows", name) if name.ends_with(".yml") || name.ends_with(".yaml") => "GitHub Actions",
            ("", ".gitlab-ci.yml") => "GitLab CI",
            (".circleci", "config.yml") => "CircleCI",
            ("", "azure-pipelines.yml") => "Azure Pipelines",
            ("", ".travis.yml") => "Travis CI",
            ("", "Jenkinsfile") => "Jenkins",
            ("", "bitbucket-pipelines.yml") => "Bitbucket Pipelines",
            (".buildkite", "pipeline.yml") => "Buildkite",
            (".ci", "run") => "script",
            _ => continue,
        };
        let text = tree.read(path).unwrap_or_default();
        found.push(Ci { system, file: path.to_owned(), commands: shell_lines(&text) });
    }
    found
}

/// Returns `run: npm test`, the lines below `run: |`, and the list entries below `script:`.
fn shell_lines(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    // Indentation of the key whose block this line is in.
    let mut block: Option<usize> = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        let entry = trimmed.strip_prefix("- ").unwrap_or(trimmed);
        let (indent, column) = (line.len() - trimmed.len(), line.len() - entry.len());
        let is_past = |key| indent < key || indent == key && !trimmed.starts_with('-');
        if !trimmed.is_empty() && block.is_some_and(is_past) {
            block = None;
        }
        let key = ["run:", "script:", "before_script:", "command:"].iter().find_map(|key| entry.strip_prefix(key));
        let command = match key.map(str::trim) {
            Some("" | "|" | ">" | "|-" | ">-" | "|+") => {
                block = Some(column);
                continue;
            }
            Some(value) => value,
            None if block.is_some() => entry,
            None => continue,
        };
        let command = fit(&one_line(command.trim_matches(['"', '\''])), 160);
        if !command.is_empty() && !command.starts_with('#') && !found.contains(&command) {
            found.push(command);
        }
    }
    found.truncate(MAX_CI_COMMANDS);
    found
}

/// Returns the path of the first of these names that is a file in the directory.
pub fn evidence(tree: &Tree, dir: &str, names: &[&str]) -> Option<String> {
    names.iter().map(|name| join(dir, name)).find(|path| tree.has(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_any_name_is_one_word() {
        assert_eq!(quoted("apps/web-1"), "apps/web-1");
        assert_eq!(quoted("it's $(x)"), "'it'\\''s $(x)'");
        assert_eq!(quoted("-rf"), "./-rf");
        assert_eq!(command(Kind::Test, "a b", "npm test", "x").command, "cd 'a b' && npm test");
    }

    #[test]
    fn shell_lines_of_workflows_are_found() {
        let workflow = "jobs:\n  test:\n    steps:\n      - uses: actions/checkout@v4\n      - run: npm ci\n      - name: x\n        run: |\n          npm test\n          # why\n          npm run lint\n      - uses: y\n";
        assert_eq!(shell_lines(workflow), ["npm ci", "npm test", "npm run lint"]);
        let gitlab = "test:\n  script:\n    - cargo test\n    - \"cargo clippy\"\n  image: rust\n";
        assert_eq!(shell_lines(gitlab), ["cargo test", "cargo clippy"]);
    }
}
