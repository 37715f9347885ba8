//! `plan` and `design` killed while they wait for an agent or a check: no process is left running.

use std::fs;

use serde_json::json;

use crate::design::{SPECS, approved};
use crate::support::{Background, Repo, is_alive};

/// Says who it is, starts one more that leaves its session, and never ends.
const HANGS: &str = "setsid sleep 1000 & echo $! > .git/escaped.new; mv .git/escaped.new .git/escaped\n\
    echo $$ > .git/hanging.new; mv .git/hanging.new .git/hanging; wait\n";

fn with_agent(repo: &Repo, script: &str) {
    repo.config("agent: command\nagents: { mine: { kind: command, command: [./agent.sh] } }\n");
    repo.program("agent.sh", script);
    repo.commit("agent");
}

/// A command that waits, and the pids of whom it waits for.
fn waiting(repo: &Repo, args: &[&str]) -> (Background, [u32; 2]) {
    let command = repo.spawn(args);
    repo.wait_for(".git/hanging");
    let pids = ["hanging", "escaped"].map(|name| repo.read(&format!(".git/{name}")).trim().parse().unwrap());
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    (command, pids)
}

/// The watchdog process of the command.
fn watcher(of: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
    let is_watcher =
        |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap().split(|b| *b == 0).any(|arg| arg == b"watchdog");
    children.split_whitespace().map(|pid| pid.parse().unwrap()).find(is_watcher).unwrap()
}

const PLAN: [&str; 6] = ["plan", "shop", "--agent", "mine", "--describe", "x"];

#[test]
fn an_agent_ends_when_the_command_that_asked_it_is_killed() {
    for args in [&PLAN[..], &["design", "shop", "--agent", "mine", "--no-commit"]] {
        let repo = approved();
        with_agent(&repo, HANGS);
        let (command, agent) = waiting(&repo, args);
        let watcher = watcher(command.pid());
        command.signal("KILL");
        command.wait();
        repo.wait_until("nobody is left", || ![agent[0], agent[1], watcher].into_iter().any(is_alive));
    }
}

#[test]
fn a_check_of_stubs_ends_when_the_design_is_killed() {
    let repo = approved();
    let check = format!("cd '{}'; {HANGS}", repo.path().display());
    let task = json!({
        "id": "L0-001", "title": "Make it", "level": 0, "files": { "modify": ["lib.sh"] }, "dependencies": [],
        "verification": { "command": "true" },
    });
    let stub = json!({ "path": "lib.sh", "content": ":\n", "purpose": "p" });
    let design = json!({ "summary": "s", "stubs": [stub], "stub_check": { "command": check } });
    repo.write("answer.json", &json!({ "design": design, "tasks": [task] }).to_string());
    with_agent(&repo, "cat > /dev/null; cat answer.json\n");
    let (command, check) = waiting(&repo, &["design", "shop", "--agent", "mine", "--commit"]);
    command.signal("KILL");
    command.wait();
    repo.wait_until("nobody is left", || !check.into_iter().any(is_alive));
    assert!(!repo.exists(&format!("{SPECS}/task-graph.json")) && !repo.exists("lib.sh"));
}

#[test]
fn when_every_process_is_killed_the_next_command_ends_the_agent() {
    for next in [&["plan", "shop", "--approve"][..], &["run", "shop"], &["cleanup", "-f", "shop"]] {
        let repo = approved();
        with_agent(&repo, HANGS);
        let (command, agent) = waiting(&repo, &PLAN);
        let watcher = watcher(command.pid());
        for pid in [watcher, command.pid()] {
            assert!(std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
        }
        command.wait();
        repo.wait_until("the watcher is gone", || !is_alive(watcher));
        // Commands of other features leave it alone.
        repo.run(&["plan", "other", "--agent", "none", "--describe", "x"]).code(0);
        assert!(agent.iter().all(|pid| is_alive(*pid)));
        repo.run(next);
        assert!(!agent.into_iter().any(is_alive), "{next:?}");
    }
}
