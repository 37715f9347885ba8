//! Repositories that come with symbolic links where our files are: nothing outside is read, written or removed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::support::{Repo, simple, with};

const SECRET: &str = "a secret of this person";

/// Everything in a directory, with its text.
fn contents(dir: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let mut found: Vec<_> =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), text(&entry.path()))).collect();
    found.sort();
    found
}

#[test]
fn documents_behind_links_that_lead_out_do_not_reach_an_agent() {
    let repo = Repo::new();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, SECRET).unwrap();
    let show = with(simple("A", 1, "a.txt"), json!({ "run": "cat > a.txt" }));
    for (link, inside) in [
        (".gsd/PROJECT.md", false),
        (".gsd/specs/x/requirements.md", false),
        (".gsd/specs/x/design.md", false),
        (".claude/rules/security-all.md", true),
    ] {
        fs::create_dir_all(repo.join(link).parent().unwrap()).unwrap();
        symlink(&secret, repo.join(link)).unwrap();
        if inside {
            repo.commit("with a link");
        }
    }
    repo.graph("x", &[show]);
    repo.run(&["run"]).code(0);
    assert!(!repo.tree("main")["a.txt"].contains(SECRET));
}

#[test]
fn specs_behind_a_link_that_leads_out_are_refused() {
    let repo = Repo::new();
    let outside = tempfile::tempdir().unwrap();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    let specs = repo.join(".gsd/specs/x");
    fs::rename(&specs, outside.path().join("x")).unwrap();
    symlink(outside.path().join("x"), &specs).unwrap();
    let before = contents(&outside.path().join("x"));
    repo.run(&["status"]).code(0).says("x: invalid").says("symbolic link");
    for args in [&["run"][..], &["run", "--dry-run"], &["design", "--validate-only"]] {
        let ran = repo.run(args);
        assert_ne!(ran.code, 0, "{args:?}: {}", ran.stdout);
        ran.says("symbolic link");
    }
    assert_eq!(contents(&outside.path().join("x")), before);
}

#[test]
fn nothing_is_written_or_removed_where_a_link_leads_out() {
    for link in [".mahabharatha/state", ".mahabharatha/logs", ".mahabharatha/logs/x/gates", ".mahabharatha/worktrees"] {
        let repo = Repo::new();
        repo.config("quality_gates: [ { name: there, command: 'true' } ]\n");
        repo.commit("with a gate");
        let outside = tempfile::tempdir().unwrap();
        for name in ["x", "x/staging", "workers", "tasks"] {
            fs::create_dir_all(outside.path().join(name)).unwrap();
        }
        for name in ["x.json", "1-there.1.jsonl", ".unfinished-x", "x/staging/work", "x/work"] {
            fs::write(outside.path().join(name), SECRET).unwrap();
        }
        let all = || [outside.path(), &outside.path().join("x"), &outside.path().join("x/staging")].map(contents);
        let before = all();
        fs::create_dir_all(repo.join(link).parent().unwrap()).unwrap();
        symlink(outside.path(), repo.join(link)).unwrap();
        repo.graph("x", &[simple("A", 1, "a.txt")]);
        for args in [&["run"][..], &["cleanup", "x", "--force"], &["logs"], &["status"]] {
            let ran = repo.run(args);
            assert_eq!(all(), before, "{link}, {args:?}: {}", ran.stderr);
        }
    }
}
