//! Agents that say when they begin, wait until they may go on, and are counted.

use std::process::Command;

use serde_json::Value;

use crate::support::{Background, Repo, task};

/// Where agents and tests leave each other signs.
fn sign(name: &str) -> String {
    format!(".gsd/specs/x/{name}")
}

/// Counts the call, begins the file, says so, waits for `go` or `<id>.go`, then writes its id into the file.
pub fn held(id: &str, level: u32, file: &str) -> Value {
    doing(id, level, file, &format!("echo half > {file}; {}; echo {id} > {file}", wait(id)))
}

/// Counts the call and runs the script. `$S` is where the signs are.
pub fn doing(id: &str, level: u32, file: &str, script: &str) -> Value {
    task(id, level, file, &format!("S=$MAHABHARATHA_SPEC_DIR; echo {id} >> \"$S/calls\"; {script}"))
}

/// Says that it is there, and waits until it may go on.
pub fn wait(id: &str) -> String {
    format!(": > \"$S/{id}.up\"; while ! [ -e \"$S/go\" ] && ! [ -e \"$S/{id}.go\" ]; do sleep 0.02; done")
}

/// Leaves a process in a session of its own, for which no process waits; its id is in `<name>.pid` by then.
pub fn escape(name: &str) -> String {
    format!(
        "(setsid sh -c 'echo $$ > \"$0/{name}.tmp\"; mv \"$0/{name}.tmp\" \"$0/{name}.pid\"; exec sleep 1000' \"$S\" >/dev/null 2>&1 &); \
         while ! [ -e \"$S/{name}.pid\" ]; do sleep 0.02; done"
    )
}

pub use crate::support::is_alive;

pub fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

impl Repo {
    /// Starts a run and waits until these agents are at work.
    pub fn run_until_up(&self, tasks: &[&str]) -> Background {
        let run = self.spawn(&["run"]);
        self.wait_until_up(tasks);
        run
    }

    #[track_caller]
    pub fn wait_until_up(&self, tasks: &[&str]) {
        for task in tasks {
            self.wait_for(&sign(&format!("{task}.up")));
        }
    }

    /// So that the next attempt's sign is a new one.
    pub fn forget_up(&self, task: &str) {
        std::fs::remove_file(self.join(&sign(&format!("{task}.up")))).unwrap();
    }

    pub fn let_go(&self, who: &str) {
        let name = if who == "all" { "go".to_string() } else { format!("{who}.go") };
        self.write(&sign(&name), "");
    }

    /// The agents' calls so far, sorted.
    pub fn calls(&self) -> Vec<String> {
        let mut calls: Vec<String> = self.read(&sign("calls")).lines().map(str::to_string).collect();
        calls.sort();
        calls
    }

    pub fn pid_of(&self, name: &str) -> u32 {
        self.read(&sign(&format!("{name}.pid"))).trim().parse().unwrap()
    }

    /// The process of the worker that is at this task.
    pub fn worker_pid(&self, task: &str) -> u32 {
        let status = self.status();
        let worker = status["workers"].as_array().unwrap().iter().find(|worker| worker["task"] == task).unwrap();
        worker["pid"].as_u64().unwrap() as u32
    }

    pub fn show(&self, what: &str) -> String {
        self.git(&["show", what])
    }
}
