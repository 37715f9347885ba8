//! What the original gets wrong about merging, by the rows of its list of defects.

use serde_json::json;

use crate::support::{HELD, Repo, simple, task, with};

#[test]
fn row_3_merges_and_gates_happen_by_default_and_merge_says_the_truth() {
    let repo = Repo::new();
    repo.config("quality_gates: [{ name: gate, command: 'echo gated >> ../../../../.git/gated' }]\n");
    repo.graph("x", &[task("A", 1, "a.txt", "exit 3"), simple("B", 1, "b.txt")]);
    repo.run(&["run"]).code(3);
    let before = repo.git(&["rev-parse", "main"]);
    // What cannot be merged is not merged, and that is what is said.
    repo.run(&["merge"]).code(3).says("level 1 cannot be merged: these tasks are not completed").says("A");
    repo.run(&["merge", "--dry-run"]).code(3);
    assert_eq!(repo.git(&["rev-parse", "main"]), before);
    repo.run(&["skip", "A", "--reason", "no"]).code(0);
    repo.run(&["merge", "--dry-run"]).code(0).says("level 1 would be merged into main").says("B").says("gates: gate");
    assert_eq!(repo.git(&["rev-parse", "main"]), before);
    repo.run(&["merge"]).code(0).says("level 1 merged into main");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main"]), "Level 1: x");
    assert_eq!(repo.read("b.txt"), "B\n");
    assert_eq!(repo.read(".git/gated"), "gated\ngated\n", "on the base and on the level");
}

#[test]
fn row_4_a_level_sees_the_work_of_the_level_below() {
    let repo = Repo::new();
    let second = task("B", 2, "b.txt", "git log -1 --format=%s > b.txt && cat a.txt >> b.txt");
    let third = task("C", 3, "c.txt", "cat a.txt b.txt > c.txt");
    repo.graph("x", &[simple("A", 1, "a.txt"), second, third]);
    repo.run(&["run", "-w", "1"]).code(0);
    assert_eq!(repo.read("c.txt"), "A\nLevel 1: x\nA\n");
}

#[test]
fn row_5_a_run_that_failed_says_so_and_does_not_exit_0() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a.txt", "exit 1"), simple("B", 1, "b.txt"), simple("C", 2, "c.txt")]);
    repo.run(&["run"])
        .code(3)
        .says("x is blocked")
        .says("A is blocked")
        .does_not_say("is completed")
        .does_not_say("All tasks");
    let status = repo.status();
    assert_eq!((&status["status"], &status["levels"][0]["completed"]), (&json!("blocked"), &json!(1)));
    assert!(!repo.exists(".gsd/specs/x/COMPLETION.md"));
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main"]), "first");
}

#[test]
fn row_7_verifications_gates_and_prepare_are_shell_commands() {
    let repo = Repo::new();
    let gate = "test ! -e a.txt || { cat a.txt | tr a-z A-Z > up.txt && grep -q HELLO < up.txt; }";
    repo.config(&format!(
        "quality_gates: {}\nmerge: {}\n",
        json!([{ "name": "shell", "command": gate }]),
        json!({ "prepare": "printf '%s\\n' [!C]* | sort > Cargo.lock && true" })
    ));
    repo.write("Cargo.lock", "");
    repo.commit("with a lock file");
    let verification = json!({ "verification": { "command": "grep hello a.txt | wc -l > count && test \"$(cat count)\" -eq 1 || exit 1; rm count" } });
    repo.graph("x", &[with(task("A", 1, "a.txt", "echo hello | tee a.txt > /dev/null && true"), verification)]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("a.txt"), "hello\n");
    assert_eq!(repo.read("Cargo.lock"), "README.md\na.txt\n");
}

#[test]
fn row_14_what_a_task_does_not_own_is_not_committed() {
    let repo = Repo::new();
    repo.config("retry: { max_attempts: 2, base_seconds: 0, max_seconds: 0 }\nagent: command\n");
    let strays = "echo A > a.txt; echo stray > stray.txt; echo changed > README.md; git add -A; git commit -q -m all";
    repo.graph("x", &[task("A", 1, "a.txt", strays), simple("B", 1, "b.txt")]);
    repo.run(&["run"]).code(3).says("A tried to change what it does not own: README.md, stray.txt");
    repo.run(&["skip", "A", "--reason", "it cannot keep to itself"]).code(0);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.git(&["diff", "--name-only", "main~1", "main"]), "b.txt");
    assert_eq!(repo.read("README.md"), "hello\n");
    assert_eq!(repo.git(&["show", "refs/mahabharatha/x/wip/A/1:stray.txt"]), "stray", "it is kept all the same");
}

#[test]
fn row_18_any_branch_is_a_base_and_merges_do_not_happen_in_the_users_checkout() {
    let repo = Repo::new();
    repo.git(&["branch", "-m", "trunk"]);
    repo.graph("x", &[task("A", 1, "a.txt", &format!("{HELD} echo A > a.txt")), simple("B", 2, "b.txt")]);
    let run = repo.run_until_held("x");
    repo.write("README.md", "half a thought\n");
    repo.write("notes.txt", "mine\n");
    let reflog = repo.git(&["reflog", "show", "HEAD"]);
    repo.let_go_on("x", run).code(0);
    assert_eq!(repo.git(&["log", "--first-parent", "--format=%s", "trunk"]), "Level 2: x\nLevel 1: x\nfirst");
    assert_eq!((repo.read("README.md").as_str(), repo.read("notes.txt").as_str()), ("half a thought\n", "mine\n"));
    // HEAD went along with its branch: nothing was checked out, reset or stashed there.
    let moves = repo.git(&["reflog", "show", "--format=%gs", "HEAD"]);
    assert_eq!(moves.lines().count(), reflog.lines().count() + 2, "{moves}");
    assert!(moves.starts_with("Level 2: x\nLevel 1: x\n"), "{moves}");
    assert!(repo.git(&["stash", "list"]).is_empty());
}
