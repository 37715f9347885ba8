//! `merge.approval: level`: a level that passed its gates lands when a person has approved it, and only that.

use std::process::Command;

use serde_json::Value;

use crate::support::{Ran, Repo, simple, task};
use crate::task_mode::{Session, plain};

const APPROVAL: &str =
    "merge: { approval: level }\nquality_gates: [{ name: lint, command: '! grep -q bad a1', timeout: 60 }]\n";

/// A run whose first level waits for approval.
fn waiting() -> Repo {
    let repo = Repo::new();
    repo.config(APPROVAL);
    repo.write("a1", "first\n");
    repo.commit("second");
    repo.graph("x", &[simple("A-1", 1, "b1"), simple("B-1", 2, "c1")]);
    repo.run(&["run"]).code(9).says("level 1 waits for your approval").says("mahabharatha merge --approve");
    repo
}

fn awaited_tree(repo: &Repo) -> Value {
    repo.status()["levels"][0]["awaits_approval"]["tree"].clone()
}

#[test]
fn each_level_waits_until_it_is_approved() {
    let repo = waiting();
    let status = repo.status();
    assert_eq!((&status["status"], &status["levels"][0]["status"]), (&"paused".into(), &"merging".into()));
    assert_eq!(status["blockers"][0], "level 1: waits for your approval");
    let shown = repo.run(&["status"]).code(0).stdout;
    let diff = shown.split('`').find(|text| text.starts_with("git diff ")).unwrap();
    let output = Command::new("sh").args(["-c", diff]).current_dir(repo.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("+++ b/b1"), "{diff} shows the level");
    assert!(!repo.tree("main").contains_key("b1"));

    // Neither resuming nor merging approves anything.
    let tree = awaited_tree(&repo);
    repo.run(&["run"]).code(9).says("waits for your approval");
    repo.run(&["merge"]).code(9).says("waits for your approval");
    assert_eq!(awaited_tree(&repo), tree);

    repo.run(&["merge", "--approve", "--level", "2"]).code(6).says("level 2 of x does not wait for approval");
    repo.run(&["merge", "--approve", "--level", "1"]).code(0).says("level 1 is approved").says("mahabharatha run x");
    assert!(repo.tree("main").contains_key("b1"));
    assert_eq!(awaited_tree(&repo), Value::Null);
    repo.run(&["merge", "--approve"]).code(6).says("no level of x waits for approval");
    repo.run(&["run"]).code(9).says("level 2 waits for your approval");
    repo.run(&["merge", "--approve"]).code(0).says("x is completed");
    assert!(repo.tree("main").contains_key("c1"));
}

#[test]
fn what_changed_since_it_was_shown_needs_another_approval() {
    let repo = waiting();
    let tree = awaited_tree(&repo);
    repo.write("elsewhere", "by a person\n");
    repo.git(&["add", "elsewhere"]);
    repo.git(&["commit", "-qm", "moves on"]);
    repo.run(&["merge", "--approve"]).code(9).says("level 1 is approved").says("level 1 waits for your approval");
    assert_ne!(awaited_tree(&repo), tree);
    assert!(!repo.tree("main").contains_key("b1"));
    // The gates ran on what would land now.
    repo.write("a1", "bad\n");
    repo.git(&["add", "a1"]);
    repo.git(&["commit", "-qm", "breaks"]);
    repo.run(&["merge", "--approve"]).code(4).says("lint");
    repo.git(&["revert", "--no-edit", "HEAD"]);
    // Now it is again the tree that was approved last.
    repo.run(&["merge", "--retry"]).code(0).does_not_say("waits for your approval");
    assert!(repo.tree("main").contains_key("b1"));
}

/// The command that a text shows for approving a level.
fn shown_approval(text: &str) -> Vec<String> {
    let start = text.find("mahabharatha merge --approve").unwrap_or_else(|| panic!("no command in {text}"));
    let command = text[start..].lines().next().unwrap().split(['`', ',']).next().unwrap();
    command.split_whitespace().skip(1).map(str::to_owned).collect()
}

fn approves(repo: &Repo, args: &[String]) -> Ran {
    repo.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn what_a_command_shows_is_all_that_it_approves() {
    let repo = waiting();
    let by_status = shown_approval(&repo.run(&["status"]).code(0).stdout);
    let by_run = shown_approval(&repo.run(&["run"]).code(9).stderr);
    let by_review = shown_approval(&repo.run(&["review", "--accept", "A-1"]).code(0).stderr);
    let by_debug = repo.run(&["debug", "--json"]).code(0).json();
    let by_debug = shown_approval(by_debug["hypotheses"][0]["command"].as_str().unwrap());
    // What waits is replaced behind the person's back: the same task with other contents.
    repo.graph("x", &[task("A-1", 1, "b1", "echo other > b1"), simple("B-1", 2, "c1")]);
    repo.run(&["retry", "A-1"]).code(0);
    repo.run(&["run"]).code(9);
    let tree = awaited_tree(&repo);
    for args in [&by_status, &by_run, &by_review, &by_debug] {
        approves(&repo, args).code(6).says("has changed since").says(&tree.as_str().unwrap()[..10]);
        assert_eq!(awaited_tree(&repo), tree, "{args:?}");
    }
    repo.run(&["merge", "--approve=zebra"]).code(2).says("no tree or commit");
    repo.run(&["merge", "--approve=abc"]).code(2);
    assert_eq!(awaited_tree(&repo), tree);
    approves(&repo, &shown_approval(&repo.run(&["status"]).code(0).stdout)).code(0);
    assert_eq!(repo.tree("main")["b1"], "other");
    repo.run(&["run"]).code(9);
    let staging = repo.status()["levels"][1]["awaits_approval"]["staging"].as_str().unwrap().to_owned();
    repo.run(&["merge", &format!("--approve={}", staging[..12].to_uppercase())]).code(0);
}

#[test]
fn an_approval_outlives_a_crash_and_a_task_can_be_redone_instead() {
    let repo = waiting();
    repo.run(&["retry", "A-1"]).code(0);
    assert_eq!(awaited_tree(&repo), Value::Null);
    repo.run(&["run"]).code(9).says("level 1 waits for your approval");
    assert_eq!(repo.task("A-1")["attempt"], 2);
    let crash = ("MAHABHARATHA_CRASH_AT", "land 1 with a commit");
    repo.run_with(&["merge", "--approve"], &[crash]).code(-1);
    assert!(!repo.tree("main").contains_key("b1"));
    repo.run(&["run"]).code(9).says("level 2 waits for your approval");
    assert!(repo.tree("main").contains_key("b1"));
}

#[test]
fn nothing_waits_for_approval_once_a_task_is_repeated() {
    let repo = waiting();
    repo.run(&["retry", "A-1"]).code(0);
    let blockers = &repo.status()["blockers"];
    assert_eq!(*blockers, serde_json::json!(["run: it stopped for an approval that is no longer needed"]));
    repo.run(&["status"]).code(0).says("continue with `mahabharatha run x`").does_not_say("waits for your approval");
    assert!(!repo.read(".gsd/STATE.md").contains("waits for your approval"));
    repo.run(&["run"]).code(9).says("level 1 waits for your approval");
}

#[test]
fn approval_cannot_be_switched_off_behind_the_runs_back() {
    let repo = waiting();
    repo.config(&APPROVAL.replace("level", "none"));
    repo.run(&["run"]).code(9).says("- merge.approval: \"level\"").says("--accept-config");
    assert!(!repo.tree("main").contains_key("b1"));
    repo.run(&["run", "--accept-config"]).code(0);
}

#[test]
fn a_session_waits_for_approval_too() {
    let repo = Repo::new();
    repo.config("merge: { approval: level }\n");
    repo.graph("x", &[plain("A", 1, "a.txt")]);
    let session = Session(&repo, "one");
    session.run(&["task", "start"]).code(0);
    session.does("A", "a.txt", "done").code(0);
    session.run(&["merge"]).code(9).says("level 1 waits for your approval");
    session.run(&["task", "next"]).code(9).says("level 1: waiting for approval").does_not_say("blocked tasks");
    let next = session.run(&["task", "next", "--json"]).code(9).json();
    let tree = awaited_tree(&repo).as_str().unwrap()[..10].to_owned();
    assert_eq!(next["command"], format!("mahabharatha merge --approve={tree} --level 1 -f x"));
    // A person approves in another terminal, the session merges.
    repo.run(&["merge", "--approve"]).code(0).says("level 1 is approved").says("session one merges it");
    assert!(!repo.tree("main").contains_key("a.txt"));
    session.run(&["merge"]).code(0);
    assert!(repo.tree("main").contains_key("a.txt"));
}
