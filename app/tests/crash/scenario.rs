//! Two stories. By levels: three levels, and one of everything: an attempt that fails, a checkpoint, a red gate that is fixed,
//! a task that is blocked until a person retries it. By dependencies: tasks that start early, one of which is done again
//! because its verification fails with its level.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{Repo, task, with};

pub const FEATURE: &str = "x";

// Its agents leave marks outside of their worktrees.
const CONFIG: &str = "agent: command
sandbox: off
workers: { count: 2 }
retry: { base_seconds: 0, max_seconds: 0 }
env: { pass: [OUTSIDE] }
merge: { prepare: \"cat a? b? c? 2>/dev/null | cksum > Cargo.lock\" }
quality_gates: [ { name: sound, command: \"! grep -q broken b2 2>/dev/null\" } ]
";

/// What is run, and how that goes where nothing is killed.
pub struct Story {
    schedule: &'static str,
    tasks: fn() -> Vec<Value>,
    /// What a person does, step by step; with the exit code of each.
    pub steps: &'static [(&'static [&'static str], i32)],
    /// The calls of agents.
    pub calls: &'static [&'static str],
    /// Tasks of which an attempt's work is kept.
    pub kept: &'static [&'static str],
}

pub const BY_LEVELS: Story = Story {
    schedule: "levels",
    tasks,
    steps: &[(&["run"], 3), (&["retry", "C-1"], 0), (&["run", "--resume"], 0)],
    calls: &["A-1", "A-1", "A-2", "A-2", "B-1", "B-2", "B-2", "C-1", "C-1"],
    kept: &["A-1", "A-2"],
};

pub const BY_DEPENDENCIES: Story = Story {
    schedule: "dependencies",
    tasks: early_tasks,
    steps: &[(&["run"], 0)],
    calls: &["A-1", "A-2", "B-1", "B-1", "B-2", "C-1"],
    kept: &[],
};

/// The step before which the person removes what blocked the task.
const UNBLOCKED_BEFORE: usize = 1;

/// One repository with the scenario in it, and a directory beside it, where agents leave what the test is to see.
pub struct Scenario {
    story: &'static Story,
    pub repo: Repo,
    outside: tempfile::TempDir,
}

/// How a step ended.
pub struct Ended {
    pub code: Option<i32>,
    pub killed: bool,
    pub said: String,
}

/// Counts the call, then does the script.
fn counted(id: &str, level: u32, file: &str, script: &str) -> Value {
    let count = format!("echo {id} >> \"$OUTSIDE/calls\"; n=$(grep -c '^{id}$' \"$OUTSIDE/calls\")");
    task(id, level, file, &format!("{count}; {script}"))
}

fn tasks() -> Vec<Value> {
    let after = |task: Value, before: &[&str]| with(task, json!({ "dependencies": before }));
    vec![
        counted("A-1", 1, "a1", "echo half > a1; [ $n -gt 1 ] || { echo not yet; exit 1; }; echo one > a1"),
        counted(
            "A-2",
            1,
            "a2",
            "[ -e a2 ] || echo half > a2; [ $n -gt 1 ] || { echo to be continued; exit 2; }; echo rest >> a2",
        ),
        after(counted("B-1", 2, "b1", "cat a1 a2 > b1"), &["A-1", "A-2"]),
        counted("B-2", 2, "b2", "if grep -q broken b2 2>/dev/null; then echo fixed > b2; else echo broken > b2; fi"),
        counted("C-1", 3, "c1", "[ -e \"$OUTSIDE/unblocked\" ] || { echo needs a person; exit 3; }; cat b1 b2 > c1"),
    ]
}

/// `A-2` waits until `B-1` has started from what there was of its level by then.
fn early_tasks() -> Vec<Value> {
    let after = |task: Value, before: &[&str]| with(task, json!({ "dependencies": before }));
    let verified = json!({ "verification": { "command": "! test -e a2 || grep -q two b1", "timeout_seconds": 30 } });
    let b1 = counted("B-1", 2, "b1", ": > \"$OUTSIDE/b1\"; cat a1 > b1; [ ! -e a2 ] || cat a2 >> b1");
    let waits = "while ! [ -e \"$OUTSIDE/b1\" ]; do sleep 0.02; done; echo two > a2";
    vec![
        counted("A-1", 1, "a1", "echo one > a1"),
        counted("A-2", 1, "a2", waits),
        with(after(b1, &["A-1"]), verified),
        after(counted("B-2", 2, "b2", "cat a2 > b2"), &["A-2"]),
        after(counted("C-1", 3, "c1", "test -e b1; echo three > c1"), &["B-1"]),
    ]
}

/// The text of a file, with the names of the places that it tells of.
fn moved(content: Vec<u8>, places: &[(PathBuf, PathBuf)]) -> Vec<u8> {
    match String::from_utf8(content) {
        Ok(text) => {
            let move_one = |text: String, (from, to): &(PathBuf, PathBuf)| {
                text.replace(from.to_str().unwrap(), to.to_str().unwrap())
            };
            places.iter().fold(text, move_one).into_bytes()
        }
        Err(binary) => binary.into_bytes(),
    }
}

impl Scenario {
    /// The repository before the first step.
    pub fn new(story: &'static Story) -> Scenario {
        let repo = Repo::new();
        let config = format!("{CONFIG}run: {{ schedule: {} }}\n", story.schedule);
        repo.write(".mahabharatha/config.yaml", &config);
        repo.write("Cargo.lock", "");
        repo.commit("settings");
        repo.graph(FEATURE, &(story.tasks)());
        Scenario { story, repo, outside: tempfile::tempdir().unwrap() }
    }

    /// The same at another place, as if it had always been there. Costs less than to come as far as this again.
    pub fn copy(&self) -> Scenario {
        let copy = Scenario { story: self.story, repo: Repo::empty(), outside: tempfile::tempdir().unwrap() };
        let places = [(self.repo.path(), copy.repo.path()), (self.outside(), copy.outside())];
        for (path, (mode, content)) in self.repo.everything() {
            let place = copy.repo.path().join(path.strip_prefix(self.repo.path()).unwrap());
            if path.is_dir() {
                fs::create_dir_all(place).unwrap();
                continue;
            }
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(&place, moved(content, &places)).unwrap();
            fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
        }
        for file in fs::read_dir(self.outside()).unwrap().flatten().filter(|entry| entry.path().is_file()) {
            fs::copy(file.path(), copy.outside().join(file.file_name())).unwrap();
        }
        copy
    }

    pub fn outside(&self) -> PathBuf {
        self.outside.path().canonicalize().unwrap()
    }

    /// One step, with variables of its own.
    pub fn step(&self, step: usize, env: &[(&str, &str)]) -> Ended {
        if step == UNBLOCKED_BEFORE {
            fs::write(self.outside().join("unblocked"), "").unwrap();
        }
        self.program(self.story.steps[step].0, env)
    }

    fn program(&self, args: &[&str], env: &[(&str, &str)]) -> Ended {
        let temporary = self.outside().join("tmp");
        fs::create_dir_all(&temporary).unwrap();
        let mut command = self.repo.command(args);
        command.env("OUTSIDE", self.outside()).env("TMPDIR", temporary).envs(env.iter().copied());
        let Output { status, stdout, stderr } = command.output().unwrap();
        let said =
            format!("$ {}\n{}{}", args.join(" "), String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        Ended { code: status.code(), killed: status.signal() == Some(9), said }
    }

    /// What a person does who finds a run that was killed: resumes, and retries what is blocked, until it is completed.
    /// The first resume has variables of its own.
    pub fn finish(&self, mut env: &[(&str, &str)], said: &mut String) -> Result<(), String> {
        for _ in 0..8 {
            let ended = self.program(&["run", "--resume"], env);
            env = &[];
            said.push_str(&ended.said);
            match ended.code {
                Some(0) => return Ok(()),
                Some(3) if self.story.steps.len() > UNBLOCKED_BEFORE => {
                    let retried = self.step(UNBLOCKED_BEFORE, &[]);
                    said.push_str(&retried.said);
                    if retried.code != Some(0) {
                        return Err(format!("retry ended with {:?}", retried.code));
                    }
                }
                None if ended.killed => {}
                code => return Err(format!("the run ended with {code:?}")),
            }
        }
        Err("the run does not come to its end".to_owned())
    }

    /// How often each task's agent was called.
    pub fn calls(&self) -> BTreeMap<String, usize> {
        let mut calls = BTreeMap::new();
        for task in fs::read_to_string(self.outside().join("calls")).unwrap_or_default().lines() {
            *calls.entry(task.to_owned()).or_default() += 1;
        }
        calls
    }

    pub fn trace(&self, name: &str) -> PathBuf {
        self.outside().join(name)
    }
}

/// The points that a trace names, in order.
pub fn points(trace: &Path) -> Vec<String> {
    fs::read_to_string(trace).unwrap_or_default().lines().map(str::to_owned).collect()
}
