//! The command line itself: help, versions, wrong usage, the demo, logs.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Background, Ran, Repo, simple, with};

const COMMANDS: &[&str] = &[
    "init",
    "kurukshetra",
    "run",
    "sandbox",
    "list",
    "status",
    "logs",
    "diff",
    "attach",
    "scale",
    "serve",
    "pause",
    "resume",
    "review",
    "stop",
    "retry",
    "skip",
    "merge",
    "cleanup",
    "debug",
    "plan",
    "design",
    "agents",
    "doctor",
    "estimate",
    "install",
    "mcp",
    "validate-commands",
    "demo",
    "git",
    "quick",
    "undo",
    "task",
    "notify",
    "schema",
    "completions",
    "man",
];

/// The same program under its short name.
fn mbh(args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mbh"));
    Ran::of(command.args(args).env_remove("COLUMNS").stdin(Stdio::null()).output().unwrap())
}

#[test]
fn help_is_there_for_every_command_and_under_both_names() {
    let repo = Repo::new();
    let help = repo.run(&["--help"]).code(0);
    insta::assert_snapshot!(help.stdout);
    let listed: BTreeSet<&str> = help
        .stdout
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert_eq!(listed, COMMANDS.iter().copied().filter(|name| *name != "run").collect(), "`run` is an alias");
    for command in COMMANDS.iter().copied() {
        let by_flag = repo.run(&[command, "--help"]).code(0);
        assert!(by_flag.stdout.contains("Usage: mahabharatha"), "{}", by_flag.stdout);
        assert_eq!(repo.run(&["help", command]).code(0).stdout, by_flag.stdout);
        assert_eq!(
            mbh(&[command, "--help"]).code(0).stdout.replace("Usage: mbh", "Usage: mahabharatha"),
            by_flag.stdout
        );
        assert!(by_flag.stdout.lines().all(|line| line.chars().count() <= 100), "{}", by_flag.stdout);
    }
    let topics = repo.run(&["help"]).code(0).stdout;
    assert!(topics.starts_with(&help.stdout), "{topics}");
    assert_eq!(repo.run(&["help", "task", "claim"]).code(0).stdout, repo.run(&["task", "claim", "--help"]).stdout);
    let config = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/config.md")).unwrap();
    assert_eq!(repo.run(&["help", "config"]).code(0).stdout, config);
    for topic in
        topics.split("Topics").nth(1).unwrap().lines().skip(1).filter_map(|line| line.split_whitespace().next())
    {
        assert!(repo.run(&["help", topic]).code(0).stdout.starts_with("# "), "{topic}");
    }
    let word = repo.run(&["help", "tour", "x"]).code(2).says("the topic tour has no part x");
    word.says("hint: The whole page: mahabharatha help tour\n").does_not_say("Did you mean");
    repo.run(&["help", "confg"]).code(2).says("hint: Did you mean `config`?\n");
    let unknown = repo.run(&["help", "nope"]).code(2).says("`mahabharatha help` lists the commands");
    unknown.says("the topics are: tour, concepts,").does_not_say("more");
    let version = repo.run(&["--version"]).code(0).stdout;
    assert_eq!(version, format!("mahabharatha {} (development build)\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(mbh(&["--version"]).code(0).stdout, version);
}

#[test]
fn the_short_name_does_the_same() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    let root = repo.path().display().to_string();
    mbh(&["-C", &root, "run"]).code(0).says("x is completed");
    assert_eq!(mbh(&["-C", &root, "status", "--json"]).code(0).json(), repo.status());
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    for (args, what) in [
        (&[][..], "Usage:"),
        (&["conquer"], "unrecognized subcommand 'conquer'"),
        (&["statsu"], "'status'"),
        (&["run", "--fast"], "unexpected argument '--fast'"),
        (&["run", "-w", "0"], "0 is not in 1..=500"),
        (&["run", "--level", "one"], "invalid value 'one'"),
        (&["run", "--max-cost=-1"], "--max-cost"),
        (&["run", "--mode", "task"], "--mode subprocess"),
        (&["status", "-q", "-v"], "cannot be used with"),
        (&["retry"], "--all"),
        (&["skip", "A"], "--reason"),
        (&["skip", "A/../B", "--reason", "r"], "A/../B"),
        (&["logs", "--since", "soon"], "2026-01-26T10:30:00Z"),
        (&["logs", "--level", "loud"], "[possible values: debug, info, warn, error]"),
        (&["stop", "--grace", "long"], "invalid value 'long'"),
        (&["worker", "A"], "mahabharatha run"),
        (&["design", "--validate-only", "--force"], "cannot be used with"),
        (&["plan", "x", "--issue", "seven"], "invalid value 'seven'"),
        (&["completions", "tcsh"], "[possible values: bash"),
        (&["--color", "sometimes", "status"], "[possible values: auto, always, never]"),
    ] {
        repo.run(args).code(2).says(what);
    }
    for name in ["run", "kurukshetra"] {
        repo.run(&[name, "--fast"]).code(2).says(&format!("Usage: mahabharatha {name} "));
        repo.run(&[name, "--help"]).code(0).says(&format!("Usage: mahabharatha {name} [OPTIONS] [FEATURE]"));
    }
    repo.run(&["run", "--mode", "container"]).code(7).says("--mode subprocess");
    assert!(!repo.exists(".git/mahabharatha/x/jobs"), "nothing was begun");
}

#[test]
fn the_demo_shows_the_whole_way_and_leaves_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    let repo = Repo::new();
    let before = repo.everything();
    let env = [("TMPDIR", tmp.path().to_str().unwrap())];
    let demo = repo.run_with(&["demo"], &env).code(0);
    assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 0);
    assert_eq!(repo.everything(), before);
    assert!(demo.stdout.trim_end().ends_with("The example project"), "it ends with the log:\n{}", demo.stdout);
    assert!(
        !demo.stdout.contains("mermaid") && demo.stdout.contains("## Failed Attempts and Fixes"),
        "{}",
        demo.stdout
    );
    assert!(demo.stderr.trim_end().lines().last().unwrap().starts_with("Next: "), "{}", demo.stderr);
    // The log of the base branch and the report are what was asked for, all else is told beside.
    for text in [
        "Level 3: statistics",
        "Level 1: statistics",
        "feat(SUM): Add numbers up",
        "# Completion: statistics",
        "12 of 12 completed",
    ] {
        assert!(demo.stdout.contains(text), "{text} is not in\n{}", demo.stdout);
    }
    for text in [
        "MEDIAN failed its verification (attempt 1 of 3)",
        "USAGE tried to change what it does not own: README.md",
        "level 1 merged into main",
        "statistics completed: 12 tasks in 3 levels",
    ] {
        assert!(demo.stderr.contains(text), "{text} is not in\n{}", demo.stderr);
    }
}

#[test]
fn a_demo_that_is_stopped_says_what_is_left_of_it() {
    let (tmp, repo) = (tempfile::tempdir().unwrap(), Repo::new());
    let kept = repo.join("kept");
    let stop = |args: &[&str], project: &dyn Fn() -> Option<PathBuf>| {
        let mut command = repo.command(args);
        command.env("TMPDIR", tmp.path());
        let demo = Background::start(command);
        let has_begun = |dir: PathBuf| dir.join(".git/mahabharatha/statistics/jobs").exists();
        repo.wait_until("an attempt has begun", || project().is_some_and(has_begun));
        demo.signal("INT");
        demo.wait().code(130)
    };
    let temporary = || fs::read_dir(tmp.path()).unwrap().flatten().map(|entry| entry.path()).find(|path| path.is_dir());
    stop(&["demo"], &temporary)
        .says("the demo was stopped, and its project removed")
        .says("`mahabharatha demo --keep DIR` keeps it.")
        .does_not_say("mahabharatha run statistics\n\n")
        .does_not_say("Go on with");
    assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 0);
    let go_on = format!(
        "Go on with: mahabharatha -C {} run statistics",
        mahabharatha_core::names::shell_word(kept.to_str().unwrap())
    );
    stop(&["demo", "--keep", "kept"], &|| Some(kept.clone())).says(&go_on);
    repo.run(&["-C", kept.to_str().unwrap(), "run", "statistics"]).code(0);
}

#[test]
fn a_command_for_the_sandbox_without_the_separator() {
    let repo = Repo::new();
    for (args, tip) in [
        (&["sandbox", "ls", "-l"][..], "use 'mahabharatha sandbox -- ls -l'"),
        (&["-f", "x", "sandbox", "--task", "A", "ls"], "use 'mahabharatha -f x sandbox --task A -- ls'"),
        (&["sandbox", "--json", "ls"], "use 'mahabharatha sandbox --json -- ls'"),
    ] {
        repo.run(args).code(2).says("unexpected argument 'ls' found").says(tip);
    }
    repo.run(&["status", "x", "sandbox"]).code(2).does_not_say("use 'mahabharatha");
}

#[test]
fn the_demo_can_be_kept_and_overwrites_nothing() {
    let repo = Repo::new();
    let kept = repo.join("kept");
    let dir = kept.to_str().unwrap();
    repo.run(&["demo", "--keep", "kept"]).code(0).says(&format!("The project stays in {dir}"));
    let log = repo.git_in(&kept, &["log", "--first-parent", "--format=%s", "main"]);
    assert_eq!(
        log.lines().collect::<Vec<_>>(),
        ["Level 3: statistics", "Level 2: statistics", "Level 1: statistics", "The example project"]
    );
    assert_eq!(repo.git_in(&kept, &["status", "--porcelain", "--untracked-files=no"]), "");
    let run = Command::new("sh").args(["-c", "bin/abacus median 5 1 3"]).current_dir(&kept).output().unwrap();
    assert_eq!(Ran::of(run).code(0).stdout, "3\n");
    assert_eq!(repo.run(&["-C", dir, "status", "--json"]).code(0).json()["status"], "completed");
    assert_eq!(fs::read(kept.join(".mahabharatha/.gitignore")).unwrap(), b"*\n!/config.yaml\n");

    let before = repo.everything();
    repo.run(&["demo", "--keep", "kept"]).code(2).says("is not empty").says("new directory");
    repo.run(&["demo", "--keep", "README.md"]).code(1).says("README.md");
    assert_eq!(repo.everything(), before);
}

/// Two levels; the second task fails once, each says something.
fn logged() -> Repo {
    let repo = Repo::new();
    repo.config("workers: { count: 1 }\n");
    let second = "echo Second speaks; test $MAHABHARATHA_ATTEMPT = 2 && echo b > b.txt";
    let tasks = [
        with(simple("A", 1, "a.txt"), json!({ "run": "echo first speaks; echo a > a.txt" })),
        with(simple("B", 2, "b.txt"), json!({ "run": second })),
    ];
    repo.graph("x", &tasks);
    repo
}

fn records(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn logs_are_filtered_by_worker_task_time_level_and_text() {
    let repo = logged();
    repo.run(&["logs"]).code(0).says("there are no logs yet of x");
    repo.run(&["run"]).code(0);
    let all = records(&repo.run(&["logs", "--json"]).code(0));
    let times: Vec<&str> = all.iter().map(|record| record["ts"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let of = |args: &[&str]| records(&repo.run(&[&["logs", "--json"], args].concat()).code(0));
    let only =
        |holds: &dyn Fn(&Value) -> bool| -> Vec<Value> { all.iter().filter(|record| holds(record)).cloned().collect() };
    assert_eq!(of(&["--task", "B"]), only(&|record| record["task"] == "B"));
    assert_eq!(of(&["--worker", "0"]), only(&|record| record["worker"] == 0));
    repo.run(&["logs", "--worker", "7"]).code(2).says("there is no worker 7");
    let errors = of(&["--level", "error"]);
    assert_eq!(errors, only(&|record| record["level"] == "error"));
    assert_eq!((errors.len(), &errors[0]["task"], &errors[0]["attempt"]), (1, &json!("B"), &json!(1)));
    assert_eq!(of(&["--level", "info"]), only(&|record| record["level"] != "debug"));
    let spoken = of(&["--search", "SECOND speaks"]);
    let output = spoken.iter().filter(|record| record["event"] == "output");
    assert_eq!(output.map(|record| record["attempt"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    let last = times.last().unwrap();
    assert!(of(&["--since", last]).iter().all(|record| record["ts"] == *last));
    assert_eq!(of(&["--since", "1h"]), all);
    assert_eq!(of(&["--since", "2999-01-01"]), Vec::<Value>::new());
    assert_eq!(of(&["--task", "B", "--level", "debug", "--search", "speaks", "--worker", "0"]), spoken);
    let told = repo.run(&["logs", "--task", "A"]).code(0);
    assert!(told.stdout.contains("DEBUG worker 0 A (attempt 1): output: first speaks"), "{}", told.stdout);

    // A line that is no record is passed over and said.
    let log = ".mahabharatha/logs/x/tasks/A.jsonl";
    repo.write(log, &format!("{}not a record\n", repo.read(log)));
    let ran = repo.run(&["logs", "--json"]).code(0).says("1 line could not be read");
    assert_eq!(records(&ran), all);
}

#[test]
fn followed_logs_show_everything_once_as_it_comes() {
    let repo = logged();
    let hold =
        "echo waiting; while [ ! -e \"$MAHABHARATHA_SPEC_DIR/go\" ]; do sleep 0.05; done; echo going; echo a > a.txt";
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "run": hold })), simple("B", 2, "b.txt")]);
    let out = File::create(repo.join(".gsd/followed")).unwrap();
    let mut follower = repo.command(&["logs", "--follow", "--json"]).stdout(out).spawn().unwrap();
    let run = repo.spawn(&["run"]);
    let followed = || repo.read(".gsd/followed");
    repo.wait_until("the first words", || followed().contains("waiting"));
    assert!(!followed().contains("going"));
    repo.write(".gsd/specs/x/go", "");
    run.wait().code(0);
    let all = repo.run(&["logs", "--json"]).code(0).stdout;
    repo.wait_until("the last record", || followed().lines().count() >= all.lines().count());
    follower.kill().unwrap();
    follower.wait().unwrap();
    let sorted = |text: &str| -> Vec<String> {
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&followed()), sorted(&all));
}
