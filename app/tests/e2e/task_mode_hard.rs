//! Sessions that do tasks, where something comes in between: kills, stops, other sessions, changed graphs.

use std::fs;

use serde_json::json;

use crate::agents::held;
use crate::support::{Background, Repo, simple, with};
use crate::task_mode::{Session, falls_silent, foreground, plain};

/// A verification that says that it has begun, and ends when it may.
fn slowly_verified() -> serde_json::Value {
    let slow = "touch \"$MAHABHARATHA_SPEC_DIR/verifying\"; while ! test -e \"$MAHABHARATHA_SPEC_DIR/go\"; do sleep 0.02; done";
    json!({ "verification": { "command": slow } })
}

fn lease(session: &str) -> String {
    format!(".git/mahabharatha/x/sessions/{session}.json")
}

#[test]
fn who_claims_a_task_of_a_run_that_was_killed_does_not_drive_it() {
    let repo = Repo::new();
    repo.graph("x", &[foreground("A", 1, "a.txt"), held("B", 1, "b.txt"), simple("C", 2, "c.txt")]);
    let run = repo.run_until_up(&["B"]);
    run.signal("KILL");
    run.wait();
    // It would wait for B otherwise, and then go on with C.
    let one = Session(&repo, "one");
    one.does("A", "a.txt", "by hand\n").code(0);
    repo.let_go("B");
    assert_eq!(repo.task_status("C"), "pending");
    repo.run(&["run"]).code(0);
    assert_eq!((repo.read("a.txt").as_str(), repo.exists("c.txt")), ("by hand\n", true));
    assert_eq!(repo.task("A")["attempt"], 1);
}

#[test]
fn stopping_a_run_leaves_the_user_the_claimed_task() {
    let repo = Repo::new();
    repo.graph("x", &[with(foreground("A", 1, "a.txt"), slowly_verified()), held("B", 1, "b.txt")]);
    let run = repo.run_until_up(&["B"]);
    let one = Session(&repo, "one");
    let worktree = one.claim("A");
    one.write(&worktree, "a.txt", "by hand\n");
    // Also while it is being completed.
    let completing = Background::start(one.command(&["task", "complete", "A"]));
    repo.wait_for(".gsd/specs/x/verifying");
    repo.run(&["stop"]).code(0);
    run.wait().code(130);
    repo.write(".gsd/specs/x/go", "");
    completing.wait().code(0).says("A is completed");
    repo.let_go("B");
    repo.run(&["run"]).code(0);
    assert_eq!((repo.read("a.txt").as_str(), &repo.task("A")["attempt"]), ("by hand\n", &json!(1)));
}

#[test]
fn stop_ends_a_session_while_it_merges() {
    let repo = Repo::new();
    let gate = "test ! -e a.txt || { touch \"$PWD/../../../../gating\"; sleep 60; }";
    repo.config(&format!("quality_gates: [{{ name: slow, command: '{gate}', timeout: 90 }}]\n"));
    repo.graph("x", &[plain("A", 1, "a.txt")]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    one.does("A", "a.txt", "a\n").code(0);
    let merging = Background::start(one.command(&["merge"]));
    repo.wait_for("gating");
    repo.run(&["stop", "--grace", "0"]).code(0).says("x is stopped");
    merging.wait().code(130);
    assert!(!repo.exists(&lease("one")), "the session goes on");
    one.run(&["task", "start"]).code(0).says("every task is done: merge");
}

/// Until a process waits for a lock, as the kernel lists it.
fn waits_for_a_lock(repo: &Repo, process: &Background) {
    let pid = process.pid().to_string();
    let is_blocked = |line: &str| line.contains("->") && line.split_whitespace().any(|word| word == pid);
    repo.wait_until("the second call waits", || fs::read_to_string("/proc/locks").unwrap().lines().any(is_blocked));
}

#[test]
fn a_repeated_call_waits_for_the_first_one() {
    let repo = Repo::new();
    let dir = "\"$PWD/../../../..\"";
    let gate = format!("touch {dir}/gating; while ! test -e {dir}/go; do sleep 0.02; done");
    repo.config(&format!("quality_gates: [{{ name: slow, command: '{gate}', timeout: 90 }}]\n"));
    repo.graph("x", &[plain("A", 1, "a.txt"), plain("B", 2, "b.txt")]);
    let one = Session(&repo, "one");
    let twice = |args: &[&str]| {
        let first = Background::start(one.command(args));
        repo.wait_for("gating");
        let second = Background::start(one.command(args));
        waits_for_a_lock(&repo, &second);
        Session(&repo, "two").run(args).code(8);
        repo.write("go", "");
        let ended = [first.wait().code(0), second.wait().code(0)];
        ["gating", "go"].iter().for_each(|name| fs::remove_file(repo.join(name)).unwrap());
        ended
    };
    let [_, second] = twice(&["task", "start"]);
    second.says("claim A");
    let done = one.does("A", "a.txt", "a\n").code(0).json();
    assert_eq!(one.run(&["task", "complete", "A", "--json"]).code(0).json(), done);
    one.run(&["task", "complete", "B"]).code(6).says("not held by this session");
    let [_, second] = twice(&["merge", "--level", "1"]);
    second.says("x: level 1 is merged");
    assert_eq!(repo.subjects("main").iter().filter(|subject| *subject == "Level 1: x").count(), 1);

    // One that was stopped meanwhile does not go on.
    one.does("B", "b.txt", "b\n").code(0);
    let first = Background::start(one.command(&["merge"]));
    repo.wait_for("gating");
    let second = Background::start(one.command(&["merge"]));
    waits_for_a_lock(&repo, &second);
    repo.run(&["stop", "--grace", "0"]).code(0);
    first.wait().code(130);
    second.wait().code(130).says("x was stopped meanwhile");
    assert!(!repo.exists(&lease("one")));
    assert_eq!(repo.status()["status"], "paused");
}

#[test]
fn what_was_completed_while_stop_waited_is_completed() {
    let repo = Repo::new();
    repo.graph("x", &[with(plain("A", 1, "a.txt"), slowly_verified()), plain("B", 1, "b.txt")]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    let worktree = one.claim("A");
    one.write(&worktree, "a.txt", "a\n");
    let completing = Background::start(one.command(&["task", "complete", "A"]));
    repo.wait_for(".gsd/specs/x/verifying");
    let stopping = repo.spawn(&["stop"]);
    repo.wait_until("stop has ended the session", || !repo.exists(&lease("one")));
    repo.write(".gsd/specs/x/go", "");
    completing.wait().code(0).says("A is completed");
    stopping.wait().code(0);
    assert_eq!(repo.task_status("A"), "completed");
}

#[test]
fn what_was_done_for_a_task_that_changed_meanwhile_is_not_called_completed() {
    let repo = Repo::new();
    repo.graph("x", &[plain("A", 1, "a.txt"), plain("B", 1, "b.txt"), plain("C", 1, "c.txt")]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    for (task, file) in [("A", "a.txt"), ("B", "b.txt")] {
        let worktree = one.claim(task);
        one.write(&worktree, file, "old\n");
    }
    repo.graph("x", &[with(plain("A", 1, "a.txt"), json!({ "title": "Another" })), plain("C", 1, "c.txt")]);
    one.run(&["task", "start"]).code(0).says("graph changed");
    let end = one.run(&["task", "complete", "A", "--json"]).code(1).json();
    assert_eq!(end["result"], "failed");
    assert!(end["feedback"].as_str().unwrap().contains("changed in the graph"), "{end}");
    one.run(&["task", "complete", "B"]).code(1).says("removed from the graph").does_not_say("is completed");
    assert_eq!(repo.task_status("A"), "pending");
    one.does("A", "a.txt", "new\n").code(0);
    one.does("C", "c.txt", "c\n").code(0);
    one.run(&["merge"]).code(0);
    assert_eq!((repo.read("a.txt").as_str(), repo.exists("b.txt")), ("new\n", false));
}

#[test]
fn a_session_can_complete_its_task_while_another_session_drives() {
    let repo = Repo::new();
    repo.graph("x", &[foreground("A", 1, "a.txt"), plain("B", 1, "b.txt")]);
    let (one, two) = (Session(&repo, "one"), Session(&repo, "two"));
    one.run(&["task", "start"]).code(0);
    falls_silent(&repo, "one");
    let worktree = two.claim("A");
    two.write(&worktree, "a.txt", "a\n");
    one.run(&["task", "start"]).code(0);
    two.run(&["task", "claim", "B"]).code(8);
    two.run(&["task", "complete", "A"]).code(0).says("A is completed");
    one.does("B", "b.txt", "b\n").code(0);
    one.run(&["merge"]).code(0);
}

#[test]
fn a_session_that_fell_silent_does_not_come_back_beside_another() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), held("B", 1, "b.txt")]);
    let (one, two) = (Session(&repo, "one"), Session(&repo, "two"));
    one.run(&["task", "start"]).code(0);
    one.claim("A");
    falls_silent(&repo, "one");
    two.run(&["task", "start"]).code(0);
    one.run(&["task", "next"]).code(0);
    one.run(&["task", "claim", "A"]).code(8).says("another session (two)");
    two.does("A", "a.txt", "a\n").code(0);
    falls_silent(&repo, "two");
    // Nor does it hang while a run is on, nor take the agent that is at work for a failure.
    let run = repo.run_until_up(&["B"]);
    let next = two.run(&["task", "next", "--json"]).code(0).json();
    assert_eq!((&next["step"], &next["in_progress"]), (&json!("wait"), &json!(["B"])));
    repo.let_go("B");
    run.wait().code(0);
}

#[test]
fn who_is_refused_holds_nothing() {
    let repo = Repo::new();
    repo.graph("x", &[plain("A", 1, "a.txt"), plain("B", 2, "b.txt")]);
    let (one, two) = (Session(&repo, "one"), Session(&repo, "two"));
    one.run(&["task", "start"]).code(0);
    two.run(&["task", "claim", "A"]).code(8);
    repo.run(&["stop"]).code(0);
    two.run(&["task", "claim", "B"]).code(1).says("level 1 is not merged yet");
    assert!(!repo.exists(&lease("two")));
    repo.run(&["cleanup"]).code(0);
}

#[test]
fn a_session_that_is_named_merges_by_its_name() {
    let repo = Repo::new();
    repo.graph("x", &[plain("A", 1, "a.txt")]);
    let named = |args: &[&str]| repo.run(&[args, &["--session", "mine"]].concat());
    named(&["task", "start"]).code(0);
    let claims = named(&["task", "claim", "A", "--json"]).code(0).json();
    let worktree = claims["claimed"][0]["worktree"].as_str().unwrap();
    let prompt = named(&["task", "prompt", "A", "--json"]).code(0).json();
    assert!(prompt["prompt"].as_str().unwrap().contains(worktree));
    repo.run(&["skip", "A", "--reason", "no"]).code(1).says("session mine holds it").says("task fail A");
    named(&["task", "fail", "A", "--reason", "once"]).code(0).says("A failed").does_not_say("attempt follows");
    repo.run(&["retry", "A"]).code(1).says("it is queued already");
    named(&["task", "claim", "A"]).code(0);
    fs::write(format!("{worktree}/a.txt"), "a\n").unwrap();
    named(&["task", "complete", "A"]).code(0);
    repo.run(&["retry", "A"]).code(0).says("task next -f x").does_not_say("mahabharatha run");
    named(&["task", "claim", "A"]).code(0);
    fs::write(format!("{worktree}/a.txt"), "a\n").unwrap();
    named(&["task", "complete", "A"]).code(0);
    repo.run(&["merge"]).code(8);
    named(&["merge"]).code(0).says("x is completed");
}

#[test]
fn a_conflict_has_its_own_code_and_a_hint() {
    let repo = Repo::new();
    repo.write("a.txt", "base\n");
    repo.commit("Add a.txt");
    let a = with(plain("A", 1, "a.txt"), json!({ "files": { "create": [], "modify": ["a.txt"], "read": [] } }));
    repo.graph("x", &[a]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    one.does("A", "a.txt", "ours\n").code(0);
    repo.write("a.txt", "theirs\n");
    repo.commit("Another way");
    one.run(&["merge"]).code(5);
    let next = one.run(&["task", "next", "--json"]).code(5).json();
    assert_eq!((&next["step"], &next["command"]), (&json!("failed"), &json!("mahabharatha merge --retry -f x")));
    let staging = repo.join(".mahabharatha/worktrees/x/staging");
    fs::write(staging.join("a.txt"), "both\n").unwrap();
    repo.git_in(&staging, &["add", "a.txt"]);
    repo.git_in(&staging, &["commit", "-qm", "Bring both together"]);
    one.run(&["merge", "--retry"]).code(0);
    assert_eq!(repo.read("a.txt"), "both\n");
}

#[test]
fn the_removed_worktree_of_a_session_is_created_again() {
    let repo = Repo::new();
    repo.graph("x", &[plain("A", 1, "a.txt")]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    let worktree = one.claim("A");
    fs::remove_dir_all(&worktree).unwrap();
    one.run(&["task", "verify", "A"]).code(6).says("is gone").says("mahabharatha task claim A");
    one.run(&["task", "complete", "A"]).code(6).says("is gone");
    assert_eq!(one.claim("A"), worktree);
    one.write(&worktree, "a.txt", "a\n");
    one.run(&["task", "complete", "A"]).code(0);
    one.run(&["merge"]).code(0);
    assert_eq!(repo.read("a.txt"), "a\n");
}
