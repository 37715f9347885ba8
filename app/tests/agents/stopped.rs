//! Agents that are stopped while they wait for the service or for their own commands: nothing runs on.

use std::fs;

use serde_json::json;

use crate::bench::{Agent, Bench, task, works};
use crate::model_api::Turn;
use crate::support::{processes_in, with};

/// Returns the command lines of all processes that contain these words.
fn processes_with(words: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let commands = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let commands = commands.map(|command| String::from_utf8_lossy(&command).replace('\0', " "));
    commands.filter(|command| command.contains(words)).collect()
}

pub fn leaves_nothing(agent: &'static Agent) {
    // No other test sleeps for as long.
    let sleep = format!("sleep 1000.{}", std::process::id());
    let sleeps = format!("(setsid {sleep}1 &); {sleep}2");
    let Some(bench) = Bench::new(agent, move |ask, _| match (ask.task().as_str(), ask.turn) {
        ("WAITS", _) => Turn::Hangs,
        (_, 0) => works(ask),
        _ => Turn::runs(&sleeps),
    }) else {
        return;
    };
    // An agent may run what its task's verification runs.
    let verification = json!({ "verification": { "command": "sleep 0.01" } });
    let tasks = [task("WAITS"), with(task("SLEEPS"), verification)];
    // Without tools it runs no commands.
    bench.repo.graph("x", if agent.has_tools { &tasks } else { &tasks[..1] });
    let run = bench.spawn(&["run"]);
    let sleeping = |number: u32| !processes_with(&format!("{sleep}{number}")).is_empty();
    bench.repo.wait_until("one agent waits for the service, the other for its command", || {
        !bench.api.asked_about("WAITS").is_empty() && (!agent.has_tools || sleeping(1) && sleeping(2))
    });
    bench.run(&["stop"]).code(0);
    let ended = run.wait().code(130).says("WAITS was cancelled");
    assert_eq!(processes_in(&bench.repo.path()), []);
    assert_eq!(processes_with(&sleep), [""; 0]);
    if agent.has_tools {
        ended.says("SLEEPS was cancelled (attempt 1), its work is kept");
        assert_eq!(bench.repo.git(&["show", "refs/mahabharatha/x/wip/SLEEPS/1:SLEEPS.txt"]), "SLEEPS");
    }
}
