//! Turns the paths that a task owns into the agent's own rules, so that it learns at once what it may not change. The
//! worker checks in any case.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use mahabharatha_core::config::{Generated, Isolation, PathRules};
use mahabharatha_core::graph::OwnedPath;
use serde_json::{Map, json};

use super::super::Session;

/// Most paths that a permissions profile of codex names; the kernel's rules have one mount for each.
const MAX_READ_ONLY: usize = 200;
const GEMINI_POLICY: &str = ".gemini/mahabharatha-policy.toml";

/// Rules in the agent's own words.
#[derive(Debug, Default)]
pub struct Rules {
    /// What `{rules}` stands for in its arguments.
    pub args: Vec<String>,
    pub set: BTreeMap<String, String>,
    /// Files of its private home.
    pub files: BTreeMap<String, String>,
}

/// Returns the rules for a task.
pub fn rules(kind: PathRules, session: &Session<'_>) -> Rules {
    match kind {
        PathRules::None => Rules::default(),
        // Its rules need namespaces of their own, which a sandbox does not allow, and the sandbox confines it as well.
        PathRules::Codex if session.sandbox.isolation() != Isolation::Off => codex_sandbox("danger-full-access"),
        PathRules::Codex => codex(session.worktree, session.owned),
        PathRules::Opencode => opencode(session.owned, "allow"),
        PathRules::Gemini => gemini(session.sandbox.workdir(), session.owned),
    }
}

/// Returns the rules for a question, during which the agent may only read.
pub fn reading(kind: PathRules, isolation: Isolation) -> Rules {
    match kind {
        PathRules::Codex if isolation != Isolation::Off => codex_sandbox("danger-full-access"),
        PathRules::Codex => codex_sandbox("read-only"),
        PathRules::Opencode => opencode(&[], "deny"),
        PathRules::None | PathRules::Gemini => Rules::default(),
    }
}

fn codex_sandbox(mode: &str) -> Rules {
    Rules { args: vec!["-s".to_owned(), mode.to_owned()], ..Rules::default() }
}

/// A permissions profile: what is there and is not the task's is read-only. What is not there may be created, since builds
/// and tests do that.
fn codex(worktree: &Path, owned: &[OwnedPath]) -> Rules {
    let mut paths = vec![r#""."="write""#.to_owned()];
    paths.extend(unowned(worktree, owned).iter().map(|path| format!("{}=\"read\"", json!(path))));
    let filesystem = format!(
        r#"permissions.task.filesystem={{":root"="read",":tmpdir"="write",":slash_tmp"="write",":workspace_roots"={{{}}}}}"#,
        paths.join(",")
    );
    let options = [r#"default_permissions="task""#, &filesystem, "permissions.task.network.enabled=true"];
    let args = options.iter().flat_map(|option| ["-c".to_owned(), (*option).to_owned()]).collect();
    Rules { args, ..Rules::default() }
}

/// Returns what is in the worktree beside the owned paths: of each directory that leads to one, the other entries.
fn unowned(worktree: &Path, owned: &[OwnedPath]) -> BTreeSet<String> {
    let generated = Generated::default();
    let mut found = BTreeSet::new();
    let mut dirs: Vec<String> = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(worktree.join(&dir)).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            let is_below = |owned: &OwnedPath| path == owned.path || Path::new(&path).starts_with(&owned.path);
            let leads = |owned: &OwnedPath| Path::new(&owned.path).starts_with(&path);
            if path == ".git" || generated.is_generated(&path) || owned.iter().any(is_below) {
                continue;
            }
            if owned.iter().any(leads) {
                dirs.push(path);
            } else if found.len() < MAX_READ_ONLY {
                found.insert(path);
            }
        }
    }
    found
}

/// The tools that edit files are kept to the owned paths; a shell is not.
fn opencode(owned: &[OwnedPath], shell: &str) -> Rules {
    let mut edit = Map::from_iter([("*".to_owned(), json!("deny"))]);
    for OwnedPath { path, directory, .. } in owned {
        edit.insert(if *directory { format!("{path}/**") } else { path.clone() }, json!("allow"));
    }
    let permission = json!({ "edit": edit, "bash": shell, "webfetch": "allow", "external_directory": "deny" });
    let config = json!({ "permission": permission }).to_string();
    Rules { set: BTreeMap::from([("OPENCODE_CONFIG_CONTENT".to_owned(), config)]), ..Rules::default() }
}

/// The tools that edit files are kept to the owned paths; a shell is not.
fn gemini(worktree: &Path, owned: &[OwnedPath]) -> Rules {
    let paths: Vec<String> = owned
        .iter()
        .map(|OwnedPath { path, directory, .. }| format!("{}{}", escape(path), if *directory { "/[^\"]*" } else { "" }))
        .collect();
    let place = escape(&worktree.to_string_lossy());
    let pattern = format!(r#""file_path":"({place}/|\./)?({})""#, paths.join("|"));
    let policy = format!(
        "[[rule]]\ntoolName = [\"write_file\", \"replace\"]\nargsPattern = {}\ndecision = \"allow\"\npriority = 300\n\n\
         [[rule]]\ntoolName = [\"write_file\", \"replace\"]\ndecision = \"deny\"\npriority = 200\n",
        json!(pattern)
    );
    Rules {
        args: vec!["--policy".to_owned(), format!("{{home}}/{GEMINI_POLICY}")],
        files: BTreeMap::from([(GEMINI_POLICY.to_owned(), policy)]),
        ..Rules::default()
    }
}

/// Escapes a path for a regular expression.
fn escape(path: &str) -> String {
    let mut escaped = String::new();
    for c in path.chars() {
        if c.is_ascii_punctuation() && !matches!(c, '/' | '_') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(path: &str, directory: bool) -> OwnedPath {
        OwnedPath { path: path.into(), directory, create: true }
    }

    #[test]
    fn codex_may_write_what_the_task_owns_and_what_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["src/a.rs", "src/b.rs", "src/sub/c.rs", "docs/x.md", "target/debug/x", "Cargo.toml", ".git/HEAD"] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let paths = unowned(dir.path(), &[owned("src/a.rs", false), owned("new/x.rs", false)]);
        assert_eq!(paths.iter().map(String::as_str).collect::<Vec<_>>(), ["Cargo.toml", "docs", "src/b.rs", "src/sub"]);
        let rules = codex(dir.path(), &[owned("src", true), owned("docs", true)]);
        assert!(rules.args[3].contains(r#":workspace_roots"={"."="write","Cargo.toml"="read"}"#), "{:?}", rules.args);
    }

    #[test]
    fn editing_tools_are_kept_to_the_owned_paths() {
        let both = [owned("src/a+b.rs", false), owned("docs", true)];
        let rules = opencode(&both, "allow");
        let config: serde_json::Value = serde_json::from_str(&rules.set["OPENCODE_CONFIG_CONTENT"]).unwrap();
        assert_eq!(config["permission"]["edit"], json!({ "*": "deny", "docs/**": "allow", "src/a+b.rs": "allow" }));
        let rules = gemini(Path::new("/w"), &both);
        assert_eq!(rules.args, ["--policy", "{home}/.gemini/mahabharatha-policy.toml"]);
        let policy = &rules.files[GEMINI_POLICY];
        assert!(policy.contains(r#"\"file_path\":\"(/w/|\\./)?(src/a\\+b\\.rs|docs/[^\"]*)\""#), "{policy}");
    }
}
