//! Clients, workers and orchestrators that are killed: nothing is lost, nothing runs on.

use std::fs;

use serde_json::json;

use crate::client::{Bench, SECRET, task};
use crate::messages_api::{Api, Ask, Reply, bash};
use crate::support::{Background, is_alive, processes_in, with};

/// The first attempt writes a half and then runs a command that never ends; the next one does it all.
fn stuck_once(ask: &Ask) -> Reply {
    match (ask.attempt().as_str(), ask.turn()) {
        ("1", 0) => ask.write("a.txt", "half\n"),
        ("1", _) => bash("sleep 1000"),
        (_, 0) => ask.write("a.txt", "A-1\n"),
        _ => Reply::says("Done."),
    }
}

fn sleeping(id: &str, file: &str) -> serde_json::Value {
    let command = format!("sleep 0.01 && grep -q {id} {file}");
    with(task(id, 1, file), json!({ "verification": { "command": command } }))
}

impl Bench {
    /// Starts a run and waits until the client's command runs.
    fn run_until_asleep(&self) -> Background {
        let run = self.spawn(&["run"]);
        self.repo.wait_until("the client's command runs", || self.process("sleep 1000").is_some());
        run
    }

    /// The process in the repository whose command line holds the words, the innermost one.
    fn process(&self, words: &str) -> Option<u32> {
        let found = processes_in(&self.repo.path());
        found.into_iter().filter(|(_, command)| command.trim_end().ends_with(words)).map(|(pid, _)| pid).max()
    }

    fn client(&self) -> u32 {
        let found = processes_in(&self.repo.path());
        let is_client = |command: &str| command.contains("/claude ") && command.contains("--session-id");
        found.into_iter().find(|(_, command)| is_client(command)).unwrap().0
    }
}

fn kill(pid: u32) {
    let status = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_killed_client_is_replaced_and_its_commands_are_ended() {
    let Some(bench) = Bench::new(Api::start(stuck_once), "") else { return };
    bench.repo.graph("x", &[sleeping("A-1", "a.txt")]);
    let run = bench.run_until_asleep();
    let (client, command) = (bench.client(), bench.process("sleep 1000").unwrap());
    bench
        .repo
        .wait_until("status tells what it does", || bench.repo.status()["workers"][0]["doing"] == "running sleep 1000");
    bench.repo.run(&["status"]).code(0).says("Doing").says("running sleep 1000 (2040 tokens so far)");
    assert_eq!(bench.repo.status()["workers"][0]["tokens"], 2040);
    let cmdline = fs::read(format!("/proc/{client}/cmdline")).unwrap();
    assert!(!String::from_utf8_lossy(&cmdline).contains(SECRET));
    kill(client);
    run.wait().code(0).says("A-1 failed: its agent ended with an error (attempt 1 of 3)");
    assert!(!is_alive(command));
    assert_eq!(bench.repo.git(&["show", "refs/mahabharatha/x/wip/A-1/1:a.txt"]), "half");
    assert_eq!(bench.repo.tree("main")["a.txt"], "A-1");
    // The tokens of the attempt that could not tell its cost are known all the same.
    assert!(bench.repo.task("A-1")["attempts"][0]["tokens"].as_u64().unwrap() >= 2 * 1020);
}

#[test]
fn a_client_outlives_its_orchestrator_and_its_cost_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let (up, go) = (dir.path().join("up"), dir.path().join("go"));
    let (script_up, script_go) = (up.clone(), go.clone());
    let api = Api::start(move |ask| match ask.turn() {
        0 => ask.write("a.txt", "A-1\n"),
        1 => {
            fs::write(&script_up, "").unwrap();
            while !script_go.exists() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            Reply::says("Done.")
        }
        _ => Reply::says("Too much."),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
    let run = bench.spawn(&["run"]);
    bench.repo.wait_until("the client waits for the service", || up.exists());
    run.signal("KILL");
    run.wait();
    let run = bench.spawn(&["run"]);
    bench.repo.wait_until("the run is driven again", || bench.repo.status()["status"] == "running");
    fs::write(&go, "").unwrap();
    run.wait().code(0).says("A-1 was under way (attempt 1)");
    assert_eq!(bench.api.asked().len(), 2);
    assert_eq!(bench.repo.task("A-1")["tokens"], 2 * 1020);
}

#[test]
fn a_client_that_lost_worker_and_orchestrator_is_ended_before_the_next_begins() {
    let Some(bench) = Bench::new(Api::start(stuck_once), "") else { return };
    bench.repo.graph("x", &[sleeping("A-1", "a.txt")]);
    let run = bench.run_until_asleep();
    let (client, command) = (bench.client(), bench.process("sleep 1000").unwrap());
    let worker = bench.repo.status()["workers"][0]["pid"].as_u64().unwrap() as u32;
    run.signal("KILL");
    kill(worker);
    run.wait();
    bench.run(&["run"]).code(0);
    assert!(!is_alive(client) && !is_alive(command));
    assert_eq!(bench.repo.tree("main")["a.txt"], "A-1");
}

#[test]
fn a_stopped_run_leaves_no_client_and_no_command() {
    let Some(bench) = Bench::new(Api::start(stuck_once), "") else { return };
    bench.repo.graph("x", &[sleeping("A-1", "a.txt")]);
    let run = bench.run_until_asleep();
    bench.run(&["stop"]).code(0);
    run.wait().code(130).says("A-1 was cancelled (attempt 1), its work is kept");
    assert_eq!(processes_in(&bench.repo.path()), []);
    assert_eq!(bench.repo.git(&["show", "refs/mahabharatha/x/wip/A-1/1:a.txt"]), "half");
}

#[test]
fn an_attempt_that_is_cancelled_tells_what_it_cost() {
    let dir = tempfile::tempdir().unwrap();
    let silent = dir.path().join("silent");
    let asked = silent.clone();
    // One of the clients waits for its command, the other for the service.
    let api = Api::start(move |ask| match (ask.task().as_str(), ask.turn()) {
        (_, 0) => bash("git status").reading(100_000),
        ("A-1", _) => bash("sleep 1000"),
        _ => {
            fs::write(&asked, "").unwrap();
            std::thread::sleep(std::time::Duration::from_secs(60));
            Reply::Dropped
        }
    });
    let Some(bench) = Bench::new(api, "workers: { count: 2 }\n") else { return };
    bench.repo.graph("x", &[sleeping("A-1", "a.txt"), task("A-2", 1, "b.txt")]);
    let run = bench.run_until_asleep();
    bench.repo.wait_until("the service is asked", || silent.exists());
    bench.run(&["stop"]).code(0);
    run.wait().code(130);
    for id in ["A-1", "A-2"] {
        let attempts = bench.repo.task(id)["attempts"].clone();
        assert_eq!(attempts[0]["outcome"], "cancelled", "{attempts:#}");
        // 100,000 tokens cost 0.2 or 0.3 USD, as the client's version has it.
        assert!(attempts[0]["cost_usd"].as_f64().unwrap() >= 0.2, "{attempts:#}");
    }
    assert!(bench.repo.status()["cost_usd"].as_f64().unwrap() >= 0.4);
    assert_eq!(bench.api.asked().len(), 4, "nothing is asked once it is cancelled");
}

#[test]
fn tokens_of_an_attempt_that_left_a_commit_and_no_result_are_counted() {
    for loses_order in [false, true] {
        let api = Api::start(|ask| match ask.turn() {
            0 => ask.write("a.txt", &ask.task()),
            _ => Reply::says("Done."),
        });
        let Some(bench) = Bench::new(api, "") else { return };
        bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
        let mut run = bench.command(&["run"]);
        run.env("MAHABHARATHA_CRASH_AT", "worker A-1.1 after the ref").env("MAHABHARATHA_CRASH_WITH", "parent");
        assert!(!run.output().unwrap().status.success(), "it is killed");
        if loses_order {
            fs::remove_file(bench.repo.join(".git/mahabharatha/x/jobs/A-1.1/spec.json")).unwrap();
        }
        bench.run(&["run"]).code(0);
        let task = bench.repo.task("A-1");
        let served: u64 = bench.api.served().iter().map(|(_, usage)| usage.total()).sum();
        assert_eq!((&task["attempt"], &task["tokens"]), (&json!(1), &json!(served)), "{task}");
        assert!(served > 0 && task["cost_usd"].is_null(), "the cost is unknown: {task}");
    }
}
