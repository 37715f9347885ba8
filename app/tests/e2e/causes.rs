//! `debug` names the cause of a failure with a stable code, its evidence and the command that follows; the command works.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Ran, Repo, simple, task, with};

const AGAIN: &str = "mahabharatha retry A -f x && mahabharatha run x";
pub const RUN: &str = "mahabharatha run x";
const JOURNAL: &str = ".git/mahabharatha/x/events.jsonl";
const STAGING: &str = ".mahabharatha/worktrees/x/staging";

/// What `debug` is to say of a repository, and how it goes on.
struct Case {
    /// Has the failure happen.
    happens: fn() -> Repo,
    code: &'static str,
    task: Option<&'static str>,
    evidence: &'static str,
    /// `$REPO` stands for the repository's directory, `$HOME` for the user's.
    command: &'static str,
    /// Removes the cause.
    fix: fn(&Repo),
    /// Exit code of the command after that; none if it cannot be run here.
    then: Option<i32>,
}

/// One task that is tried once.
pub fn tried_once(config: &str, graph: &[Value], code: i32) -> Repo {
    let repo = Repo::new();
    repo.config(&format!("agent: command\nretry: {{ max_attempts: 1 }}\n{config}"));
    repo.graph("x", graph);
    repo.commit("specs");
    repo.run(&["run"]).code(code);
    repo
}

pub fn making_a(run: &str, verification: &str) -> Value {
    with(task("A", 1, "a.txt", run), json!({ "verification": { "command": verification, "timeout_seconds": 30 } }))
}

fn graph(repo: &Repo, task: Value) {
    repo.graph("x", &[task]);
}

/// A task whose agent fails with these words until there is a file `served` in the home directory.
fn agent_that_says(words: &str) -> Repo {
    let run = format!("test -e \"$HOME/served\" || {{ echo '{words}' >&2; exit 1; }}; echo a > a.txt");
    tried_once("", &[making_a(&run, "true")], 3)
}

/// Installs the missing tool in the user's home.
fn install(repo: &Repo, script: &str) {
    repo.program(repo.home().join("bin/no-such-tool").to_str().unwrap(), script);
}

pub fn serve(repo: &Repo) {
    fs::write(repo.home().join("served"), "").unwrap();
}

fn nothing(_: &Repo) {}

const CASES: [Case; 19] = [
    Case {
        happens: || tried_once("", &[making_a("echo wrong > a.txt", "cat a.txt; grep right a.txt")], 3),
        code: "verification_failed",
        task: Some("A"),
        evidence: "wrong",
        command: "mahabharatha sandbox -f x --task A -- 'cat a.txt; grep right a.txt'",
        fix: nothing,
        then: Some(1),
    },
    Case {
        happens: || tried_once("", &[making_a("echo a > a.txt", "no-such-tool a.txt")], 3),
        code: "missing_tool",
        task: Some("A"),
        evidence: "no-such-tool: not found",
        command: AGAIN,
        fix: |repo| install(repo, "true\n"),
        then: Some(0),
    },
    Case {
        happens: || tried_once("", &[making_a("no-such-tool", "true")], 3),
        code: "missing_tool",
        task: Some("A"),
        evidence: "no-such-tool: not found",
        command: AGAIN,
        fix: |repo| install(repo, "echo a > a.txt\n"),
        then: Some(0),
    },
    Case {
        happens: || tried_once("workers: { timeout_minutes: 0.02 }\n", &[making_a("sleep 1000", "true")], 3),
        code: "timeout",
        task: Some("A"),
        evidence: "had not finished within 1 s",
        command: AGAIN,
        fix: |repo| {
            // A second may be too little also for a good agent, on a busy machine.
            repo.config("agent: command\nretry: { max_attempts: 1 }\n");
            graph(repo, making_a("echo a > a.txt", "true"));
        },
        then: Some(0),
    },
    Case {
        happens: || {
            let verification = json!({ "verification": { "command": "sleep 1000", "timeout_seconds": 1 } });
            tried_once("", &[with(making_a("echo a > a.txt", ""), verification)], 3)
        },
        code: "timeout",
        task: Some("A"),
        evidence: "did not end within 1 s",
        command: AGAIN,
        fix: |repo| graph(repo, making_a("echo a > a.txt", "true")),
        then: Some(0),
    },
    Case {
        happens: || tried_once("", &[making_a("echo a > a.txt; echo b > b.txt", "true")], 3),
        code: "ownership",
        task: Some("A"),
        evidence: "b.txt",
        command: "mahabharatha task grant A -f x b.txt && mahabharatha run x",
        fix: nothing,
        then: Some(0),
    },
    Case {
        happens: || {
            let gate = "quality_gates: [{ name: lint, command: 'test ! -e a.txt || no-such-tool' }]\nmerge: { remediation_attempts: 0 }\n";
            tried_once(gate, &[making_a("echo a > a.txt", "true")], 4)
        },
        code: "missing_tool",
        task: None,
        evidence: "no-such-tool: not found",
        command: RUN,
        fix: |repo| install(repo, "true\n"),
        then: Some(0),
    },
    Case {
        happens: conflicted,
        code: "conflict",
        task: None,
        evidence: "owned.txt",
        command: "mahabharatha merge --retry -f x",
        fix: |repo| {
            repo.write(&format!("{STAGING}/owned.txt"), "both\n");
            repo.git_in(&repo.join(STAGING), &["commit", "-q", "-a", "-m", "resolved"]);
        },
        then: Some(0),
    },
    Case {
        happens: || {
            let gate = "quality_gates: [{ name: lint, command: '! grep -Hn BAD *.txt' }]\nmerge: { remediation_attempts: 0 }\n";
            tried_once(gate, &[making_a("echo BAD > a.txt", "true")], 4)
        },
        code: "gate_failed",
        task: None,
        evidence: "a.txt:1:BAD",
        command: RUN,
        fix: |repo| {
            repo.write(&format!("{STAGING}/a.txt"), "good\n");
            repo.git_in(&repo.join(STAGING), &["commit", "-q", "-a", "-m", "good"]);
        },
        then: Some(0),
    },
    Case {
        happens: || agent_that_says("Invalid API key · Please run /login"),
        code: "agent_login",
        task: Some("A"),
        evidence: "Please run /login",
        command: "claude auth login && mahabharatha retry A -f x && mahabharatha run x",
        fix: nothing,
        then: None,
    },
    Case {
        happens: || agent_that_says("429 Too Many Requests: usage limit reached"),
        code: "quota",
        task: Some("A"),
        evidence: "429 Too Many Requests",
        command: AGAIN,
        fix: serve,
        then: Some(0),
    },
    Case {
        happens: || {
            let repo = Repo::new();
            repo.graph("x", &[simple("A", 1, "a.txt")]);
            repo.write(".git/index.lock", "");
            repo.run(&["run"]).code(9);
            repo
        },
        code: "lock",
        task: None,
        evidence: "another git command is at work there",
        command: "rm '$REPO/.git/index.lock' && mahabharatha run x",
        fix: nothing,
        then: Some(0),
    },
    Case {
        happens: || {
            let repo = half_done();
            fs::remove_dir_all(repo.join(".mahabharatha/worktrees/x/worker-0")).unwrap();
            repo
        },
        code: "stale_worktree",
        task: None,
        evidence: "its files are gone",
        command: RUN,
        fix: nothing,
        then: Some(0),
    },
    Case {
        happens: || {
            let repo = half_done();
            repo.git_in(&repo.join(".mahabharatha/worktrees/x/worker-0"), &["checkout", "-q", "-b", "mine"]);
            repo
        },
        code: "stale_worktree",
        task: None,
        evidence: "it is on mine, not on mahabharatha/x/worker-0",
        command: RUN,
        fix: nothing,
        then: Some(0),
    },
    Case {
        happens: || {
            let repo = half_done();
            let good = repo.read(JOURNAL);
            repo.write(JOURNAL, &format!("{good}garbage\n{{}}\n"));
            repo
        },
        code: "corrupt_state",
        task: None,
        evidence: "events.jsonl: line",
        command: "mahabharatha debug --repair -f x",
        fix: nothing,
        then: Some(0),
    },
    Case {
        happens: || denied("", "cat ~/settings"),
        code: "sandbox_denial",
        task: Some("A"),
        evidence: "No such file or directory",
        command: "mahabharatha retry A -f x && mahabharatha run x --accept-config",
        fix: |repo| allow_settings(repo, ""),
        then: Some(0),
    },
    Case {
        happens: || offline("", &format!("{OFFLINE}; exit 1")),
        code: "sandbox_denial",
        task: Some("A"),
        evidence: "This project turns the network off for verifications and gates (`sandbox.network: false`)",
        command: "mahabharatha retry A -f x && mahabharatha run x --accept-config",
        fix: |repo| {
            repo.config("agent: command\nretry: { max_attempts: 1 }\nsandbox: { mode: auto }\n");
            graph(repo, making_a("echo a > a.txt", "true"));
        },
        then: Some(0),
    },
    Case {
        happens: || {
            offline(
                &format!(
                    "quality_gates: [{{ name: fetch, command: \"test ! -e a.txt || {{ {OFFLINE}; exit 1; }}\" }}]\nmerge: {{ remediation_attempts: 0 }}\n"
                ),
                "true",
            )
        },
        code: "sandbox_denial",
        task: None,
        evidence: "This project turns the network off for verifications and gates (`sandbox.network: false`)",
        command: "mahabharatha run x --accept-config",
        fix: |repo| repo.config("agent: command\nretry: { max_attempts: 1 }\nsandbox: { mode: auto }\n"),
        then: Some(0),
    },
    Case {
        happens: || denied(GATE_THAT_READS, "true"),
        code: "sandbox_denial",
        task: None,
        evidence: "No such file or directory",
        command: "mahabharatha run x --accept-config",
        fix: |repo| allow_settings(repo, GATE_THAT_READS),
        then: Some(0),
    },
];

/// A gate that passes until there is an `a.txt`.
const GATE_THAT_READS: &str = "quality_gates: [{ name: read, command: 'test ! -e a.txt || cat ~/settings' }]\nmerge: { remediation_attempts: 0 }\n";

/// A level whose file a person changed in another way meanwhile.
fn conflicted() -> Repo {
    let repo = Repo::new();
    repo.write("owned.txt", "base\n");
    repo.commit("owned");
    let owned = json!({ "files": { "modify": ["owned.txt"] }, "verification": { "command": "true" } });
    let script = "S=$MAHABHARATHA_SPEC_DIR; : > \"$S/A.up\"; while ! [ -e \"$S/go\" ]; do sleep 0.02; done; echo ours > owned.txt";
    repo.graph("x", &[with(task("A", 1, "owned.txt", script), owned)]);
    let run = repo.run_until_up(&["A"]);
    repo.write("owned.txt", "theirs\n");
    repo.git(&["commit", "-q", "-m", "theirs", "owned.txt"]);
    repo.let_go("all");
    run.wait().code(5);
    repo
}

/// The first of two levels is merged.
fn half_done() -> Repo {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
    repo.commit("specs");
    repo.run(&["run", "--level", "1"]).code(0);
    repo
}

/// A run in a sandbox that does not show a file in the user's home.
fn denied(config: &str, verification: &str) -> Repo {
    let repo = Repo::new();
    fs::write(repo.home().join("settings"), "").unwrap();
    repo.config(&sandboxed("", config));
    graph(&repo, making_a("echo a > a.txt", verification));
    repo.commit("specs");
    let ran = repo.run(&["run"]);
    assert!(matches!(ran.code, 3 | 4), "{}", ran.stderr);
    repo
}

/// A command that says what curl does without a network.
const OFFLINE: &str = "echo 'curl: (6) Could not resolve host: example.com' >&2";

/// A run in a project that turns the network off for verifications and gates.
fn offline(config: &str, verification: &str) -> Repo {
    let repo = Repo::new();
    repo.config(&format!(
        "agent: command\nretry: {{ max_attempts: 1 }}\nsandbox: {{ mode: auto, network: false }}\n{config}"
    ));
    graph(&repo, making_a("echo a > a.txt", verification));
    repo.commit("specs");
    let ran = repo.run(&["run"]);
    assert!(matches!(ran.code, 3 | 4), "{}", ran.stderr);
    repo
}

fn sandboxed(read: &str, config: &str) -> String {
    format!("agent: command\nretry: {{ max_attempts: 1 }}\nsandbox: {{ mode: auto, read: [{read}] }}\n{config}")
}

fn allow_settings(repo: &Repo, config: &str) {
    let settings = repo.home().join("settings");
    repo.config(&sandboxed(&json!(settings.to_str().unwrap()).to_string(), config));
}

/// Runs a command line as a user would, with the program on PATH.
pub fn in_shell(repo: &Repo, command: &str) -> Ran {
    let program = repo.command(&[]).get_program().to_owned();
    let bin = std::path::Path::new(&program).parent().unwrap().to_owned();
    let path = format!("{}:{}:{}", bin.display(), repo.home().join("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(repo.path()).env("HOME", repo.home()).env("PATH", path);
    Ran::of(shell.output().unwrap())
}

/// The cause with this code that `debug` names.
#[track_caller]
pub fn named(repo: &Repo, code: &str) -> Value {
    let found = repo.run(&["debug", "--json"]).code(0).json();
    let all = found["hypotheses"].as_array().unwrap();
    all.iter().find(|one| one["code"] == code).unwrap_or_else(|| panic!("{code}: {found:#}")).clone()
}

fn check(case: &Case) {
    let repo = (case.happens)();
    let told = repo.run(&["debug", "--json"]);
    let found = told.json();
    let all = found["hypotheses"].as_array().unwrap();
    let named = all.iter().find(|one| one["code"] == case.code).unwrap_or_else(|| panic!("{}: {found:#}", case.code));
    assert_eq!(named["task"].as_str(), case.task, "{named:#}");
    let evidence = named["evidence"].as_array().unwrap();
    let shows = |line: &Value| line.as_str().unwrap().contains(case.evidence);
    assert!(evidence.iter().any(shows), "{}: {named:#}", case.code);
    let expected = case.command.replace("$REPO", repo.path().to_str().unwrap());
    assert_eq!(named["command"], expected.as_str(), "{}", case.code);
    assert!(all.iter().all(|one| !one["evidence"].as_array().unwrap().is_empty()), "{found:#}");
    repo.run(&["debug"]).says(&format!("[{}]", case.code));
    if let Some(task) = case.task {
        let one = repo.run(&["debug", task, "--json"]).code(0).json();
        assert!(one["hypotheses"].as_array().unwrap().contains(named), "{one:#}");
    }
    if let Some(code) = case.then {
        (case.fix)(&repo);
        let ran = in_shell(&repo, &expected);
        assert_eq!(ran.code, code, "{}: {expected}\n{}\n{}", case.code, ran.stdout, ran.stderr);
    }
}

#[test]
fn each_cause_has_its_code_its_evidence_and_a_command_that_works() {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failed: Vec<String> = std::thread::scope(|threads| {
        let worker = || {
            let mut failed = Vec::new();
            while let Some(case) = CASES.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                if std::panic::catch_unwind(|| check(case)).is_err() {
                    failed.push(format!("{} ({})", case.code, case.evidence));
                }
            }
            failed
        };
        let workers: Vec<_> = (0..3).map(|_| threads.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "as told above: {failed:?}");
}

#[test]
fn a_variable_that_commands_do_not_get_is_named() {
    const ENV: [(&str, &str); 1] = [("SERVICE_URL", "http://localhost")];
    let gate = "quality_gates: [{ name: url, command: 'test ! -e a.txt || : ${SERVICE_URL:?}' }]\n\
                merge: { remediation_attempts: 0 }\n";
    for (config, verification, task) in [("", ": ${SERVICE_URL:?}", Some("A")), (gate, "true", None)] {
        let repo = Repo::new();
        repo.config(&format!("agent: command\nretry: {{ max_attempts: 1 }}\n{config}"));
        graph(&repo, making_a("echo a > a.txt", verification));
        repo.commit("specs");
        let says = "SERVICE_URL is set in your environment, but commands of a run do not see it: add SERVICE_URL to env.pass \
                    in .mahabharatha/config.yaml";
        repo.run_with(&["run"], &ENV).says(says);
        let named = named(&repo, "hidden_variable");
        assert_eq!(named["task"].as_str(), task, "{named:#}");
        let command = named["command"].as_str().unwrap();
        assert!(command.ends_with("mahabharatha run x --accept-config"), "{named:#}");
        assert!(named["next"].as_str().unwrap().contains(says), "{named:#}");
        repo.config(&format!("agent: command\nretry: {{ max_attempts: 1 }}\nenv: {{ pass: [SERVICE_URL] }}\n{config}"));
        in_shell(&repo, &format!("export SERVICE_URL=x; {command}")).code(0);
        // Without the variable there is nothing to explain.
        let other = Repo::new();
        other.config(&format!("agent: command\nretry: {{ max_attempts: 1 }}\n{config}"));
        graph(&other, making_a("echo a > a.txt", verification));
        other.commit("specs");
        other.run(&["run"]).does_not_say("is set in your environment");
    }
}
