//! Stopping: from another terminal and by signals, in good order and at once. When it is said, nothing runs.

use std::process::Command;

use serde_json::json;

use crate::agents::{doing, escape, held, is_alive, wait};
use crate::support::{Background, Ran, Repo, processes_in, simple};

/// Nothing works in the repository any more.
#[track_caller]
fn assert_nothing_runs(repo: &Repo) {
    assert_eq!(processes_in(&repo.path()), []);
}

#[test]
fn stop_lets_agents_end_keeps_their_work_and_the_run_can_be_resumed() {
    let repo = Repo::new();
    let saving = doing("A-1", 1, "a1", &format!("trap 'echo saved > a1; exit 0' TERM; {}; echo A-1 > a1", wait("A-1")));
    repo.graph("x", &[saving, simple("A-2", 1, "a2"), simple("B-1", 2, "b1")]);
    let run = repo.run_until_up(&["A-1"]);
    repo.wait_until("A-2 is done", || repo.task_status("A-2") == "completed");
    repo.run(&["stop"]).code(0).says("x is stopped; its work is kept").says("mahabharatha run x");
    assert_nothing_runs(&repo);
    run.wait().code(130).says("A-1 was cancelled (attempt 1), its work is kept").does_not_say("completed: ");
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "saved");
    assert_eq!(repo.status()["status"], "paused");
    for shown in [&["status"][..], &["list"], &["debug"]] {
        repo.run(shown).code(0).says("stopped").does_not_say("paused");
    }
    assert_eq!(repo.status()["stopped"], true);
    repo.run(&["status"]).code(0).says("\nNext: mahabharatha run x");
    repo.run(&["status", "--line"]).code(0).says("stopped").does_not_say("paused");
    assert_eq!(repo.run(&["status", "--line", "--json"]).json()["status"], "paused");
    let state = repo.read(".gsd/STATE.md");
    assert!(state.contains("stopped") && !state.contains("paused"), "{state}");
    assert_eq!(repo.task_status("A-1"), "pending");
    assert_eq!(repo.subjects("main"), ["first"]);

    repo.let_go("all");
    repo.run(&["run"]).code(0).says("x resumed: 1 of 3 tasks done, level 1").says("x is completed");
    assert_eq!(repo.tree("main")["a1"], "A-1");
    assert_eq!(repo.calls(), ["A-1", "A-1"]);
    assert_eq!(repo.task("A-2")["attempt"], 1);
}

#[test]
fn an_agent_that_does_not_listen_is_killed_when_its_time_is_over_and_its_work_is_kept() {
    let repo = Repo::new();
    let deaf = doing("A-1", 1, "a1", &format!("trap '' TERM; echo half > a1; {}; sleep 1000", wait("A-1")));
    repo.graph("x", &[deaf]);
    let run = repo.run_until_up(&["A-1"]);
    repo.run(&["stop", "--grace", "1"]).code(0);
    assert_nothing_runs(&repo);
    run.wait().code(130).says("workers get 1s to end");
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
}

#[test]
fn a_run_whose_agents_are_ending_is_shown_as_stopping() {
    let repo = Repo::new();
    let deaf = doing("A-1", 1, "a1", &format!("trap '' TERM; echo half > a1; {}; sleep 1000", wait("A-1")));
    repo.graph("x", &[deaf]);
    let run = repo.run_until_up(&["A-1"]);
    let stop = repo.spawn(&["stop", "--grace", "600"]);
    repo.wait_until("it stops", || repo.run(&["status"]).stdout.contains("x: stopping"));
    repo.run(&["list"]).code(0).says("stopping").does_not_say("running");
    assert_eq!(repo.status()["status"], "running", "the word for programs");
    repo.run(&["stop", "--force"]).code(0);
    stop.wait().code(0);
    run.wait().code(130);
    repo.run(&["status"]).code(0).says("x: stopped");
}

#[test]
fn stop_by_force_kills_at_once_loses_nothing_and_uses_up_no_retry() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    let deaf = doing("A-1", 1, "a1", &format!("trap '' TERM; echo half > a1; {}; echo A-1 > a1", wait("A-1")));
    repo.graph("x", &[deaf]);
    for _ in 0..2 {
        let run = repo.run_until_up(&["A-1"]);
        repo.run(&["stop", "--force"]).code(0).says("x is stopped");
        assert_nothing_runs(&repo);
        run.wait().code(130).says("A-1 was cancelled");
        assert_eq!(repo.task_status("A-1"), "pending");
        repo.forget_up("A-1");
    }
    repo.let_go("all");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/2:a1"), "half");
    assert_eq!(repo.tree("main")["a1"], "A-1");
}

#[test]
fn stop_by_force_ends_a_run_whose_processes_are_suspended() {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\n");
    repo.graph("x", &[held("A-1", 1, "a1"), held("A-2", 1, "a2")]);
    let run = repo.run_until_up(&["A-1", "A-2"]);
    let worker = repo.worker_pid("A-1");
    run.signal("STOP");
    Command::new("kill").args(["-STOP", &worker.to_string()]).status().unwrap();
    let suspended = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ");
    repo.wait_until("both are suspended", || suspended(run.pid()) && suspended(worker));
    for args in [&["stop"][..], &["stop", "--worker", "0", "--force"]] {
        repo.run(args).code(8).says("is suspended").says("kill -CONT").says("mahabharatha stop x --force");
    }
    repo.run(&["stop", "--force"]).code(0).says("x is stopped; its work is kept");
    assert_nothing_runs(&repo);
    run.wait().code(-1);
    repo.run(&["stop", "--force"]).code(0).says("nothing runs for x");
    repo.let_go("all");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
    assert_eq!(repo.tree("main")["a1"], "A-1");
}

#[test]
fn the_task_of_a_stopped_worker_is_requeued_and_the_run_continues() {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\n");
    repo.graph("x", &[held("A-1", 1, "a1"), held("A-2", 1, "a2")]);
    let mut run = repo.run_until_up(&["A-1", "A-2"]);
    let (pid, worker) = (repo.worker_pid("A-1"), repo.task("A-1")["worker"].as_u64().unwrap());
    repo.run(&["stop", "--worker", "7"]).code(2).says("there is no worker 7").says("0 to 1");
    let stopped = repo.run(&["stop", "--worker", &worker.to_string()]).code(0);
    assert!(!is_alive(pid));
    stopped
        .says(&format!("stopping worker {worker}: its agent is ended and its work is saved"))
        .says(&format!("worker {worker} is stopped"));
    assert!(run.is_running());
    repo.let_go("all");
    run.wait().code(0);
    let task = repo.task("A-1");
    assert_eq!((&task["attempt"], &task["worker"]), (&json!(2), &json!(1 - worker)));
    assert_eq!(repo.calls(), ["A-1", "A-1", "A-2"]);
}

#[test]
fn a_run_whose_last_worker_is_stopped_is_stopped() {
    let repo = Repo::new();
    repo.config("workers: { count: 1 }\n");
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    repo.run(&["stop", "--worker", "0"]).code(0);
    run.wait().code(130);
    repo.let_go("all");
    repo.run(&["run"]).code(0);
}

#[test]
fn stop_where_nothing_runs_says_so() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A-1", 1, "a1")]);
    repo.run(&["stop"]).code(6).says("there has been no run of x");
    repo.run(&["run"]).code(0);
    repo.run(&["stop"]).code(0).says("nothing runs for x");
    let answer = repo.run(&["stop", "--json"]).code(0).json();
    assert_eq!((&answer["feature"], &answer["stopped"]), (&json!("x"), &json!(false)));
}

#[test]
fn stop_ends_workers_that_outlived_their_orchestrator() {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\n");
    let escaping = doing("A-2", 1, "a2", &format!("{}; {}; echo A-2 > a2", escape("A-2"), wait("A-2")));
    repo.graph("x", &[held("A-1", 1, "a1"), escaping]);
    let run = repo.run_until_up(&["A-1", "A-2"]);
    let first = repo.worker_pid("A-1");
    run.signal("KILL");
    run.wait();
    assert!(is_alive(first));
    let status = repo.run(&["status"]).code(0).says("paused");
    // Whose worktree is ready first gets the first worker.
    let both = ["A-1, A-2", "A-2, A-1"].map(|tasks| format!("its workers go on with {tasks}"));
    assert!(both.iter().any(|go_on| status.stdout.contains(go_on)), "{}", status.stdout);
    assert!(!status.stdout.contains("crashed"), "{}", status.stdout);

    let worker = repo.task("A-1")["worker"].as_u64().unwrap().to_string();
    repo.run(&["stop", "--worker", &worker]).code(0);
    // Its lock is free a moment before the system is done with it.
    repo.wait_until("the first worker is gone", || !is_alive(first));
    assert!(is_alive(repo.pid_of("A-2")));
    repo.run(&["stop"]).code(0).says("x is stopped");
    assert_nothing_runs(&repo);
    assert!(!is_alive(repo.pid_of("A-2")));
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");

    repo.let_go("all");
    repo.run(&["run"]).code(0).does_not_say("died");
    assert_eq!(repo.calls(), ["A-1", "A-1", "A-2", "A-2"]);
}

#[test]
fn stop_in_one_repository_leaves_the_agents_of_another_alone() {
    let (one, other) = (Repo::new(), Repo::new());
    let mut runs: Vec<Background> = Vec::new();
    for repo in [&one, &other] {
        repo.graph("x", &[held("A-1", 1, "a1")]);
        runs.push(repo.run_until_up(&["A-1"]));
    }
    one.run(&["stop"]).code(0);
    other.let_go("all");
    runs.pop().unwrap().wait().code(0);
    runs.pop().unwrap().wait().code(130);
    assert_eq!(other.calls(), ["A-1"]);
}

fn signalled(signals: &[&str]) -> (Repo, Ran) {
    let repo = Repo::new();
    let trap = if signals.len() > 1 { "" } else { "exit 0" };
    let script = format!("trap '{trap}' TERM; echo half > a1; {}; {}; echo A-1 > a1", escape("A-1"), wait("A-1"));
    repo.graph("x", &[doing("A-1", 1, "a1", &script)]);
    let run = repo.run_until_up(&["A-1"]);
    for (count, signal) in signals.iter().enumerate() {
        run.signal(signal);
        // Signals of one kind merge while one is pending.
        let asked = || repo.read(".git/mahabharatha/x/events.jsonl").matches("\"asked\"").count();
        repo.wait_until("the signal is heard", || asked() > count);
    }
    let ran = run.wait();
    assert_nothing_runs(&repo);
    assert!(!is_alive(repo.pid_of("A-1")), "the agent's escaped grandchild is alive");
    (repo, ran)
}

#[test]
fn each_signal_stops_in_good_order_with_all_that_agents_left_running() {
    for signal in ["INT", "TERM", "HUP"] {
        let (repo, ran) = signalled(&[signal]);
        ran.code(130).says("asked to stop: no new launches").says("its work is kept").says("mahabharatha run x");
        assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
    }
}

#[test]
fn the_second_signal_stops_at_once() {
    // The agent does not listen, and would have ten seconds.
    let (repo, ran) = signalled(&["INT", "INT"]);
    ran.code(130).says("forced stop");
    repo.let_go("all");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
}

#[test]
fn the_tests_of_signals_pass_where_hangups_are_ignored() {
    let ignored = "trap '' HUP; exec \"$0\" \"$@\"";
    let test = "stop::each_signal_stops_in_good_order_with_all_that_agents_left_running";
    let mut command = Command::new("sh");
    command.args(["-c", ignored]).arg(std::env::current_exe().unwrap()).args(["--exact", test]);
    Ran::of(command.output().unwrap()).code(0).says("1 passed");
}

#[test]
fn a_run_that_was_told_to_outlive_its_terminal_does() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" run", env!("CARGO_BIN_EXE_mahabharatha")]).current_dir(repo.path());
    command.env("HOME", repo.home()).env_remove("CLAUDE_CONFIG_DIR");
    let run = Background::start(command);
    repo.wait_until_up(&["A-1"]);
    run.signal("HUP");
    repo.let_go("all");
    run.wait().code(0).does_not_say("asked to stop");
}

/// A gate that waits, on the base or on the first level's tree only.
fn slow_gate(repo: &Repo, only: &str) {
    let signs = repo.join(".gsd/specs/x").display().to_string();
    let wait = format!(": > '{signs}/gate.up'; while ! [ -e '{signs}/go' ]; do sleep 0.02; done");
    repo.config(&format!("quality_gates: [ {{ name: slow, timeout: 60, command: \"{only} || exit 0; {wait}\" }} ]\n"));
    repo.commit("gate");
    repo.graph("x", &[doing("A-1", 1, "a1", "echo A-1 > a1")]);
}

#[test]
fn a_run_is_stopped_while_its_gates_run() {
    for only in ["! test -e a1", "test -e a1"] {
        let repo = Repo::new();
        slow_gate(&repo, only);
        let run = repo.run_until_up(&["gate"]);
        repo.run(&["stop"]).code(0);
        assert_nothing_runs(&repo);
        run.wait().code(130);
        assert_eq!(repo.subjects("main"), ["gate", "first"]);
        repo.let_go("all");
        repo.run(&["run"]).code(0);
        assert_eq!(repo.calls(), ["A-1"]);
        assert_eq!(repo.tree("main")["a1"], "A-1");
    }
}

#[test]
fn a_run_that_completes_while_it_is_stopped_is_completed() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    repo.let_go("all");
    let stop = repo.run(&["stop"]).code(0);
    let ran = run.wait();
    match repo.status()["status"].as_str().unwrap() {
        "completed" => {
            ran.code(0);
            stop.does_not_say("Go on with");
        }
        _ => {
            ran.code(130);
            stop.says("Go on with");
        }
    }
}
