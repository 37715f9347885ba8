//! The same in other surroundings: an ordinary user, no namespaces, submodules, a linked worktree, filters.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::{Ran, Repo};

/// A run of one task, whose verification and gate are the command.
fn graph(repo: &Repo, command: &str) {
    repo.graph(
        "x",
        &[json!({
            "id": "A", "title": "A", "level": 1, "files": { "create": ["a.txt"] }, "dependencies": [],
            "run": "echo a > a.txt", "verification": { "command": command },
        })],
    );
}

/// Gives a directory and everything in it to the user.
fn give(dir: &Path, user: u32) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => give(&entry.path(), user),
            kind if kind.is_symlink() => {}
            _ => chown(entry.path(), Some(user), Some(user)).unwrap(),
        }
    }
    chown(dir, Some(user), Some(user)).unwrap();
}

#[test]
fn a_run_of_an_ordinary_user_is_confined() {
    const USER: u32 = 4711;
    if !is_root() {
        // Without root, every other test already runs as an ordinary user.
        return;
    }
    for sandbox in ["bwrap", "landlock"] {
        let repo = Repo::new();
        repo.config(&format!("sandbox: {sandbox}\n"));
        fs::write(repo.home().join("secret"), "").unwrap();
        graph(&repo, "git status && test -s a.txt && test ! -e ~/secret");
        repo.commit("a graph");
        // The user cannot reach the directory of the build.
        let program = repo.home().join("mahabharatha");
        fs::copy(env!("CARGO_BIN_EXE_mahabharatha"), &program).unwrap();
        for dir in [repo.home(), &repo.path()] {
            give(dir, USER);
        }
        let user = USER.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--inh-caps=-all"]);
        command.arg(&program).arg("run").current_dir(repo.path()).env("HOME", repo.home());
        Ran::of(command.output().unwrap()).code(0).says(&format!("sandbox {sandbox}")).says("x is completed");
    }
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().unwrap();
    output.stdout == b"0\n"
}

#[test]
fn where_bubblewrap_does_not_work_landlock_is_used() {
    let repo = Repo::new();
    repo.config("sandbox: auto\n");
    repo.program("bin/bwrap", "echo 'bwrap: No permissions to create new namespace' >&2; exit 1");
    graph(&repo, "test -s a.txt");
    repo.commit("a graph");
    let path = format!("{}:{}", repo.join("bin").display(), std::env::var("PATH").unwrap());
    repo.run_with(&["run"], &[("PATH", &path)]).code(0).says("sandbox landlock");
    repo.run_with(&["run", "--sandbox", "bwrap"], &[("PATH", &path)]).code(7).says("No permissions");
}

#[test]
fn a_repository_with_submodules_is_confined() {
    for sandbox in ["bwrap", "landlock"] {
        let (library, repo) = (Repo::new(), Repo::new());
        repo.config(&format!("sandbox: {sandbox}\n"));
        let url = library.path().display().to_string();
        repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "sub"]);
        graph(&repo, "git submodule status | grep -q sub && git diff --quiet HEAD -- sub && test -d sub");
        repo.commit("a submodule");
        repo.run(&["run"]).code(0).says("x is completed");
    }
}

#[test]
fn a_linked_worktree_is_confined() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = Repo::new();
        repo.config(&format!("sandbox: {sandbox}\n"));
        graph(&repo, "git status && git log --oneline && test -s a.txt");
        repo.commit("a graph");
        let linked = repo.home().join("linked tree");
        repo.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
        let mut command = repo.command(&["run"]);
        Ran::of(command.current_dir(&linked).output().unwrap()).code(0).says("x is completed");
        assert_eq!(fs::read_to_string(linked.join("a.txt")).unwrap(), "a\n");
        let mut command = repo.command(&["sandbox", "--", "git log --oneline | grep -q 'Level 1'"]);
        Ran::of(command.current_dir(&linked).output().unwrap()).code(0);
    }
}

/// As Git LFS does: what git stores is a pointer, and a filter makes the file of it.
#[test]
fn files_behind_a_filter_are_confined() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = Repo::new();
        repo.config(&format!("sandbox: {sandbox}\n"));
        repo.git(&["config", "filter.rot.clean", "tr a-z n-za-m"]);
        repo.git(&["config", "filter.rot.smudge", "tr a-z n-za-m"]);
        repo.write(".gitattributes", "*.big filter=rot\n");
        repo.write("asset.big", "large\n");
        graph(&repo, "test -s asset.big && test -s a.txt");
        repo.commit("an asset");
        assert_eq!(repo.git(&["cat-file", "blob", "HEAD:asset.big"]), "ynetr");
        repo.run(&["run"]).code(0).says("x is completed");
        assert_eq!(repo.git(&["cat-file", "blob", "HEAD:asset.big"]), "ynetr");
        assert_eq!(repo.read("asset.big"), "large\n");
    }
}
