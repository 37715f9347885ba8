//! Agents whose context fills up.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::claude_client;
use crate::client::{Bench, task, window};
use crate::messages_api::{Api, Ask, Reply, bash, tool_use};

/// What the agent is told when its context is full.
const STOP: &str = "Your context is nearly full.";

/// As many tokens as fill three quarters of the client's window; none where there is no client.
fn full() -> Option<u64> {
    claude_client::program().map(|_| window() / 4 * 3)
}

fn only_one_thing_more() -> Reply {
    Reply::of(vec![
        json!({ "type": "text", "text": "Only this one thing more." }),
        tool_use("Bash", json!({ "command": "git status" })),
    ])
}

/// Whether the note stands in the task file, which is written beside the run.
fn note_comes(ask: &Ask) -> bool {
    let file = Path::new(&ask.worktree()).join("../../../../.gsd/specs/x/tasks/A-1.md");
    let is_there = || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.contains("## Checkpoint Note") && text.contains("The half is written")
    };
    (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        is_there()
    })
}

#[test]
fn an_agent_past_the_threshold_writes_a_note_for_the_next_agent() {
    let Some(full) = full() else { return };
    let api = Api::start(move |ask| match (ask.attempt().as_str(), ask.turn()) {
        ("1", 0) => ask.write("a.txt", "half\n"),
        ("1", _) if ask.text().contains(STOP) => Reply::says("The half is written, the id is not."),
        ("1", _) => bash("git status").reading(full),
        (_, 0) if !note_comes(ask) => Reply::says("BLOCKED: the task file has no note"),
        (_, 0) => bash("cat a.txt"),
        (_, 1) => bash("git diff"),
        (_, 2) => ask.write("a.txt", "half\nA-1\n"),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
    bench.run(&["run"]).code(0).says("A-1 stopped at a checkpoint");
    assert_eq!(bench.repo.tree("main")["a.txt"], "half\nA-1");
    assert_eq!(bench.events("A-1", &["asked_to_stop"]), ["the context is 75 % full"]);
    let second: Vec<_> = bench.api.asked().into_iter().filter(|ask| ask.attempt() == "2").collect();
    assert!(second[0].text().contains("The half is written, the id is not."), "{}", second[0].text());
    assert!(second[1].text().contains("half"), "the work lies in the worktree");
    assert!(!bench.repo.read(".gsd/specs/x/tasks/A-1.md").contains("Checkpoint Note"));
    let attempts = bench.repo.task("A-1")["attempts"].clone();
    assert_eq!((&attempts[0]["outcome"], &attempts[1]["outcome"]), (&"checkpoint".into(), &"done".into()));
}

#[test]
fn one_that_will_not_stop_is_stopped() {
    let Some(full) = full() else { return };
    let api = Api::start(move |ask| match (ask.attempt().as_str(), ask.turn()) {
        ("1", 0) => ask.write("a.txt", "half\n"),
        ("1", _) => only_one_thing_more().reading(full),
        (_, 0) => ask.write("a.txt", "A-1\n"),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
    bench.run(&["run"]).code(0).says("A-1 stopped at a checkpoint");
    let first = bench.api.asked().into_iter().filter(|ask| ask.attempt() == "1").count();
    assert!(first < 15, "{first} requests");
    let second = bench.api.asked().into_iter().find(|ask| ask.attempt() == "2").unwrap();
    assert!(second.text().contains("Only this one thing more."), "{}", second.text());
}

#[test]
fn one_that_was_finished_anyway_is_taken_at_its_word_and_verified() {
    let Some(full) = full() else { return };
    let api = Api::start(move |ask| match ask.turn() {
        0 => ask.write("a.txt", "A-1\n").reading(full),
        _ => Reply::says("FINISHED"),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
    bench.run(&["run"]).code(0).does_not_say("checkpoint");
    assert_eq!(bench.repo.task("A-1")["attempt"], 1);
}

#[test]
fn the_window_is_what_the_client_says() {
    let api = Api::start(|ask| match (ask.attempt().as_str(), ask.turn()) {
        ("1", 0) => ask.write("a.txt", "A-1\n").reading(150_000),
        ("1", 1..6) if !ask.text().contains(STOP) => bash("git status").reading(150_000),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
    bench.run(&["run"]).code(0);
    let asked_to_stop = bench.events("A-1", &["asked_to_stop"]);
    if window() == 200_000 {
        assert_eq!(asked_to_stop, ["the context is 75 % full"]);
    } else {
        assert_eq!((asked_to_stop.len(), &bench.repo.task("A-1")["attempt"]), (0, &json!(1)));
    }
}

#[test]
fn a_request_that_overflows_after_the_request_to_stop_is_a_checkpoint() {
    for status in [400, 413] {
        let Some(full) = full() else { return };
        let api = Api::start(move |ask| match (ask.attempt().as_str(), ask.turn()) {
            // The client tries to sum up before it gives up; there is no room for that either.
            ("1", _) if ask.text().contains(STOP) => too_long(status),
            ("1", 0) => ask.write("a.txt", "half\n"),
            ("1", _) => only_one_thing_more().reading(full),
            ("", _) => too_long(status),
            (_, 0) => bash("cat a.txt"),
            (_, 1) => ask.write("a.txt", "half\nA-1\n"),
            _ => Reply::says("Done."),
        });
        let Some(bench) = Bench::new(api, "") else { return };
        bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
        bench.run(&["run"]).code(0);
        let attempts = bench.repo.task("A-1")["attempts"].clone();
        assert_eq!((&attempts[0]["outcome"], &attempts[1]["outcome"]), (&"checkpoint".into(), &"done".into()));
        let second = bench.api.asked().into_iter().find(|ask| ask.attempt() == "2").unwrap();
        assert!(second.text().contains("overflowed") && second.text().contains("Only this one thing more."));
    }
}

fn too_long(status: u16) -> Reply {
    let kind = if status == 400 { "invalid_request_error" } else { "request_too_large" };
    Reply::Error { status, kind, message: "prompt is too long: 2000000 tokens > 1000000 maximum", headers: Vec::new() }
}
