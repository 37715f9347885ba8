//! `debug` names the cause of a failure with a stable code, its evidence and the command that follows; the command works.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::agents::held;
use crate::support::{Disk, Ran, Repo, simple, task, with};

const AGAIN: &str = "mahabharatha retry A -f x && mahabharatha run x";
const RUN: &str = "mahabharatha run x";
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
fn tried_once(config: &str, graph: &[Value], code: i32) -> Repo {
    let repo = Repo::new();
    repo.config(&format!("agent: command\nretry: {{ max_attempts: 1 }}\n{config}"));
    repo.graph("x", graph);
    repo.commit("specs");
    repo.run(&["run"]).code(code);
    repo
}

fn making_a(run: &str, verification: &str) -> Value {
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

fn serve(repo: &Repo) {
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
fn in_shell(repo: &Repo, command: &str) -> Ran {
    let program = repo.command(&[]).get_program().to_owned();
    let bin = std::path::Path::new(&program).parent().unwrap().to_owned();
    let path = format!("{}:{}:{}", bin.display(), repo.home().join("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(repo.path()).env("HOME", repo.home()).env("PATH", path);
    Ran::of(shell.output().unwrap())
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

#[track_caller]
fn names_the_disk(found: &Value) {
    let full = found["hypotheses"].as_array().unwrap().iter().find(|one| one["code"] == "disk_full");
    let full = full.unwrap_or_else(|| panic!("{found:#}"));
    assert_eq!(full["command"], RUN);
    assert!(full["evidence"][0].as_str().unwrap().contains("No space left on device"), "{full}");
}

#[test]
fn a_full_disk_is_named() {
    const VARIABLE: &str = "MAHABHARATHA_TEST_FULL_DISK";
    let repo = Repo::new();
    repo.config(&format!("env: {{ pass: [{VARIABLE}] }}\n"));
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.commit("specs");
    let file = repo.join(".git/full-disk");
    fs::write(&file, "from 12\n").unwrap();
    let on_it = [(VARIABLE, file.to_str().unwrap())];
    repo.run_with(&["run"], &on_it).code(9);
    names_the_disk(&repo.run_with(&["debug", "--json"], &on_it).code(0).json());
    in_shell(&repo, RUN).code(0);
}

#[test]
fn a_full_disk_of_worktrees_is_named() {
    let Some(disk) = Disk::new("2m") else { return };
    let repo = Repo::new();
    let large = disk.path().join("large");
    repo.config(&format!("worktrees: {{ dir: '{}' }}\n", disk.path().join("trees").display()));
    let fill = format!("test -e \"$HOME/served\" || head -c 8000000 /dev/zero > '{}'; echo a > a.txt", large.display());
    repo.graph("x", &[making_a(&fill, "true")]);
    repo.commit("specs");
    repo.run(&["run"]).code(9);
    names_the_disk(&repo.run(&["debug", "--json"]).code(0).json());
    fs::remove_file(&large).unwrap();
    names_the_disk(&repo.run(&["debug", "--json"]).code(0).json());
    serve(&repo);
    in_shell(&repo, RUN).code(0);
}

#[test]
fn a_common_cause_is_named_only_if_the_output_is_alike() {
    let failing = |one: &str, two: &str| {
        let making = |id: &str, file: &str, says: &str| {
            let verification = json!({ "command": format!("echo '{says}'; exit 1"), "timeout_seconds": 30 });
            with(task(id, 1, file, &format!("echo a > {file}")), json!({ "verification": verification }))
        };
        let repo = tried_once("", &[making("A", "a.txt", one), making("B", "b.txt", two)], 3);
        let found = repo.run(&["debug", "--json"]).code(0).json();
        found["hypotheses"].as_array().unwrap().iter().find(|one| one["code"] == "common_cause").cloned()
    };
    assert_eq!(failing("error: a is 1", "error: no such column"), None);
    let named = failing("error: the database is down", "error: the database is down").unwrap();
    assert_eq!(named["evidence"][0], "error: the database is down", "{named:#}");
    assert!(named["cause"].as_str().unwrap().starts_with("A, B failed in the same way"), "{named:#}");
    assert_eq!(failing("", ""), None, "an exit code alone shows nothing");
}

#[test]
fn status_says_what_to_do_about_files_of_others_and_where_to_find_other_causes() {
    let repo = tried_once("", &[making_a("echo a > a.txt; echo b > b.txt", "true")], 3);
    let way_out = "if it may change them: `mahabharatha task grant -f x A b.txt && mahabharatha run x`; otherwise";
    repo.run(&["status"]).code(0).says(way_out);
    let problem = &repo.status()["problems"][0];
    assert_eq!(
        (&problem["kind"], &problem["commands"][0]),
        (&json!("strays"), &json!("mahabharatha task grant -f x A b.txt"))
    );
    let repo = tried_once("", &[making_a("echo wrong > a.txt", "cat a.txt; grep right a.txt")], 3);
    let way_out = "fix the cause (`mahabharatha debug -f x A` says how), then `mahabharatha retry -f x A`";
    repo.run(&["status"]).code(0).says(way_out);
}

#[test]
fn a_file_of_the_user_that_is_in_the_way_is_no_lock() {
    let repo = Repo::new();
    let lock = json!({ "files": { "create": ["index.lock"] }, "verification": { "command": "true" } });
    repo.graph("x", &[with(task("A", 1, "index.lock", "echo a > index.lock"), lock)]);
    repo.commit("specs");
    repo.write("index.lock", "mine\n");
    repo.run(&["run"]).code(9);
    let found = repo.run(&["debug", "--json"]).code(0).json();
    let named = &found["hypotheses"][0];
    assert_eq!((&named["code"], &named["command"]), (&json!("checkout_in_the_way"), &json!(RUN)), "{found:#}");
}

#[test]
fn a_run_that_is_on_is_named_as_what_holds_the_feature() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a.txt")]);
    let run = repo.run_until_up(&["A"]);
    let found = repo.run(&["debug", "--json"]).code(0).json();
    let first = &found["hypotheses"][0];
    assert_eq!((&first["code"], &first["command"]), (&json!("lock"), &json!("mahabharatha stop -f x")));
    assert!(first["evidence"][0].as_str().unwrap().contains(&format!("process {}", run.pid())), "{first}");
    repo.run(&["debug"])
        .says(&format!("The run is under way (process {}); nothing is wrong with it. [lock]", run.pid()))
        .does_not_say("saved nowhere else")
        .does_not_say("worktrees/x/worker-0");
    in_shell(&repo, "mahabharatha stop -f x").code(0);
    run.wait().code(130);
    let stopped = named(&repo, "stopped");
    assert_eq!((&stopped["cause"], &stopped["command"]), (&json!("It was stopped."), &json!(RUN)));
    repo.run(&["debug"]).code(0).says("`mahabharatha run x` continues it").does_not_say("No problem was found");
}

#[test]
fn a_configuration_that_keeps_a_run_from_going_on_is_named_with_what_changed() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a.txt")]);
    let run = repo.run_until_up(&["A"]);
    repo.config("quality_gates: [{ name: lint, command: 'true' }]\n");
    let codes = repo.run(&["debug", "--json"]).code(0).json();
    assert!(codes["hypotheses"].as_array().unwrap().iter().all(|one| one["code"] != "config_changed"), "{codes:#}");
    repo.run(&["stop"]).code(0);
    run.wait().code(130);
    repo.run(&["run"]).code(9);
    let changed = named(&repo, "config_changed");
    assert_eq!(changed["command"], "mahabharatha run x --accept-config");
    assert!(changed["evidence"][0].as_str().unwrap().contains("lint"), "{changed}");
    repo.run(&["debug"]).code(0).says("or accept the change: `mahabharatha run x --accept-config`");
    repo.let_go("all");
    in_shell(&repo, changed["command"].as_str().unwrap()).code(0);
}

/// The cause with this code that `debug` names.
#[track_caller]
fn named(repo: &Repo, code: &str) -> Value {
    let found = repo.run(&["debug", "--json"]).code(0).json();
    let all = found["hypotheses"].as_array().unwrap();
    all.iter().find(|one| one["code"] == code).unwrap_or_else(|| panic!("{code}: {found:#}")).clone()
}

#[test]
fn an_attempt_that_could_not_be_carried_out_has_another_code_than_a_setup_that_failed() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[held("A", 1, "a.txt")]);
    let run = repo.run_until_up(&["A"]);
    fs::remove_dir_all(repo.join(".mahabharatha/worktrees/x/worker-0")).unwrap();
    repo.let_go("all");
    run.wait().code(3);
    let found = named(&repo, "not_carried_out");
    assert_eq!((&found["command"], &found["task"]), (&json!("mahabharatha doctor"), &json!("A")));
}

#[test]
fn a_run_that_is_paused_is_named_with_the_command_that_resumes_it() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a.txt")]);
    let run = repo.run_until_up(&["A"]);
    repo.run(&["pause"]).code(0);
    let paused = named(&repo, "paused");
    assert_eq!((&paused["command"], &paused["task"]), (&json!("mahabharatha resume x"), &Value::Null));
    assert_eq!(paused["evidence"], json!(["paused by `mahabharatha pause`"]));
    in_shell(&repo, paused["command"].as_str().unwrap()).code(0);
    let codes = repo.run(&["debug", "--json"]).code(0).json();
    assert!(codes["hypotheses"].as_array().unwrap().iter().all(|one| one["code"] != "paused"), "{codes:#}");
    repo.let_go("all");
    run.wait().code(0);
}

#[test]
fn a_level_that_waits_for_approval_is_named_with_the_command_that_approves_it() {
    let repo = tried_once("merge: { approval: level }\n", &[making_a("echo a > a.txt", "true")], 9);
    let waits = named(&repo, "awaits_approval");
    let tree = repo.status()["levels"][0]["awaits_approval"]["tree"].as_str().unwrap()[..10].to_owned();
    assert_eq!(waits["command"], format!("mahabharatha merge --approve={tree} --level 1 -f x"));
    assert_eq!(waits["evidence"], json!(["waits for your approval"]));
    repo.run(&["debug"]).code(0).says("[awaits_approval]");
    in_shell(&repo, waits["command"].as_str().unwrap()).code(0);
    assert_eq!(repo.run(&["debug", "--json"]).code(0).json()["hypotheses"], json!([]));
}

#[test]
fn the_timeline_and_every_cause_that_fits_are_shown() {
    let repo = tried_once("", &[making_a("echo wrong > a.txt", "false"), simple("B", 1, "b.txt")], 3);
    let found = repo.run(&["debug", "--json"]).code(0).json();
    let texts = |found: &Value| -> Vec<String> {
        let moments = found["timeline"].as_array().unwrap();
        assert!(moments.iter().all(|moment| moment["at"].is_string()), "{moments:?}");
        moments.iter().map(|moment| moment["text"].as_str().unwrap().to_owned()).collect()
    };
    let told = texts(&found);
    assert!(told.iter().any(|text| text.contains("A")) && told.iter().any(|text| text.contains("B")), "{told:?}");
    let of_a = texts(&repo.run(&["debug", "A", "--json"]).code(0).json());
    assert!(!of_a.is_empty() && of_a.iter().all(|text| !text.starts_with("B")), "{of_a:?}");
    assert_eq!((&found["base"]["branch"], &found["base"]["problem"]), (&json!("main"), &Value::Null));
    let worktrees = found["worktrees"].as_array().unwrap();
    let worktree = worktrees.iter().find(|one| one["path"].as_str().unwrap().ends_with("worker-0")).unwrap();
    assert_eq!(worktree["branch"], "refs/heads/mahabharatha/x/worker-0");
    assert_eq!((&worktree["problem"], &worktree["at_level_base"]), (&Value::Null, &json!(true)));
    repo.run(&["debug"]).code(0).says("Timeline").says("branch main: fits the run");

    repo.git(&["checkout", "-q", "--orphan", "other"]);
    repo.git(&["commit", "-q", "-m", "unrelated"]);
    repo.git(&["branch", "-f", "main", "other"]);
    let found = repo.run(&["debug", "--json"]).code(0).json();
    assert!(found["base"]["problem"].as_str().unwrap().contains("the start of the run"), "{}", found["base"]);
    let codes: Vec<&str> =
        found["hypotheses"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["verification_failed", "base_rewritten"]);
}

#[test]
fn nothing_is_named_without_a_run_or_a_task() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    let before = repo.everything();
    repo.run(&["debug"]).code(6).says("there has been no run of x").says("mahabharatha run x");
    repo.run(&["debug", "Z"]).code(6).says("there has been no run of x");
    assert!(repo.everything() == before);
    repo.run(&["run"]).code(0);
    let before = repo.everything();
    repo.run(&["debug", "Z"]).code(2).says("x has no task Z");
    assert_eq!(repo.run(&["debug", "A", "--json"]).code(0).json()["hypotheses"], json!([]));
    assert!(repo.everything() == before);
}
