//! `status`: for people, for programs, once and again and again.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::agents::held;
use crate::support::{HELD, Repo, simple, task, with};
use crate::terminal::Terminal;

/// The words that the contract allows.
const RUN: [&str; 5] = ["running", "paused", "blocked", "failed", "completed"];
const LEVEL: [&str; 7] = ["pending", "running", "merging", "gating", "merged", "skipped", "failed"];
const TASK: [&str; 6] = ["pending", "in_progress", "waiting", "completed", "blocked", "skipped"];
const WORKER: [&str; 4] = ["idle", "running", "stopped", "crashed"];

/// Has what the contract promises, under its names and in its words.
#[track_caller]
fn assert_keeps_the_contract(status: &Value) {
    let has = |value: &Value, names: &[&str]| {
        let fields: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        for name in names {
            assert!(fields.contains(name), "{name} is not in {value}");
        }
    };
    let says = |value: &Value, words: &[&str]| assert!(words.contains(&value.as_str().unwrap()), "{value}");
    has(
        status,
        &["feature", "status", "mode", "level", "levels", "tasks", "workers", "mismatches", "cost_usd", "blockers"],
    );
    says(&status["status"], &RUN);
    for level in status["levels"].as_array().unwrap() {
        has(level, &["level", "status", "total", "completed", "blocked", "commit"]);
        says(&level["status"], &LEVEL);
    }
    for task in status["tasks"].as_array().unwrap() {
        let names = ["id", "title", "level", "status", "worker", "attempt", "started_at", "completed_at", "commit"];
        has(task, &[&names[..], &["cost_usd", "tokens", "reason", "strays"]].concat());
        says(&task["status"], &TASK);
    }
    for worker in status["workers"].as_array().unwrap() {
        has(worker, &["id", "status", "task", "pid", "branch"]);
        says(&worker["status"], &WORKER);
    }
    assert!(status["blockers"].as_array().unwrap().iter().all(Value::is_string));
    assert!(status["mismatches"].is_array());
}

#[test]
fn status_shows_a_run_from_its_beginning_to_its_end() {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\n");
    let person = with(task("B-2", 2, "b2", "true"), serde_json::json!({ "foreground": true }));
    repo.graph("x", &[held("A-1", 1, "a1"), simple("A-2", 1, "a2"), simple("B-1", 2, "b1"), person]);

    let run = repo.run_until_up(&["A-1"]);
    repo.wait_until("A-2 is done", || repo.task_status("A-2") == "completed");
    let status = repo.status();
    assert_keeps_the_contract(&status);
    assert_eq!(
        (&status["status"], &status["level"], &status["mode"]),
        (&"running".into(), &1.into(), &"subprocess".into())
    );
    assert_eq!((&status["levels"][0]["completed"], &status["levels"][0]["total"]), (&1.into(), &2.into()));
    assert_eq!(repo.task_status("A-1"), "in_progress");
    assert!(repo.task("A-2")["commit"].is_string() && repo.task("A-1")["commit"].is_null());
    assert_eq!(status["workers"].as_array().unwrap().len(), 2);
    let branch = format!("mahabharatha/x/worker-{}", repo.task("A-1")["worker"]);
    assert!(repo.refs().contains(&format!("refs/heads/{branch}")));

    let table = repo.run(&["status"]).code(0);
    assert_eq!(table.stderr, "");
    for text in [
        "x: running, level 1 of 2 (subprocess, no sandbox, schedule levels, onto main)",
        "1 of 4 completed, 1 in progress",
        "A-1   Make a1",
        &branch,
    ] {
        assert!(table.stdout.contains(text), "{text:?} is not in\n{}", table.stdout);
    }
    let port = repo.read(".gsd/specs/x/worker-assignments.json");
    let port = serde_json::from_str::<Value>(&port).unwrap()["workers"][0]["ports"][0].to_string();
    repo.run(&["status", "-v"]).code(0).says("A-2 attempt 1: was done").says("Ports").says(&port).says("Latest logs");

    repo.let_go("all");
    run.wait().code(3).says("only blocked or waiting tasks remain: B-2");
    let status = repo.status();
    assert_keeps_the_contract(&status);
    assert_eq!(status["status"], "blocked");
    assert_eq!(repo.task_status("B-2"), "waiting");
    assert_eq!(status["blockers"][0], "B-2: waits for a person");
    repo.run(&["skip", "B-2", "--reason", "seen"]).code(0);
    repo.run(&["run"]).code(0);
    let status = repo.status();
    assert_keeps_the_contract(&status);
    assert_eq!((&status["status"], &status["blockers"]), (&"completed".into(), &Value::Array(Vec::new())));
    assert_eq!(status["levels"][1]["status"], "merged");
}

#[test]
fn watching_shows_every_change_and_ends_with_the_run() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    let mut watch = repo.command(&["status", "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let first: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    assert_eq!(first["status"], "running");
    repo.let_go("all");
    let rest: Vec<String> = lines.collect();
    assert!(watch.wait().unwrap().success());
    run.wait().code(0);
    let last: Value = serde_json::from_str(rest.last().unwrap()).unwrap();
    assert_keeps_the_contract(&last);
    assert_eq!(last["status"], "completed");
    assert!(rest.windows(2).all(|pair| pair[0] != pair[1]), "the same is shown twice");
}

#[test]
fn watching_shows_a_change_of_the_task_list_alone() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    let list = repo.home().join(".claude/tasks/x");
    let entry = list.join("1.json");
    repo.wait_until("the list is as it should be", || {
        std::fs::read_to_string(&entry).is_ok_and(|text| text.contains("in_progress"))
    });
    let mut watch = repo.command(&["status", "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    lines.next().unwrap();
    let (seen, shown) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || lines.for_each(|line| drop(seen.send(line))));
    // While another process holds the lock, the entry is not corrected.
    let lock = list.join("1.json.lock");
    std::fs::create_dir(&lock).unwrap();
    // The first may be seen by a look that was under way.
    for status in ["completed", "in_progress", "completed"] {
        let mut task: Value = serde_json::from_slice(&std::fs::read(&entry).unwrap()).unwrap();
        task["status"] = status.into();
        std::fs::write(&entry, task.to_string()).unwrap();
        let is_wrong = status == "completed";
        repo.wait_until("it is shown", || {
            shown.try_iter().any(|line| line.contains(r#""claude":"completed""#) == is_wrong)
        });
    }
    std::fs::remove_dir(&lock).unwrap();
    repo.let_go("all");
    run.wait().code(0);
    assert!(watch.wait().unwrap().success());
    reader.join().unwrap();
}

#[test]
fn watching_a_designed_feature_waits_for_its_run_and_ends_with_it() {
    let repo = Repo::new();
    repo.run(&["attach", "--plain", "-f", "x"]).code(6).says("there has been no run of x");
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let mut lines = Vec::new();
    for args in [&["status", "--watch", "--plain"][..], &["attach", "--plain"], &["status", "--watch", "--json"]] {
        let mut command = repo.command(args);
        let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, told) = std::sync::mpsc::channel();
        let (out, err) = (watch.stdout.take().unwrap(), watch.stderr.take().unwrap());
        for stream in [Box::new(out) as Box<dyn std::io::Read + Send>, Box::new(err)] {
            let sender = sender.clone();
            std::thread::spawn(move || {
                BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
            });
        }
        drop(sender);
        let first = if args.contains(&"--json") { r#""designed""# } else { "x has not run yet; waiting for" };
        while !told.recv().unwrap().contains(first) {}
        lines.push((watch, told));
    }
    let run = repo.run_until_up(&["A-1"]);
    repo.let_go("all");
    run.wait().code(0);
    for (mut watch, told) in lines {
        let text = told.iter().collect::<Vec<_>>().join("\n");
        assert!(watch.wait().unwrap().success(), "{text}");
        assert!(text.contains("completed"), "{text}");
    }
}

#[test]
fn watching_ends_when_the_run_is_killed() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    let mut watch = repo.command(&["status", "--watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(watch.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("worker-0") {
        output.read_line(&mut text).unwrap();
    }
    run.signal("KILL");
    run.wait();
    std::io::Read::read_to_string(&mut output, &mut text).unwrap();
    assert!(watch.wait().unwrap().success());
    assert!(text.contains("the process that drove it is gone"), "{text}");
    repo.run(&["stop"]).code(0);
}

#[test]
fn one_line_for_a_prompt_and_nothing_where_there_is_no_run() {
    let repo = Repo::new();
    let line = |args: &[&str]| {
        let ran = repo.run(&[&["status", "--line"], args].concat()).code(0);
        assert_eq!(ran.stderr, "");
        ran.stdout
    };
    assert_eq!((line(&[]), line(&["--json"])), (String::new(), "null\n".to_owned()));
    assert_eq!(line(&["--feature", "NO such"]), "");
    repo.graph("x", &[simple("A", 1, "a"), simple("B", 2, "b")]);
    repo.commit("graph");
    repo.run(&["run", "x"]).code(0);
    assert_eq!(line(&[]), "x 2/2, completed\n", "nothing was spent");
    let seen: Value = serde_json::from_str(&line(&["--json"])).unwrap();
    assert_eq!(
        (seen["completed"].as_u64(), seen["total"].as_u64(), seen["blocked"].as_u64()),
        (Some(2), Some(2), Some(0))
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let ran = repo.run(&["-C", elsewhere.path().to_str().unwrap(), "status", "--line"]).code(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    repo.write(".mahabharatha/state/x.json", "{ no");
    assert_eq!(line(&[]), "");
}

#[test]
fn the_line_of_a_run_whose_process_or_session_is_gone_says_paused() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a", &format!("{HELD} echo A > a"))]);
    repo.commit("graph");
    let line = || repo.run(&["status", "--line"]).code(0).stdout;
    let run = repo.run_until_held("x");
    assert_eq!(line(), "x 0/1, level 1\n");
    run.signal("KILL");
    run.wait();
    assert_eq!(line(), "x 0/1, paused\n");
    repo.run(&["stop"]).code(0);

    repo.run_with(&["task", "start"], &[("CLAUDE_CODE_SESSION_ID", "s1")]).code(0);
    assert_eq!(line(), "x 0/1, level 1\n");
    std::fs::remove_file(repo.join(".git/mahabharatha/x/sessions/s1.json")).unwrap();
    assert_eq!(line(), "x 0/1, paused\n");
}

#[test]
fn a_refused_retry_makes_a_run_no_longer() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a", "echo no; exit 3"), simple("B", 1, "b")]);
    repo.run(&["run"]).code(3);
    let elapsed = || repo.status()["elapsed_seconds"].clone();
    let (before, ended) = (elapsed(), repo.status()["ended_at"].clone());
    assert!(before.as_f64().is_some_and(|seconds| seconds > 0.0), "{before}");
    repo.run(&["retry", "NOPE"]).code(2);
    assert_eq!((elapsed(), repo.status()["ended_at"].clone()), (before, ended));
}

#[test]
fn gates_and_phases_have_their_times_and_problems_their_commands() {
    let repo = Repo::new();
    repo.config(
        "agent: command\nretry: { max_attempts: 1 }\nworkers: { count: 2 }\nquality_gates: [ { name: lint, command: 'echo fine' } ]\n",
    );
    let blocked = with(simple("B", 2, "b"), serde_json::json!({ "run": "echo 'Which one?'; exit 3" }));
    let needs = with(simple("C", 3, "c"), serde_json::json!({ "dependencies": ["B"] }));
    repo.graph("x", &[simple("Z", 1, "z"), held("A", 2, "a"), blocked, needs]);
    let run = repo.run_until_up(&["A"]);
    repo.wait_until("B is blocked", || repo.task_status("B") == "blocked");
    let status = repo.status();
    let worker = status["workers"].as_array().unwrap().iter().find(|worker| worker["task"] == "A").unwrap();
    assert_eq!((&worker["phase"], &worker["agent"]), (&"agent".into(), &"command".into()), "{worker}");
    assert!(worker["phase_since"].is_string() && worker["doing"].is_null(), "{worker}");
    let gates = status["gates"].as_array().unwrap();
    let lint = gates.iter().find(|gate| gate["gate"] == "lint" && gate["at"] == "1").unwrap();
    assert_eq!((&lint["status"], &lint["command"]), (&"passed".into(), &"echo fine".into()));
    assert!(lint["started_at"].as_str() <= lint["ended_at"].as_str(), "{lint}");
    assert!(std::path::Path::new(lint["log"].as_str().unwrap()).exists(), "{lint}");
    let problem = &status["problems"][0];
    assert_eq!(
        (&problem["kind"], &problem["task"], &problem["text"]),
        (&"question".into(), &"B".into(), &"Which one?".into())
    );
    assert_eq!(problem["holds"], serde_json::json!(["C"]));
    assert!(problem["commands"][0].as_str().unwrap().starts_with("mahabharatha retry -f x B --note"), "{problem}");
    repo.let_go("all");
    run.wait().code(3);
    let after = repo.status();
    assert!(after["seq"].as_u64() > status["seq"].as_u64(), "{after}");
    let journal = repo.read(".git/mahabharatha/x/events.jsonl");
    let records = journal.lines().filter(|line| line.contains("\"event\":")).count();
    assert_eq!(after["seq"].as_u64(), Some(records as u64));
}

#[test]
fn a_small_screen_shows_what_matters_and_its_clocks_move_on_while_nothing_happens() {
    let repo = Repo::new();
    repo.config("agent: command\nworkers: { count: 2 }\nretry: { max_attempts: 1 }\n");
    let mut tasks = vec![held("A", 1, "a"), with(simple("B", 1, "b"), serde_json::json!({ "run": "exit 1" }))];
    tasks.extend((0..40).map(|number| simple(&format!("C-{number}"), 2, &format!("c{number}"))));
    repo.graph("x", &tasks);
    let run = repo.run_until_up(&["A"]);
    repo.wait_until("B is blocked", || repo.task_status("B") == "blocked");
    let watch = Terminal::open(&repo, "status --watch --plain", &[]);
    watch.wait_for(&repo, "more lines");
    let screens = || -> Vec<String> {
        let shown = watch.shown();
        let whole = shown.rsplit_once("\u{1b}[J").map(|(whole, _)| whole.to_string()).unwrap_or_default();
        whole.split("\u{1b}[H").skip(1).map(str::to_string).collect()
    };
    repo.wait_until("the first screen to be drawn whole", || !screens().is_empty());
    let first = screens()[0].clone();
    for part in ["Blockers", "B: ", "mahabharatha/x/worker-0", "A  "] {
        assert!(first.contains(part), "{part} is not in\n{first}");
    }
    let journal = repo.read(".git/mahabharatha/x/events.jsonl");
    // It is drawn twice at once when watching begins.
    repo.wait_until("the clocks to move on", || screens().len() > 4);
    assert_ne!(screens()[2], screens()[4]);
    assert_eq!(repo.read(".git/mahabharatha/x/events.jsonl"), journal, "nothing happened meanwhile");
    watch.close();
    repo.run(&["stop", "--force"]).code(0);
    run.wait().code(130);
}
