//! What programs read: the events of `run`, `attach` and `merge --json`, and errors under `--json`.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::agents::held;
use crate::readers::full_pipe;
use crate::support::{Background, Ran, Repo, simple, with};

fn events(ran: &Ran) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
    ran.stdout.lines().map(parse).collect()
}

fn error(ran: &Ran) -> Value {
    let last = ran.stderr.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error} in {}", ran.stderr))
}

/// What each event of a kind says about its task or level, in order.
fn told(events: &[Value], kind: &str, key: &str) -> Vec<(Value, Value)> {
    let of_kind = events.iter().filter(|event| event["event"] == kind);
    of_kind.map(|event| (event[key].clone(), event["status"].clone())).collect()
}

#[test]
fn a_run_tells_programs_of_every_change() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
    let ran = repo.run(&["run", "--json"]).code(0);
    let events = events(&ran);
    assert!(events.iter().all(|event| event["version"] == 1 && event["at"].is_string()), "{}", ran.stdout);
    assert_eq!((&events[0]["event"], &events[0]["feature"]), (&json!("run"), &json!("x")));
    let tasks = told(&events, "task", "id");
    for id in ["A", "B"] {
        for status in ["in_progress", "completed"] {
            assert!(tasks.contains(&(json!(id), json!(status))), "{id} {status} is not in {tasks:?}");
        }
    }
    assert!(told(&events, "level", "level").contains(&(json!(2), json!("merged"))), "{}", ran.stdout);
    assert!(events.iter().any(|event| event["event"] == "log" && event["severity"] == "info"), "{}", ran.stdout);
    let [.., whole, end] = &events[..] else { panic!("{}", ran.stdout) };
    assert_eq!((&whole["event"], &whole["status"]), (&json!("run"), &json!("completed")));
    assert_eq!((&end["event"], &end["code"], &end["error"]), (&json!("end"), &json!(0), &Value::Null));
    let again = self::events(&repo.run(&["run", "--json"]).code(0));
    assert_eq!(again.last().unwrap()["code"], 0);
}

#[test]
fn events_end_with_the_error_that_ended_the_run() {
    let repo = Repo::new();
    repo.config("quality_gates: [ { name: there, command: 'test -e c.txt' } ]\n");
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "run": "exit 3" }))]);
    let ran = repo.run(&["run", "--json", "--allow-red-base"]).code(3);
    let all = events(&ran);
    let gate = all.iter().find(|event| event["event"] == "gate_failed").unwrap();
    assert_eq!((&gate["gate"], &gate["level"]), (&json!("there"), &Value::Null));
    let end = all.last().unwrap();
    assert_eq!((&end["code"], &end["kind"]), (&json!(3), &json!("blocked")));
    assert_eq!(end["error"], error(&ran));
    assert!(error(&ran)["hint"].as_str().unwrap().contains("mahabharatha retry"), "{}", ran.stderr);
    repo.config("");
    repo.run(&["skip", "A", "--reason", "no"]).code(0);
    let merged = events(&repo.run(&["merge", "--json", "--accept-config"]).code(0));
    assert_eq!(told(&merged, "level", "level").last(), Some(&(json!(1), json!("skipped"))));
    assert_eq!(merged.last().unwrap()["code"], 0);
}

#[test]
fn errors_under_json_are_json() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    for (args, code, kind) in [
        (&["status", "--json", "-f", "NO"][..], 2, "usage"),
        (&["stop", "--json"], 6, "invalid"),
        (&["logs", "--json", "--worker", "first"], 2, "usage"),
        (&["nothing", "--json"], 2, "usage"),
        (&["run", "--json", "--level", "7"], 2, "usage"),
    ] {
        let ran = repo.run(args).code(code);
        let error = error(&ran);
        assert_eq!((&error["code"], &error["kind"]), (&json!(code), &json!(kind)), "{args:?}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{args:?}: {error}");
        assert!(error.get("hint").is_some() && error["details"].is_array(), "{args:?}: {error}");
    }
}

#[test]
fn a_program_that_stops_reading_events_does_not_hold_up_a_run() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
    let (_unread, stdout) = full_pipe();
    let mut command = repo.command(&["run", "--json"]);
    command.stdout(stdout).stderr(Stdio::null()).stdin(Stdio::null());
    let run = Background::spawn(command);
    repo.wait_until_up(&["A"]);
    run.signal("INT");
    assert_eq!(run.wait().code, 130);

    repo.write(".gsd/specs/x/go", "");
    let (_unread, stdout) = full_pipe();
    let mut command = repo.command(&["run", "--json"]);
    command.stdout(stdout).stderr(Stdio::null()).stdin(Stdio::null());
    let run = Background::spawn(command);
    repo.wait_until("the end of the run", || repo.exists(".gsd/specs/x/COMPLETION.md"));
    repo.run(&["stop", "--force"]).code(0);
    assert_eq!(repo.status()["status"], "completed");
    // What is left is to print the events: a signal ends that.
    run.signal("INT");
    run.wait();
}
