//! Commits of completed tasks that the repository loses: `debug` says so, and `retry` rebuilds the work.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::agents::doing;
use crate::support::{Repo, task};

/// Removes an object, as a damaged disk would.
fn lose(repo: &Repo, object: &str) {
    let object = repo.git(&["rev-parse", object]);
    for pack in fs::read_dir(repo.join(".git/objects/pack")).unwrap().flatten().map(|entry| entry.path()) {
        if pack.extension().is_some_and(|kind| kind == "pack") {
            let unpacked = repo.join(".git/unpacked");
            fs::rename(pack, &unpacked).unwrap();
            let mut unpack = Command::new("git");
            unpack.args(["unpack-objects", "-q"]).current_dir(repo.path()).stdin(fs::File::open(unpacked).unwrap());
            assert!(unpack.status().unwrap().success());
        }
    }
    fs::remove_file(repo.join(&format!(".git/objects/{}/{}", &object[..2], &object[2..]))).unwrap();
}

/// A run whose first task is completed and whose second is blocked.
fn half_a_level() -> Repo {
    let repo = Repo::new();
    let b = doing("B", 1, "b.txt", "[ -e \"$S/go\" ] || exit 3; echo B > b.txt");
    repo.graph("x", &[doing("A", 1, "a.txt", "echo A > a.txt"), b]);
    repo.run(&["run"]).code(3);
    repo.run(&["debug"]).code(0).does_not_say("is lost");
    repo.run(&["retry", "B"]).code(0);
    repo.write(".gsd/specs/x/go", "");
    repo
}

fn is_found_and_done_again(repo: &Repo, commit: &str) {
    repo.run(&["debug"])
        .code(0)
        .says(&format!("The work of A is lost: the repository does not have all objects of its commit {commit}"))
        .says("`mahabharatha retry A -f x` rebuilds it");
    let found = repo.run(&["debug", "A", "--json"]).code(0).json();
    assert_eq!(found["lost"], json!([{ "task": "A", "commit": commit }]));
    assert_eq!(repo.run(&["debug", "B", "--json"]).code(0).json()["lost"], json!([]));
    repo.run(&["run"])
        .code(9)
        .says("x is paused: the repository has lost the work of A")
        .says("`mahabharatha retry -f x A` rebuilds it");
    repo.run(&["retry", "A"]).code(0);
    repo.run(&["run"]).code(0);
    assert_eq!((repo.read("a.txt"), repo.read("b.txt")), ("A\n".to_string(), "B\n".to_string()));
    assert_eq!(repo.calls(), ["A", "A", "B", "B"]);
    repo.git(&["fsck", "--no-progress"]);
}

#[test]
fn a_commit_that_was_collected_is_made_again() {
    let repo = half_a_level();
    let commit = repo.git(&["rev-parse", "refs/mahabharatha/x/tasks/A"]);
    repo.git(&["update-ref", "-d", "refs/mahabharatha/x/tasks/A"]);
    repo.git(&["gc", "-q", "--prune=now"]);
    is_found_and_done_again(&repo, &commit);
}

#[test]
fn a_commit_that_is_gone_from_the_disk_is_made_again() {
    for object in ["refs/mahabharatha/x/tasks/A", "refs/mahabharatha/x/tasks/A:a.txt"] {
        let repo = half_a_level();
        let commit = repo.git(&["rev-parse", "refs/mahabharatha/x/tasks/A"]);
        lose(&repo, object);
        is_found_and_done_again(&repo, &commit);
    }
}

#[test]
fn an_object_that_a_power_loss_emptied_is_written_again() {
    let commit = "refs/mahabharatha/x/tasks/A";
    for object in [commit, &format!("{commit}^{{tree}}"), &format!("{commit}:a.txt")] {
        for is_met_by_run in [true, false] {
            let repo = half_a_level();
            let name = repo.git(&["rev-parse", object]);
            let file = repo.join(&format!(".git/objects/{}/{}", &name[..2], &name[2..]));
            fs::remove_file(&file).unwrap();
            fs::write(&file, "").unwrap();
            if is_met_by_run {
                repo.run(&["run"]).code(9).says("the repository has lost the work of A");
            }
            repo.run(&["retry", "A"]).code(0);
            repo.run(&["run"]).code(0);
            assert_eq!((repo.read("a.txt"), repo.read("b.txt")), ("A\n".to_string(), "B\n".to_string()));
            repo.git(&["fsck", "--no-progress"]);
        }
    }
}

#[test]
fn a_level_that_was_staged_is_staged_again() {
    let repo = Repo::new();
    let gate = json!([{ "name": "late", "command": "! test -e a.txt || test -e ../../../../.git/pass" }]);
    repo.config(&format!("quality_gates: {gate}\nmerge: {{ remediation_attempts: 0 }}\n"));
    repo.graph("x", &[task("A", 1, "a.txt", "echo A > a.txt")]);
    repo.run(&["run"]).code(4);
    repo.write(".git/pass", "");
    lose(&repo, "mahabharatha/x/staging");
    repo.run(&["run"]).code(9).says("the repository has lost the work of A");
    repo.run(&["retry", "A"]).code(0);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("a.txt"), "A\n");
}
