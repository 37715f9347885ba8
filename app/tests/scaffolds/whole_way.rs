//! From an empty directory to merged code, behind the gates that the new project begins with.

use std::fs;

use crate::bench::{Project, attempt, cache, or_say_so};

const WISH: &str = "\
# Feature: farewell

## Problem Statement
The program greets people, and does not take leave of them.

## User Stories

### Story 1: A visitor is told goodbye
**As a** visitor
**I want** to be told goodbye
**So that** I know that it is over

**Acceptance Criteria:**
- [ ] `farewell(\"Ada\")` returns `Goodbye, Ada!`

**Verification:**
```bash
cargo test --test farewell
```

## Constraints
- none

## Out of Scope
- Other languages

## Dependencies
- none
";

/// Each task is done by a command, as an agent would do it.
fn graph() -> serde_json::Value {
    let source = "//! Taking leave.\\n\\n/// What is said to whom goes.\\n#[must_use]\\npub fn farewell(name: &str) -> String {\\n    format!(\\\"Goodbye, {name}!\\\")\\n}\\n";
    let test = "#[path = \\\"../src/farewell.rs\\\"]\\nmod farewell;\\n\\n#[test]\\nfn a_visitor_is_told_goodbye() {\\n    assert_eq!(farewell::farewell(\\\"Ada\\\"), \\\"Goodbye, Ada!\\\");\\n}\\n";
    let task = |id: &str, level: u32, file: &str, text: &str, needs: &[&str], verify: &str| {
        serde_json::json!({
            "id": id, "title": format!("Write {file}"), "level": level, "files": { "create": [file] }, "dependencies": needs,
            "acceptance_criteria": ["AC-1.1"], "run": format!("printf \"{text}\" > {file}"),
            "verification": { "command": verify },
        })
    };
    serde_json::json!({ "feature": "farewell", "tasks": [
        task("SAY", 1, "src/farewell.rs", source, &[], "rustfmt --check src/farewell.rs"),
        task("TEST", 2, "tests/farewell.rs", test, &["SAY"], "cargo test --quiet --test farewell"),
    ] })
}

#[test]
fn an_empty_directory_becomes_a_project_with_a_feature_merged() {
    let (outside, project) = (tempfile::tempdir().unwrap(), Project::new("rust", "clap"));
    let project = project
        .env("CARGO_TARGET_DIR", cache("rust-whole-way"))
        .env("CLAUDE_CONFIG_DIR", outside.path())
        .env("GIT_AUTHOR_NAME", "A Person")
        .env("GIT_AUTHOR_EMAIL", "person@example.com")
        .env("GIT_COMMITTER_NAME", "A Person")
        .env("GIT_COMMITTER_EMAIL", "person@example.com");
    if or_say_so("the whole way", attempt(&mut project.command("cargo", &["fetch", "--quiet"]))).is_none() {
        return;
    }
    let config = project.path().join(".mahabharatha/config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    assert!(
        ["cargo clippy", "cargo test", "prepare: cargo update --workspace"].iter().all(|call| text.contains(call)),
        "{text}"
    );
    // `init` says that the lock file is to be committed.
    project.run("git", &["add", "-A"]);
    project.run("git", &["commit", "-q", "-m", "Lock versions"]);

    let write = |name: &str, text: &str| {
        let path = outside.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (wish, graph) = (write("wish.md", WISH), write("graph.json", &graph().to_string()));
    let program = env!("CARGO_BIN_EXE_mahabharatha");
    project.run(program, &["plan", "farewell", "--from", &wish, "--approve"]);
    project.run(program, &["design", "farewell", "--from-graph", &graph, "--commit"]);
    project.run(program, &["run", "farewell"]);

    let subjects = project.run("git", &["log", "--first-parent", "--format=%s"]);
    let subjects: Vec<&str> = subjects.lines().collect();
    assert_eq!(subjects[..2], ["Level 2: farewell", "Level 1: farewell"]);
    assert!(subjects.last().unwrap().starts_with("Begin"), "{subjects:?}");
    assert!(project.run("git", &["show", "HEAD~1:Cargo.lock"]).contains("name = \"clap\""));
    assert!(fs::read_to_string(project.path().join("src/farewell.rs")).unwrap().contains("Goodbye"));
    let status: serde_json::Value = serde_json::from_str(&project.run(program, &["status", "--json"])).unwrap();
    assert_eq!(status["status"], "completed");
}
