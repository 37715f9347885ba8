//! Repositories with settings of git that few people use.

use std::fs;

use serde_json::json;

use crate::support::{Repo, pass_over, simple, with};

/// Files in `in/` and `out/`, of which the checkout has only the first directory.
fn sparse(options: &[&str]) -> Repo {
    let repo = Repo::new();
    for name in ["in/a", "in/b", "out/a", "out/b", "out/deep/c"] {
        repo.write(name, "old\n");
    }
    repo.commit("two directories");
    repo.git(&[&["sparse-checkout", "set"], options].concat());
    repo
}

/// Changes, removes and adds a file in both directories.
fn tasks() -> [serde_json::Value; 2] {
    let task = |id: &str, dir: &str| {
        let files =
            json!({ "create": [format!("{dir}/new")], "modify": [format!("{dir}/a"), format!("{dir}/b")], "read": [] });
        let run = format!("echo new > {dir}/new; echo changed > {dir}/a; rm {dir}/b");
        with(simple(id, 1, "unused"), json!({ "files": files, "run": run, "verification": { "command": "true" } }))
    };
    [task("IN", "in"), task("OUT", "out")]
}

#[test]
fn landing_in_a_sparse_checkout_writes_nothing_outside_of_it() {
    for options in
        [&["in", ".mahabharatha"][..], &["--sparse-index", "in", ".mahabharatha"], &["--no-cone", "/*", "!/out/"]]
    {
        let repo = sparse(options);
        repo.config("quality_gates: [ { name: whole, command: 'test -e out/deep/c' } ]\n");
        repo.git(&["commit", "-qam", "with a gate"]);
        assert!(!repo.exists("out"), "{options:?}");
        repo.graph("x", &tasks());
        repo.run(&["run"]).code(0);
        assert_eq!((repo.read("in/a").as_str(), repo.read("in/new").as_str()), ("changed\n", "new\n"), "{options:?}");
        assert!(!repo.exists("in/b") && !repo.exists("out"), "{options:?}");
        assert_eq!(repo.tree("main")["out/new"], "new", "{options:?}");
        assert_eq!(repo.git(&["status", "--porcelain", "--untracked-files=no"]), "", "{options:?}");
        repo.git(&["sparse-checkout", "disable"]);
        assert_eq!((repo.read("out/a").as_str(), repo.exists("out/b")), ("changed\n", false), "{options:?}");
    }
}

#[test]
fn a_change_in_the_way_is_reported_in_a_sparse_checkout_too() {
    let repo = sparse(&["in", ".mahabharatha"]);
    repo.graph("x", &tasks());
    repo.write("in/a", "mine\n");
    repo.run(&["run"]).code(9).says("(in/a)");
    repo.git(&["checkout", "in/a"]);
    repo.run(&["run"]).code(0);
    assert!(!repo.exists("out"));
}

#[test]
fn a_split_index_works() {
    let repo = Repo::new();
    for number in 0..100 {
        repo.write(&format!("many/{number}"), "old\n");
    }
    repo.commit("many");
    repo.git(&["config", "core.splitIndex", "true"]);
    repo.git(&["update-index", "--split-index"]);
    let has_shared = || {
        let names = fs::read_dir(repo.join(".git")).unwrap().flatten().map(|entry| entry.file_name());
        names.map(|name| name.into_string().unwrap()).any(|name| name.starts_with("sharedindex."))
    };
    assert!(has_shared());
    repo.write("many/1", "staged by a person\n");
    repo.git(&["add", "many/1"]);
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("b.txt"), "B\n");
    assert_eq!(repo.git(&["status", "--porcelain", "--untracked-files=no"]), "M  many/1");
}

#[test]
fn a_base_moved_under_a_split_index_is_noticed() {
    let repo = Repo::new();
    repo.git(&["config", "core.splitIndex", "true"]);
    repo.git(&["update-index", "--split-index"]);
    let moves = "git update-ref refs/heads/main $(git commit-tree -m other -p main $(git mktree </dev/null))";
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "run": format!("echo A > a.txt; {moves}") }))]);
    repo.run(&["run"]).code(9).says("main was moved to").says("but its checkout at");
}

#[test]
fn a_repository_with_refs_in_a_table_is_refused_with_the_reason() {
    let repo = Repo::empty();
    let made = std::process::Command::new("git")
        .args(["init", "-q", "-b", "main", "--ref-format=reftable"])
        .current_dir(repo.path())
        .output()
        .unwrap();
    if !made.status.success() {
        return pass_over("this git has no reftable");
    }
    repo.git(&["config", "user.name", "A Person"]);
    repo.git(&["config", "user.email", "person@example.com"]);
    repo.config("");
    repo.commit("first");
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    for args in [&["run"][..], &["doctor"], &["status"], &["design", "--validate-only"]] {
        repo.run(args).code(7).says("reftable").says("git refs migrate --ref-format=files");
    }
    assert!(!repo.exists(".git/mahabharatha/x/jobs") && !repo.exists(".mahabharatha/worktrees"));
}
