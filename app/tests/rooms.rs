//! The rules between rooms: who may use whom, and which doors lead to the world.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What each room may use. `cli` may use all, and nobody uses `cli`. All may say where they can be killed.
const MAY_USE: &[(&str, &[&str])] = &[
    ("crash", &[]),
    ("error", &[]),
    ("proc", &[]),
    ("ui", &["error"]),
    ("store", &["error"]),
    ("git", &["proc", "error"]),
    ("project", &["error", "git", "store"]),
    ("specs", &["error", "git", "project", "store"]),
    ("agent", &["error", "proc", "worker"]),
    ("worker", &["agent", "error", "git", "proc", "project", "store"]),
    ("claude", &["error", "git", "lease", "project", "specs", "store", "ui", "worker"]),
    ("launch", &["error", "proc", "worker"]),
    ("lease", &["error", "proc", "store"]),
    ("report", &["claude", "error", "project", "store", "ui"]),
    ("host", &["agent", "error", "git", "launch", "lease", "proc", "project", "report", "session", "store", "worker"]),
    ("init", &["claude", "error", "git", "planning", "proc", "project", "report", "specs", "store", "ui"]),
    ("planning", &["agent", "claude", "error", "git", "proc", "project", "report", "specs", "store", "ui"]),
    ("preflight", &["agent", "error", "git", "proc", "project", "session", "store", "ui"]),
    (
        "session",
        &[
            "claude",
            "error",
            "git",
            "host",
            "lease",
            "preflight",
            "proc",
            "project",
            "report",
            "specs",
            "store",
            "ui",
            "worker",
        ],
    ),
];

/// Words that only one room may say, outside its tests.
const DOORS: [(&str, &str); 6] = [
    ("std::process::Command", "proc"),
    ("process::{Command", "proc"),
    ("println!", "ui"),
    ("eprintln!", "ui"),
    ("io::stdout", "ui"),
    ("io::stderr", "ui"),
];

fn sources() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let below = path.strip_prefix(&root).unwrap();
                let first = below.components().next().unwrap().as_os_str().to_string_lossy();
                let room = first.trim_end_matches(".rs").to_string();
                let text = fs::read_to_string(&path).unwrap();
                found.push((room, below.to_owned(), text));
            }
        }
    }
    assert!(found.len() > 30, "the sources were not found");
    found
}

/// The text without its unit tests, which stand at the end of a file or in one of their own.
fn without_tests<'a>(path: &Path, text: &'a str) -> &'a str {
    if path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests.rs" | "tests" | "support.rs"))) {
        return "";
    }
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

fn rooms_used(text: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default().split(',').collect(),
            None => vec![rest],
        };
        for name in names {
            let name: String = name.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            used.insert(name);
        }
    }
    used
}

#[test]
fn rooms_use_only_what_they_may() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut wrong = Vec::new();
    for (room, path, text) in sources() {
        if matches!(room.as_str(), "cli" | "bin" | "lib") {
            continue;
        }
        let Some(may_use) = allowed.get(room.as_str()) else {
            wrong.push(format!("{}: the room {room} has no rule", path.display()));
            continue;
        };
        for used in rooms_used(without_tests(&path, &text)) {
            if used != room && used != "crash" && !may_use.contains(&used.as_str()) {
                wrong.push(format!("{}: {room} may not use {used}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_world_is_reached_through_its_doors() {
    let mut wrong = Vec::new();
    for (room, path, text) in sources() {
        for (word, door) in DOORS {
            if room != door && room != "bin" && without_tests(&path, &text).contains(word) {
                wrong.push(format!("{}: {word} is for {door} alone", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_guard_sees_what_is_forbidden() {
    assert_eq!(
        rooms_used("use crate::{git::Git, proc};\ncrate::ui::x()"),
        ["git", "proc", "ui"].map(String::from).into()
    );
    assert_eq!(without_tests(Path::new("a.rs"), "one\n#[cfg(test)]\ntwo"), "one\n");
}
