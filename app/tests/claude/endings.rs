//! How attempts end that do not simply succeed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::client::{Bench, task};
use crate::messages_api::{Api, Reply, bash};

#[test]
fn the_next_attempt_is_given_the_output_of_a_failed_verification() {
    let api = Api::start(|ask| match (ask.attempt().as_str(), ask.turn()) {
        ("1", 0) => ask.write("a.txt", "wrong\n"),
        (_, 0) => ask.write("a.txt", "A-1\n"),
        _ => Reply::says("All done and verified!"),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
    bench.run(&["run"]).code(0).says("A-1 failed its verification (attempt 1 of 3)");
    assert_eq!(bench.repo.tree("main")["a.txt"], "A-1");
    let second = bench.api.asked().into_iter().find(|ask| ask.attempt() == "2").unwrap();
    assert!(second.text().contains("The Previous Attempt Failed"), "{}", second.text());
}

#[test]
fn an_agent_that_goes_round_in_circles_is_ended_after_its_turns() {
    let api = Api::start(|ask| match (ask.attempt().as_str(), ask.turn()) {
        ("1", _) => Reply::uses("Read", json!({ "file_path": ask.file("nowhere.txt") })),
        (_, 0) => ask.write("a.txt", "A-1\n"),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
    bench.run(&["run"]).code(0).says("A-1 failed: its agent ended with an error (attempt 1 of 3)");
    let second = bench.api.asked().into_iter().find(|ask| ask.attempt() == "2").unwrap();
    assert!(second.text().contains("error_max_turns"), "{}", second.text());
}

#[test]
fn a_task_that_costs_too_much_is_blocked() {
    let finished = Arc::new(AtomicBool::new(false));
    let finishes = Arc::clone(&finished);
    let api = Api::start(move |ask| match (finishes.load(Ordering::Relaxed), ask.turn()) {
        (false, _) => bash("git status").reading(100_000),
        (true, 0) => ask.write("a.txt", "A-1\n"),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::new(api, "budget: { max_usd_per_task: 0.5 }\n") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
    bench.run(&["run"]).code(3).says("the budget of this task is used up");
    let task = bench.repo.task("A-1");
    assert!(task["cost_usd"].as_f64().unwrap() >= 0.5, "{task}");
    let asked = bench.api.asked().len();
    assert!(asked <= 4, "{asked}");
    // Asked for again, it costs nothing more: its budget is of the task, not of the attempt.
    let refused = bench.run(&["retry", "A-1", "--json"]).code(9).json();
    assert!(refused["refused"][0]["why"].as_str().unwrap().contains("raise budget.max_usd_per_task"), "{refused}");
    bench.run(&["run"]).code(3);
    assert_eq!((bench.api.asked().len(), &bench.repo.task("A-1")["attempt"]), (asked, &json!(1)));
    let raised = bench.repo.read(".mahabharatha/config.yaml").replace("max_usd_per_task: 0.5", "max_usd_per_task: 50");
    bench.repo.write(".mahabharatha/config.yaml", &raised);
    bench.run(&["retry", "A-1"]).code(0);
    finished.store(true, Ordering::Relaxed);
    bench.run(&["run"]).code(0);
    assert_eq!(bench.repo.task("A-1")["attempt"], 2);
}

#[test]
fn an_agent_reports_an_impossible_task_or_asks_the_user() {
    let api = Api::start(|ask| match ask.task().as_str() {
        "A-1" => Reply::says("BLOCKED: there is no database"),
        _ => Reply::says("ESCALATE: red or blue?"),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "a.txt"), task("A-2", 1, "b.txt")]);
    bench.run(&["run"]).code(3);
    assert_eq!(bench.repo.task("A-1")["reason"], "there is no database");
    assert_eq!(bench.repo.task("A-2")["reason"], "the user must decide: red or blue?");
}

#[test]
fn later_tasks_are_given_the_decisions_of_an_agent() {
    let api = Api::start(|ask| match (ask.task().as_str(), ask.turn()) {
        (id, 0) => ask.write(&format!("{id}.txt"), id),
        ("A-1", _) => Reply::says("It is made.\nDECISION: ids are written without a line end"),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "A-1.txt"), task("B-1", 2, "B-1.txt")]);
    bench.run(&["run"]).code(0);
    assert!(bench.repo.read(".gsd/STATE.md").contains("ids are written without a line end"));
    assert!(bench.api.asked_about("B-1")[0].system().contains("ids are written without a line end"));
}
