//! `scale`: more and fewer workers, while a run is on and when none is.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::agents::{doing, held, wait};
use crate::support::{Repo, simple};

fn held_tasks(ids: &[&str]) -> Vec<Value> {
    ids.iter().map(|id| held(id, 1, &id.to_lowercase())).collect()
}

#[test]
fn more_workers_start_at_once_each_with_ports_of_its_own() {
    let repo = Repo::new();
    repo.config("workers: { count: 1 }\n");
    let with_port = |id: &str| {
        let script = format!("echo $MAHABHARATHA_PORT > \"$S/{id}.port\"; {}; echo x > {id}", wait(id));
        doing(id, 1, id, &script)
    };
    repo.graph("x", &["A-1", "A-2", "A-3"].map(with_port));
    let run = repo.run_until_up(&["A-1"]);
    assert_eq!(repo.calls(), ["A-1"]);
    let answer = repo.run(&["scale", "3", "--json"]).code(0).json();
    assert_eq!(answer, json!({ "feature": "x", "workers": 3, "retiring": [], "running": true }));
    repo.wait_until_up(&["A-2", "A-3"]);
    let port = |id: &str| repo.read(&format!(".gsd/specs/x/{id}.port")).trim().parse::<u16>().unwrap();
    let ports: BTreeSet<u16> = ["A-1", "A-2", "A-3"].map(port).into();
    assert_eq!(ports.len(), 3);
    repo.let_go("all");
    run.wait().code(0).says("3 workers from now on");
}

#[test]
fn workers_above_a_lower_number_finish_their_tasks_and_get_no_other() {
    let repo = Repo::new();
    repo.config("workers: { count: 3 }\n");
    repo.graph("x", &held_tasks(&["A-1", "A-2", "A-3", "A-4"]));
    let run = repo.run_until_up(&["A-1", "A-2", "A-3"]);
    assert_eq!(repo.run(&["scale", "1", "--json"]).code(0).json()["retiring"], json!([1, 2]));
    assert_eq!(repo.status()["workers"][2]["retiring"], true);
    assert!(repo.run(&["status"]).code(0).stdout.contains("retiring"));
    for task in ["A-1", "A-2"] {
        repo.let_go(task);
        repo.wait_until("it is done", || repo.task_status(task) == "completed");
        // The event that completed the task is the one that would have launched the next.
        assert_eq!(repo.task_status("A-4"), "pending");
    }
    repo.let_go("A-3");
    repo.wait_until_up(&["A-4"]);
    assert_eq!(repo.task("A-4")["worker"], 0);
    repo.let_go("all");
    run.wait().code(0).says("1 worker from now on; workers 1, 2 finish their tasks first");
}

#[test]
fn the_number_holds_for_the_next_runs_until_one_says_otherwise() {
    let repo = Repo::new();
    repo.config("workers: { count: 1 }\n");
    repo.graph("x", &held_tasks(&["A-1", "A-2", "A-3"]));
    let run = repo.run_until_up(&["A-1"]);
    repo.run(&["stop", "--force"]).code(0);
    run.wait().code(130);
    repo.run(&["scale", "2"]).code(0).says("mahabharatha run x");
    repo.forget_up("A-1");
    let run = repo.run_until_up(&["A-1", "A-2"]);
    assert_eq!(repo.status()["workers"].as_array().unwrap().len(), 2);
    repo.run(&["stop", "--force"]).code(0);
    run.wait().code(130);
    let run = repo.spawn(&["run", "-w", "3"]);
    repo.wait_until_up(&["A-3"]);
    repo.run(&["stop", "--force"]).code(0);
    run.wait().code(130);
    repo.forget_up("A-1");
    let run = repo.run_until_up(&["A-1"]);
    assert_eq!(repo.status()["workers"].as_array().unwrap().len(), 1, "the configured number again");
    repo.let_go("all");
    run.wait().code(0);
    repo.run(&["scale", "2"]).code(6).says("x is completed");
}

#[test]
fn a_stopped_worker_comes_back() {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\n");
    repo.graph("x", &held_tasks(&["A-1", "A-2"]));
    let run = repo.run_until_up(&["A-1", "A-2"]);
    repo.run(&["stop", "--worker", "1"]).code(0);
    repo.wait_until("it is stopped", || repo.status()["workers"][1]["status"] == "stopped");
    repo.forget_up("A-2");
    repo.run(&["scale", "2"]).code(0);
    repo.wait_until_up(&["A-2"]);
    assert_eq!(repo.task("A-2")["worker"], 1);
    repo.let_go("all");
    run.wait().code(0);
}

#[test]
fn a_bad_number_or_no_run_is_refused() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A-1", 1, "a1")]);
    for number in ["0", "501", "-1", "many"] {
        repo.run(&["scale", "--", number]).code(2);
    }
    repo.run(&["scale", "2"]).code(6).says("there has been no run of x");
    // Below the ports that the system gives to connections.
    repo.config("ports: { range_start: 20000, range_end: 20003 }\nworkers: { count: 1 }\n");
    repo.graph("x", &held_tasks(&["A-1"]));
    let run = repo.run_until_up(&["A-1"]);
    repo.run(&["scale", "9"]).code(7).says("too few free ports");
    assert_eq!(repo.status()["workers"].as_array().unwrap().len(), 1);
    repo.let_go("all");
    run.wait().code(0);
}
