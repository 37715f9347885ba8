//! Workers whose orchestrator was killed: they finish, are taken over, are ended when asked, and are told from others.

use std::fs;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agents::{doing, held, is_alive, wait};
use crate::support::{Repo, processes_in, simple};

/// A program that has nothing to do with the run.
struct Bystander(Child);

impl Bystander {
    fn start() -> Bystander {
        Bystander(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run whose orchestrator is killed as soon as these agents are at work.
fn leave_survivors(repo: &Repo, tasks: &[&str]) {
    let run = repo.run_until_up(tasks);
    run.signal("KILL");
    run.wait();
}

fn job_file(name: &str, file: &str) -> String {
    format!(".git/mahabharatha/x/jobs/{name}/{file}")
}

/// Replaces the worker's pid in its identity file, as if the kernel had given the pid to another process.
fn give_pid_away(repo: &Repo, job: &str, to: &Bystander) -> u32 {
    let mut identity: Value = serde_json::from_str(&repo.read(&job_file(job, "worker.json"))).unwrap();
    let pid = identity["pid"].as_u64().unwrap() as u32;
    identity["pid"] = json!(to.pid());
    repo.write(&job_file(job, "worker.json"), &identity.to_string());
    pid
}

#[test]
fn those_that_finished_and_those_that_still_work_are_both_taken_over() {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\n");
    repo.graph("x", &[held("A-1", 1, "a1"), held("A-2", 1, "a2"), simple("B-1", 2, "b1")]);
    leave_survivors(&repo, &["A-1", "A-2"]);
    repo.let_go("A-1");
    repo.wait_for(&job_file("A-1.1", "result.json"));
    let run = repo.spawn(&["run", "--resume"]);
    repo.wait_until("A-1 is taken", || repo.task_status("A-1") == "completed");
    assert_eq!(repo.task_status("A-2"), "in_progress");
    repo.let_go("A-2");
    run.wait().code(0).does_not_say("A-1 started").does_not_say("A-2 started");
    assert_eq!(repo.calls(), ["A-1", "A-2"]);
    assert_eq!((&repo.task("A-1")["attempt"], &repo.task("A-2")["attempt"]), (&json!(1), &json!(1)));
}

#[test]
fn stop_by_force_ends_survivors_that_do_not_listen_at_once() {
    let repo = Repo::new();
    let deaf = |id: &str, file: &str| doing(id, 1, file, &format!("trap '' TERM; echo half > {file}; {}", wait(id)));
    repo.graph("x", &[deaf("A-1", "a1"), deaf("A-2", "a2")]);
    leave_survivors(&repo, &["A-1", "A-2"]);
    repo.run(&["stop", "--force"]).code(0).says("x is stopped; its work is kept");
    assert_eq!(processes_in(&repo.path()), []);
    repo.run(&["stop", "--force"]).code(0).says("nothing runs for x");
    repo.let_go("all");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
}

#[test]
fn the_time_in_which_nothing_ran_is_not_part_of_an_attempt() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let began = Instant::now();
    leave_survivors(&repo, &["A-1"]);
    repo.run(&["stop", "--force"]).code(0);
    // A worker whose end nothing saw counts as one that lived for two seconds.
    let worked = began.elapsed().max(Duration::from_secs(2));
    sleep(worked + Duration::from_secs(1));
    repo.let_go("all");
    repo.run(&["run"]).code(0);
    let attempt = &repo.task("A-1")["attempts"][0];
    let took = attempt["elapsed_seconds"].as_f64().unwrap();
    assert!(took <= worked.as_secs_f64() + 0.1, "{attempt} after {worked:?}");
    let at = |key: &str| attempt[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let lasted = at("ended_at").duration_since(at("started_at")).as_secs_f64();
    assert!(lasted <= worked.as_secs_f64() + 1.0, "{attempt} after {worked:?}");
}

#[test]
fn a_reused_pid_is_not_a_worker() {
    let bystander = Bystander::start();
    for args in [&["stop", "--force"][..], &["stop", "--grace", "1"]] {
        let repo = Repo::new();
        repo.graph("x", &[held("A-1", 1, "a1")]);
        leave_survivors(&repo, &["A-1"]);
        let worker = give_pid_away(&repo, "A-1.1", &bystander);
        repo.run(args).code(0).says("x is stopped");
        assert!(!is_alive(worker) && is_alive(bystander.pid()));
        repo.let_go("all");
        repo.run(&["run"]).code(0);
    }
}

#[test]
fn a_worker_whose_pid_is_not_known_is_adopted_and_can_be_stopped() {
    let bystander = Bystander::start();
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    leave_survivors(&repo, &["A-1"]);
    let worker = give_pid_away(&repo, "A-1.1", &bystander);
    let run = repo.spawn(&["run"]);
    repo.wait_until("the run is driven again", || repo.status()["status"] == "running");
    assert!(is_alive(worker));
    repo.run(&["stop"]).code(0);
    assert!(!is_alive(worker) && is_alive(bystander.pid()));
    run.wait().code(130);
    assert_eq!(repo.calls(), ["A-1"]);
}

#[test]
fn an_unheld_lock_is_free_even_if_its_pid_was_reused() {
    let bystander = Bystander::start();
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    leave_survivors(&repo, &["A-1"]);
    for file in [".git/mahabharatha/x/lock", ".gsd/specs/x/.lock"] {
        let text = repo.read(file);
        let (_, since) = text.split_once(':').unwrap();
        repo.write(file, &format!("{}:{since}", bystander.pid()));
    }
    repo.run(&["status"]).code(0).says("the process that drove it is gone");
    repo.let_go("all");
    repo.run(&["run", "--resume"]).code(0);
    assert_eq!(repo.calls(), ["A-1"]);
    assert!(!repo.exists(".gsd/specs/x/.lock"));
}

#[test]
fn a_survivor_ends_when_the_time_of_its_attempt_is_over() {
    let repo = Repo::new();
    repo.config("workers: { timeout_minutes: 0.05 }\n");
    repo.graph("x", &[held("A-1", 1, "a1")]);
    leave_survivors(&repo, &["A-1"]);
    repo.wait_for(&job_file("A-1.1", "result.json"));
    let result: Value = serde_json::from_str(&repo.read(&job_file("A-1.1", "result.json"))).unwrap();
    assert_eq!(result["end"]["cause"], "timeout", "{result}");
    repo.wait_until("nothing runs", || processes_in(&repo.path()).is_empty());
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
    repo.let_go("all");
    // On a busy machine, the short time might end the second attempt too.
    repo.config("");
    repo.run(&["run", "--resume"]).code(0).says("attempt 2");
    assert_eq!(repo.calls(), ["A-1", "A-1"]);
    assert!(fs::metadata(repo.join("a1")).is_ok());
}
