//! Verifications of tasks on the tree that lands: a task must not break what an earlier one was verified for.

use serde_json::{Value, json};

use crate::gates::completion;
use crate::support::{Repo, simple, task, with};

/// Level 2 changes what level 1's verification needs; a further attempt puts it right if `fixes`.
fn breaks_level_1(fixes: bool) -> Repo {
    let repo = Repo::new();
    repo.write("api.txt", "version 1\n");
    repo.commit("api");
    let first = with(
        simple("A", 1, "a.txt"),
        json!({ "verification": { "command": "echo checked >> \"$PWD\"/../../../../.git/runs; grep -q 'version 1' api.txt" } }),
    );
    let fixed = if fixes { "version 1" } else { "version 3" };
    let change = format!(
        "echo B > b.txt; if [ $MAHABHARATHA_ATTEMPT = 1 ]; then echo 'version 2' > api.txt; else echo '{fixed}' > api.txt; fi"
    );
    let second =
        with(task("B", 2, "b.txt", &change), json!({ "files": { "create": ["b.txt"], "modify": ["api.txt"] } }));
    repo.graph("x", &[first, second, simple("C", 2, "c.txt"), simple("D", 2, "d.txt")]);
    repo
}

#[test]
fn a_task_that_breaks_the_verification_of_a_lower_level_is_found_and_fixes_it() {
    let repo = breaks_level_1(true);
    repo.run(&["run"])
        .code(0)
        .says("level 2: the verification of A fails on the merged tree")
        .says("B is to blame: it passes without B's commit and fails with it");
    assert_eq!(repo.read("api.txt"), "version 1\n");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main^2"]), "fix(B): Make b.txt");
}

#[test]
fn a_feature_whose_verifications_do_not_hold_together_is_not_completed() {
    let repo = breaks_level_1(false);
    repo.run(&["run"]).code(4).says("level 2 is not merged: its gate verify A failed").does_not_say("is completed");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main"]), "Level 1: x");
    assert!(!repo.exists(".gsd/specs/x/COMPLETION.md"));
    assert_eq!(repo.status()["status"], "failed");
}

#[test]
fn every_verification_runs_once_more_at_the_last_level_also_where_tasks_share_the_command() {
    let repo = Repo::new();
    let command = "echo \"$MAHABHARATHA_TASK_ID $PWD\" >> \"$PWD\"/../../../../.git/runs; test -e README.md";
    let verification = json!({ "verification": { "command": command } });
    let tasks: Vec<Value> = [("A", 1), ("B", 1), ("C", 2)]
        .map(|(id, level)| with(simple(id, level, &format!("{id}.txt")), verification.clone()))
        .to_vec();
    repo.graph("x", &tasks);
    repo.run(&["run"]).code(0);
    let ran = repo.read(".git/runs");
    let on_staging: Vec<&str> = ran.lines().filter(|line| line.ends_with("/staging")).map(|line| &line[..1]).collect();
    assert_eq!(on_staging, ["A", "B", "C"], "{ran}");
    assert_eq!(ran.lines().count(), 6);
    let report = completion(&repo);
    for id in ["A", "B", "C"] {
        assert!(report.contains(&format!("| 2 | verify {id} |")), "{report}");
    }
}

#[test]
fn a_task_that_is_broken_later_is_noticed_though_another_with_the_same_command_passes() {
    let repo = Repo::new();
    repo.write("list.txt", "A B C D\n");
    repo.commit("a list");
    let shared = json!({ "verification": { "command": "grep -qw \"$MAHABHARATHA_TASK_ID\" list.txt" } });
    let listed = |id: &str, level| with(simple(id, level, &format!("{id}.txt")), shared.clone());
    let fixed = "if [ $MAHABHARATHA_ATTEMPT -gt 1 ]; then echo A B C D > list.txt; else echo A C D > list.txt; fi";
    let breaks = json!({ "run": format!("echo C > C.txt; {fixed}"),
        "files": { "create": ["C.txt"], "modify": ["list.txt"] } });
    repo.graph("x", &[listed("A", 1), listed("B", 1), with(listed("C", 2), breaks), listed("D", 2)]);
    repo.run(&["run"])
        .code(0)
        .says("level 2: the verification of B fails on the merged tree")
        .says("C is to blame: it passes without C's commit and fails with it");
    assert_eq!(repo.read("list.txt"), "A B C D\n");
}
