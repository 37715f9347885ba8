//! `run --schedule dependencies`: tasks start when what they depend on is completed; levels still land in order.

use serde_json::{Value, json};

use crate::agents::{doing, held, wait};
use crate::support::{Background, Repo, with};
use crate::task_mode::{Session, plain};

const BY_DEPENDENCIES: [&str; 3] = ["run", "--schedule", "dependencies"];

fn after(task: Value, dependencies: &[&str]) -> Value {
    with(task, json!({ "dependencies": dependencies }))
}

fn verified_by(task: Value, command: &str) -> Value {
    with(task, json!({ "verification": { "command": command, "timeout_seconds": 30 } }))
}

/// Starts the run and waits until the task that holds up its level is at work and these are completed.
fn run_until_completed(repo: &Repo, holding: &str, tasks: &[&str]) -> Background {
    let run = repo.spawn(&BY_DEPENDENCIES);
    repo.wait_until_up(&[holding]);
    for task in tasks {
        repo.wait_until(&format!("{task} is completed"), || repo.task_status(task) == "completed");
    }
    run
}

fn level_status(repo: &Repo, index: usize) -> String {
    repo.status()["levels"][index]["status"].as_str().unwrap().to_string()
}

/// The merge commits of levels, oldest first.
fn landed(repo: &Repo) -> Vec<String> {
    let subjects = repo.git(&["log", "--first-parent", "--reverse", "--format=%s", "main"]);
    subjects.lines().filter(|subject| subject.starts_with("Level ")).map(str::to_string).collect()
}

fn outcomes(repo: &Repo, task: &str) -> Vec<String> {
    let task = repo.task(task);
    task["attempts"].as_array().unwrap().iter().map(|one| one["outcome"].as_str().unwrap().to_string()).collect()
}

#[test]
fn a_task_starts_when_its_dependencies_are_completed() {
    let repo = Repo::new();
    repo.config("workers: { count: 3 }\n");
    let b = after(doing("B", 2, "b.txt", "cat a.txt > b.txt; echo B >> b.txt"), &["A"]);
    let c = after(doing("C", 3, "c.txt", "cat a.txt b.txt > c.txt"), &["B"]);
    let late = after(doing("L", 2, "l.txt", "cat slow.txt > l.txt"), &["S"]);
    repo.graph("x", &[doing("A", 1, "a.txt", "echo A > a.txt"), held("S", 1, "slow.txt"), b, c, late]);
    let run = run_until_completed(&repo, "S", &["A", "B", "C"]);
    // The slow task still works, and nothing has landed.
    let status = repo.status();
    assert_eq!(status["schedule"], "dependencies");
    assert_eq!([0, 1, 2].map(|level| level_status(&repo, level)), ["running"; 3]);
    assert_eq!((repo.task_status("S").as_str(), repo.task_status("L").as_str()), ("in_progress", "pending"));
    assert_eq!(landed(&repo), [""; 0]);
    repo.let_go("all");
    run.wait().code(0);
    assert_eq!(landed(&repo), ["Level 1: x", "Level 2: x", "Level 3: x"]);
    assert_eq!(repo.read("c.txt"), "A\nA\nB\n");
    assert_eq!(repo.read("l.txt"), "S\n");
    assert_eq!(repo.calls(), ["A", "B", "C", "L", "S"]);
}

#[test]
fn workers_continue_while_the_gate_of_a_lower_level_runs() {
    let repo = Repo::new();
    let gate = format!("test -e a.txt || exit 0; test -e b.txt && exit 0; S=$MAHABHARATHA_SPEC_DIR; {}", wait("gate"));
    repo.config(&format!("quality_gates: {}\n", json!([{ "name": "slow", "command": gate }])));
    repo.commit("config");
    let b = after(doing("B", 2, "b.txt", "cat a.txt > b.txt"), &["A"]);
    repo.graph("x", &[doing("A", 1, "a.txt", "echo A > a.txt"), b]);
    let run = run_until_completed(&repo, "gate", &["B"]);
    assert_eq!(level_status(&repo, 0), "gating");
    repo.let_go("all");
    run.wait().code(0);
    assert_eq!(landed(&repo), ["Level 1: x", "Level 2: x"]);
    assert_eq!(outcomes(&repo, "B"), ["done"]);
}

#[test]
fn an_early_task_that_fails_with_its_level_is_retried_from_the_real_base() {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\n");
    let b = after(doing("B", 2, "b.txt", "cat a.txt s.txt > b.txt 2>/dev/null; cat > \"$S/prompt\"; true"), &["A"]);
    let b = verified_by(b, "! test -e s.txt || grep S b.txt || { echo 'b.txt lacks S'; exit 1; }");
    repo.graph("x", &[doing("A", 1, "a.txt", "echo A > a.txt"), held("S", 1, "s.txt"), b]);
    let run = run_until_completed(&repo, "S", &["A", "B"]);
    repo.let_go("all");
    run.wait().code(0).says("the verification of B fails on the merged tree");
    assert_eq!(outcomes(&repo, "B"), ["failed", "done"]);
    let failed = repo.task("B")["attempts"][0].clone();
    assert_eq!(failed["cause"], "verification");
    assert!(failed["detail"].as_str().unwrap().contains("b.txt lacks S"), "{failed}");
    assert!(repo.read(".gsd/specs/x/prompt").contains("b.txt lacks S"));
    assert_eq!(repo.read("b.txt"), "A\nS\n");
    assert_eq!(landed(&repo), ["Level 1: x", "Level 2: x"]);
}

#[test]
fn only_what_fails_on_a_retried_dependency_is_done_again() {
    let repo = Repo::new();
    repo.config("workers: { count: 3 }\n");
    let a = doing("A", 1, "a.txt", "echo \"A$(grep -c '^A$' \"$S/calls\")\" > a.txt");
    let b = verified_by(after(doing("B", 2, "b.txt", "cat a.txt > b.txt"), &["A"]), "cmp a.txt b.txt");
    let c = after(doing("C", 2, "c.txt", "cat a.txt > c.txt"), &["A"]);
    repo.graph("x", &[a, held("S", 1, "s.txt"), b, c]);
    let run = run_until_completed(&repo, "S", &["A", "B", "C"]);
    repo.run(&["retry", "A"]).code(0);
    repo.wait_until("A is completed again", || outcomes(&repo, "A") == ["done", "done"]);
    repo.let_go("all");
    run.wait().code(0);
    assert_eq!(repo.calls(), ["A", "A", "B", "B", "C", "S"]);
    assert_eq!((repo.read("b.txt"), repo.read("c.txt")), ("A2\n".to_string(), "A1\n".to_string()));
    assert_eq!(outcomes(&repo, "B"), ["failed", "done"]);
}

#[test]
fn an_early_task_does_not_take_back_what_a_user_changed_meanwhile() {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\n");
    repo.write("notes.txt", "first\n");
    repo.commit("notes");
    let b = after(doing("B", 2, "notes.txt", "echo B >> notes.txt"), &["A"]);
    let b = with(b, json!({ "files": { "create": [], "modify": ["notes.txt"], "read": [] } }));
    repo.graph("x", &[doing("A", 1, "a.txt", "echo A > a.txt"), held("S", 1, "s.txt"), b]);
    let run = run_until_completed(&repo, "S", &["A", "B"]);
    repo.write("notes.txt", "first\nthe user's\n");
    repo.git(&["commit", "-qam", "a note"]);
    repo.let_go("all");
    run.wait().code(0).says("have changed on the base branch");
    assert_eq!(repo.read("notes.txt"), "first\nthe user's\nB\n");
    assert_eq!(outcomes(&repo, "B"), ["failed", "done"]);
}

#[test]
fn a_run_can_be_resumed_under_another_schedule() {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\n");
    let b = after(doing("B", 2, "b.txt", "cat a.txt > b.txt"), &["A"]);
    let c = after(doing("C", 3, "c.txt", "cat b.txt > c.txt"), &["B"]);
    let slow = doing("S", 1, "s.txt", &format!("{}; echo S > s.txt", wait("S")));
    repo.graph("x", &[doing("A", 1, "a.txt", "echo A > a.txt"), slow, b, c]);
    let run = run_until_completed(&repo, "S", &["A", "B", "C"]);
    repo.run(&["stop"]).code(0);
    run.wait().code(130);
    repo.let_go("all");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.status()["schedule"], "levels");
    assert_eq!(repo.calls(), ["A", "B", "C", "S", "S"]);
    assert_eq!(landed(&repo), ["Level 1: x", "Level 2: x", "Level 3: x"]);
}

#[test]
fn a_session_is_offered_what_its_schedule_allows() {
    for (schedule, free) in [("levels", json!(["S"])), ("dependencies", json!(["B", "S"]))] {
        let repo = Repo::new();
        repo.config(&format!("run: {{ schedule: {schedule} }}\n"));
        let b = with(after(plain("B", 2, "b.txt"), &["A"]), json!({ "estimate_minutes": 30 }));
        repo.graph("x", &[plain("A", 1, "a.txt"), plain("S", 1, "s.txt"), b]);
        let one = Session(&repo, "one");
        one.run(&["task", "start", "-w", "3"]).code(0);
        one.does("A", "a.txt", "A\n").code(0);
        assert_eq!(one.next()["tasks"], free, "{schedule}");
        if schedule == "levels" {
            one.run(&["task", "claim", "B"]).code(1).says("level 1 is not merged yet");
            continue;
        }
        let worktree = one.claim("B");
        assert_eq!(std::fs::read_to_string(format!("{worktree}/a.txt")).unwrap(), "A\n");
        one.write(&worktree, "b.txt", "B\n");
        one.run(&["task", "complete", "B"]).code(0);
        one.does("S", "s.txt", "S\n").code(0);
        for level in ["1", "2"] {
            assert_eq!(one.next()["step"], "merge");
            one.run(&["merge", "--level", level]).code(0);
        }
        assert_eq!(landed(&repo), ["Level 1: x", "Level 2: x"]);
        assert_eq!(repo.status()["status"], "completed");
    }
}
