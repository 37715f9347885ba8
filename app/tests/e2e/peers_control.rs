//! What the peer that this program replaces gets wrong about controlling a run, one test for each line of that list.

use std::collections::BTreeMap;

use crate::agents::{doing, escape, held, is_alive, kill, wait};
use crate::support::{Repo, processes_in, simple};

#[test]
fn peer_09_a_crashed_workers_task_does_not_stay_in_progress() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    repo.forget_up("A-1");
    kill(repo.worker_pid("A-1"));
    repo.wait_until_up(&["A-1"]);
    assert_eq!(repo.task("A-1")["attempt"], 2);
    repo.let_go("all");
    run.wait().code(0);
}

#[test]
fn peer_10_the_circuit_breaker_opens_and_is_not_reset_by_every_start() {
    let repo = Repo::new();
    repo.config("agent: command\nworkers: { count: 1 }\nretry: { max_attempts: 6, base_seconds: 0, max_seconds: 1 }\n");
    repo.graph("x", &[doing("A-1", 1, "a1", "kill -9 $PPID; sleep 100")]);
    let ran = repo.run(&["run"]).code(3).says("A-1 is blocked");
    // After three deaths in a row, and after each probe that dies.
    assert_eq!(ran.stderr.matches("(breaker open)").count(), 4, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("(breaker half open)").count(), 3, "{}", ran.stderr);
    assert_eq!(repo.calls().len(), 6);
}

#[test]
fn peer_11_ctrl_c_leaves_no_agent_running_and_deletes_nothing() {
    let repo = Repo::new();
    let script = format!("echo half > a1; {}; {}", escape("A-1"), wait("A-1"));
    repo.graph("x", &[doing("A-1", 1, "a1", &script)]);
    let run = repo.run_until_up(&["A-1"]);
    run.signal("INT");
    run.wait().code(130);
    assert!(processes_in(&repo.path()).is_empty() && !is_alive(repo.pid_of("A-1")));
    assert!(repo.exists(".mahabharatha/worktrees/x/worker-0/.git"));
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
}

#[test]
fn peer_12_who_is_said_to_be_stopped_by_force_is_dead() {
    let repo = Repo::new();
    let script = format!("trap '' TERM INT HUP; {}; {}", escape("A-1"), wait("A-1"));
    repo.graph("x", &[doing("A-1", 1, "a1", &script)]);
    let run = repo.run_until_up(&["A-1"]);
    let (worker, escaped) = (repo.worker_pid("A-1"), repo.pid_of("A-1"));
    repo.run(&["stop", "--force"]).code(0).says("x is stopped");
    assert!(!is_alive(run.pid()) && !is_alive(worker) && !is_alive(escaped));
    assert_eq!(processes_in(&repo.path()), []);
    run.wait().code(130);
}

#[test]
fn peer_13_a_resumed_run_does_only_what_is_missing() {
    let repo = Repo::new();
    let tasks = [doing("A-1", 1, "a1", "echo x > a1"), doing("A-2", 1, "a2", "echo x > a2"), held("B-1", 2, "b1")];
    repo.graph("x", &tasks);
    let run = repo.run_until_up(&["B-1"]);
    repo.run(&["stop"]).code(0);
    run.wait().code(130);
    repo.let_go("all");
    repo.run(&["run", "--resume"]).code(0).says("x resumed: 2 of 3 tasks done, level 2");
    assert_eq!(repo.calls(), ["A-1", "A-2", "B-1", "B-1"]);
}

#[test]
fn peer_15_one_decides_so_that_no_task_is_claimed_twice() {
    let repo = Repo::new();
    repo.config("workers: { count: 8 }\n");
    let tasks: Vec<_> = (0..40)
        .map(|number| {
            let (id, file) = (format!("T-{number}"), format!("f{number}"));
            doing(&id, 1, &file, &format!("echo x > {file}"))
        })
        .collect();
    repo.graph("x", &tasks);
    let mut run = repo.spawn(&["run"]);
    repo.wait_for(".gsd/specs/x/calls");
    // Others look, ask and try to take part meanwhile.
    let mut refused = 0;
    while run.is_running() {
        refused += u32::from(repo.run(&["run"]).code == 8);
        repo.run(&["status"]);
        repo.run(&["retry", "--all"]);
    }
    run.wait().code(0);
    assert!(refused > 0);
    let mut calls: BTreeMap<String, u32> = BTreeMap::new();
    for call in repo.calls() {
        *calls.entry(call).or_default() += 1;
    }
    assert_eq!(calls.len(), 40);
    assert!(calls.values().all(|count| *count == 1), "{calls:?}");
}

#[test]
fn peer_05_a_failed_run_says_so_and_exits_accordingly() {
    let repo = Repo::new();
    repo.graph("x", &[doing("A-1", 1, "a1", "exit 1"), simple("B-1", 2, "b1")]);
    repo.run(&["run"]).code(3).says("x is blocked").does_not_say("is completed").does_not_say("completed: ");
    assert!(!repo.exists(".gsd/specs/x/COMPLETION.md"));
}
