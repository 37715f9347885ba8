//! `pause` and `resume`: nothing new is started, what is in progress goes on.

use crate::agents::{held, kill};
use crate::support::{Repo, simple};

#[test]
fn a_paused_run_launches_nothing_until_it_is_resumed() {
    let repo = Repo::new();
    repo.config("workers: { count: 1 }\n");
    repo.graph("x", &[held("A-1", 1, "a1"), held("A-2", 1, "a2"), simple("B-1", 2, "b1")]);
    let mut run = repo.run_until_up(&["A-1"]);
    let answer = repo.run(&["pause", "--json"]).code(0).json();
    assert_eq!((&answer["feature"], &answer["paused"]), (&"x".into(), &true.into()));
    let status = repo.status();
    assert_eq!((&status["status"], &status["paused"]), (&"paused".into(), &true.into()));
    assert_eq!(status["blockers"][0], "run: paused by `mahabharatha pause`");
    repo.let_go("A-1");
    repo.wait_until("it goes on to its end", || repo.task_status("A-1") == "completed");
    assert_eq!(repo.task_status("A-2"), "pending");
    assert!(run.is_running());
    repo.run(&["pause"]).code(0).says("paused already");
    repo.run(&["resume"]).code(0).says("x: resumed");
    repo.wait_until_up(&["A-2"]);
    assert_eq!(repo.status()["status"], "running");
    repo.run(&["resume"]).code(0).says("not paused");
    repo.let_go("all");
    run.wait().code(0).says("paused: nothing new is started");
}

#[test]
fn a_paused_run_merges_nothing_and_can_be_stopped() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    repo.run(&["pause"]).code(0);
    repo.let_go("all");
    repo.wait_until("it is done", || repo.task_status("A-1") == "completed");
    assert_eq!(repo.status()["levels"][0]["status"], "running");
    assert_eq!(repo.subjects("main"), ["first"]);
    repo.run(&["stop"]).code(0);
    run.wait().code(130);
    assert_eq!(repo.status()["status"], "paused");
    repo.run(&["run"]).code(0).says("x is completed");
}

#[test]
fn run_continues_a_run_that_died_while_paused() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    repo.run(&["pause"]).code(6).says("there has been no run of x");
    let run = repo.run_until_up(&["A-1"]);
    repo.run(&["pause"]).code(0);
    repo.let_go("all");
    repo.wait_until("it is done", || repo.task_status("A-1") == "completed");
    kill(run.pid());
    run.wait();
    let status = repo.status();
    assert_eq!((&status["status"], &status["paused"]), (&"paused".into(), &serde_json::Value::Null));
    assert_eq!(status["blockers"][0], "run: the process that drove it is gone");
    for command in ["pause", "resume"] {
        repo.run(&[command]).code(6).says("no process drives x").says("mahabharatha run x");
    }
    repo.run(&["run"]).code(0).says("x is completed");
    let refused = |why: &str| {
        for args in [&["pause"][..], &["resume"], &["scale", "2"]] {
            repo.run(args).code(6).says(why).does_not_say("mahabharatha run x");
        }
    };
    refused("x is completed");
    for args in [&["pause"][..], &["resume"], &["scale", "2"]] {
        repo.run(args).code(6).says(&format!("x is completed, so there is no run to {}", args[0]));
    }
    repo.run(&["undo", "--yes"]).code(0);
    refused("x was undone");
}
