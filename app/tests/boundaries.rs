//! The rules between modules: which may use which, and which alone may touch processes, git and the terminal.
//!
//! Cargo keeps the crates in their order: core, sys, engine, setup, app.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A module and what it may use of the same crate.
type Rules = &'static [(&'static str, &'static [&'static str])];

/// The modules of each crate and what each may use of the same crate, lowest first: no entry may name a later one, so that
/// there is no cycle. Every module may use `crash`.
const MODULES: [(&str, Rules); 5] = [
    (
        "core",
        &[
            ("cost", &[]),
            ("ids", &[]),
            ("isolation", &[]),
            ("markdown", &[]),
            ("excerpt", &["markdown"]),
            ("names", &[]),
            ("seconds", &[]),
            ("secrets", &["excerpt"]),
            ("sarif", &["excerpt", "markdown", "secrets"]),
            ("severity", &[]),
            ("spec", &["markdown", "severity"]),
            ("graph", &["ids", "markdown", "names", "severity", "spec"]),
            ("plan", &["graph", "ids"]),
            ("design", &["graph", "ids", "markdown", "plan", "spec"]),
            ("run", &["cost", "excerpt", "graph", "ids", "isolation", "plan", "seconds", "secrets", "spec"]),
            ("config", &["graph", "isolation", "names", "run", "seconds", "secrets", "spec"]),
            ("devcontainer", &["config"]),
            ("prompt", &["design", "excerpt", "graph", "ids", "markdown", "run", "spec"]),
            (
                "view",
                &["cost", "excerpt", "graph", "ids", "isolation", "names", "plan", "run", "seconds", "secrets", "spec"],
            ),
            ("charter", &["config", "markdown"]),
            ("estimate", &["config", "cost", "graph", "ids", "plan", "run", "seconds", "spec"]),
        ],
    ),
    (
        "sys",
        &[
            ("crash", &[]),
            ("error", &[]),
            ("bounded", &[]),
            ("channel", &[]),
            ("http", &[]),
            ("raw", &[]),
            ("proc", &["channel", "raw"]),
            ("signals", &["error", "proc"]),
            ("interrupt", &["error", "proc", "signals"]),
            ("ui", &["error", "proc", "signals"]),
            ("store", &["bounded", "error"]),
            ("container", &["channel", "error", "proc"]),
            ("git", &["bounded", "error", "interrupt", "proc", "store"]),
            ("sandbox", &["bounded", "channel", "container", "error", "proc", "raw", "signals", "store"]),
            ("github", &["error", "interrupt", "proc"]),
            ("project", &["bounded", "error", "git", "proc", "store"]),
        ],
    ),
    (
        "engine",
        &[
            ("specs", &[]),
            ("lease", &[]),
            ("history", &[]),
            ("containers", &[]),
            ("provision", &[]),
            ("confinement", &["containers"]),
            ("offline", &["confinement"]),
            ("agent", &["confinement"]),
            ("worker", &["agent", "confinement", "containers", "offline", "provision"]),
            ("launch", &["worker"]),
            ("claude", &["agent", "lease", "specs", "worker"]),
            ("report", &["agent", "claude", "confinement", "offline", "provision"]),
            (
                "host",
                &[
                    "agent",
                    "confinement",
                    "containers",
                    "history",
                    "launch",
                    "lease",
                    "offline",
                    "provision",
                    "report",
                    "specs",
                    "worker",
                ],
            ),
            ("preflight", &["agent", "containers", "provision"]),
            (
                "session",
                &["claude", "containers", "history", "host", "lease", "preflight", "report", "specs", "worker"],
            ),
            ("ship", &["report", "session", "worker"]),
        ],
    ),
    ("setup", &[("planning", &[]), ("init", &["planning"])]),
    (
        "app",
        &[
            ("observe", &[]),
            ("screen", &["observe"]),
            ("serve", &["observe"]),
            ("mcp", &[]),
            ("cli", &["observe", "screen", "serve", "mcp"]),
        ],
    ),
];

/// Names that only these modules may use, outside their tests. Files are read through `bounded`; what is below `/proc` needs
/// no limit.
const BOUNDARIES: [(&str, &[&str]); 16] = [
    ("std::process::Command", &["sys/proc"]),
    ("process::{Command", &["sys/proc"]),
    ("std::net::{", &["sys/http", "app/serve"]),
    ("axum::", &["app/serve"]),
    ("hyper::", &["app/serve"]),
    ("rmcp::", &["app/mcp"]),
    ("tokio::", &["app/serve", "app/mcp"]),
    ("println!", &["sys/ui"]),
    ("eprintln!", &["sys/ui"]),
    // A confined program has the streams of `confine`.
    ("io::stdio", &["app/mcp"]),
    ("io::stdin", &["sys/ui", "sys/sandbox", "engine/worker"]),
    ("io::stdout", &["sys/ui", "sys/sandbox"]),
    ("io::stderr", &["sys/ui", "sys/sandbox"]),
    ("fs::read(", &["sys/bounded", "sys/proc"]),
    ("fs::read_to_string(", &["sys/bounded", "sys/crash", "sys/proc"]),
    ("File::open(", &["sys/bounded"]),
];

struct Source {
    krate: &'static str,
    module: String,
    path: PathBuf,
    /// Without its unit tests.
    text: String,
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for (krate, _) in MODULES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("src");
        let mut open = vec![root.clone()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let below = path.strip_prefix(&root).unwrap();
                    let first = below.components().next().unwrap().as_os_str().to_string_lossy();
                    let module = first.trim_end_matches(".rs").to_string();
                    let text = without_tests(below, &fs::read_to_string(&path).unwrap()).to_owned();
                    found.push(Source { krate, module, path: Path::new(krate).join(below), text });
                }
            }
        }
    }
    assert!(found.len() > 30, "the sources were not found");
    found.retain(|source| !matches!(source.module.as_str(), "bin" | "lib"));
    found
}

/// Returns the text without its unit tests, which are at the end of a file or in a file of their own.
fn without_tests<'a>(path: &Path, text: &'a str) -> &'a str {
    if path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests.rs" | "tests" | "support.rs"))) {
        return "";
    }
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

fn modules_used(text: &str) -> BTreeSet<String> {
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
fn modules_use_only_what_they_may() {
    let mut wrong = Vec::new();
    for Source { krate, module, path, text } in sources() {
        let (_, modules) = MODULES.iter().find(|(name, _)| *name == krate).unwrap();
        let Some((_, may_use)) = modules.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{}: the module {module} has no rule", path.display()));
            continue;
        };
        for used in modules_used(&text) {
            if used != module && used != "crash" && !may_use.contains(&used.as_str()) {
                wrong.push(format!("{}: {module} may not use {used}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_modules_use_each_other() {
    for (krate, modules) in MODULES {
        for (index, (module, may_use)) in modules.iter().enumerate() {
            for used in *may_use {
                let lower = modules[..index].iter().any(|(name, _)| name == used);
                assert!(lower, "{krate}: {module} uses {used}, which does not stand below it");
            }
        }
    }
}

#[test]
fn the_world_is_reached_through_its_boundaries() {
    let mut wrong = Vec::new();
    for Source { krate, module, path, text } in sources() {
        for (word, owners) in BOUNDARIES {
            if !owners.contains(&format!("{krate}/{module}").as_str()) && text.contains(word) {
                wrong.push(format!("{}: only {} may use {word}", path.display(), owners.join(" and ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_checks_see_what_is_forbidden() {
    assert_eq!(
        modules_used("use crate::{git::Git, proc};\ncrate::ui::x()"),
        ["git", "proc", "ui"].map(String::from).into()
    );
    assert_eq!(without_tests(Path::new("a.rs"), "one\n#[cfg(test)]\nmod tests {\ntwo"), "one\n");
    assert_eq!(without_tests(Path::new("a.rs"), "#[cfg(test)]\nmod tests;\ntwo"), "#[cfg(test)]\nmod tests;\ntwo");
}
