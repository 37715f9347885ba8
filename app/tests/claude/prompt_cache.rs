//! One worker fills the service's prompt cache before the others send the same prefix.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::client::{Bench, task};
use crate::messages_api::{Api, Ask, Reply};

const TASKS: [&str; 3] = ["A-1", "A-2", "A-3"];

fn works(ask: &Ask) -> Reply {
    match ask.turn() {
        0 => ask.write(&format!("{}.txt", ask.task()), &ask.task()),
        _ => Reply::says("Done."),
    }
}

/// The main checkout of the worker that asks.
fn root(ask: &Ask) -> PathBuf {
    Path::new(&ask.worktree()).join("../../../..")
}

/// Waits until the workers of all other tasks say that they wait; `false` if they do not.
fn others_wait(ask: &Ask) -> bool {
    let logs = root(ask).join(".mahabharatha/logs/x/tasks");
    let waits = |task: &&str| {
        let log = fs::read_to_string(logs.join(format!("{task}.jsonl"))).unwrap_or_default();
        log.contains("waiting for the worker that fills it")
    };
    let own = ask.task();
    (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        TASKS.iter().filter(|task| **task != own).all(&waits)
    })
}

fn bench(api: Api) -> Option<Bench> {
    let bench = Bench::new(api, "workers: { count: 3 }\n")?;
    bench.repo.graph("x", &TASKS.map(|id| task(id, 1, &format!("{id}.txt"))));
    Some(bench)
}

#[test]
fn the_others_ask_after_the_first_answer() {
    let (early, waited) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (begun, answered) = (AtomicBool::new(false), AtomicBool::new(false));
    let (too_early, all_waited) = (Arc::clone(&early), Arc::clone(&waited));
    let api = Api::start(move |ask| {
        if !begun.swap(true, Ordering::SeqCst) {
            all_waited.store(others_wait(ask), Ordering::SeqCst);
            answered.store(true, Ordering::SeqCst);
        } else if !answered.load(Ordering::SeqCst) {
            too_early.fetch_add(1, Ordering::SeqCst);
        }
        works(ask)
    });
    let Some(bench) = bench(api) else { return };
    bench.run(&["run"]).code(0);
    assert!(waited.load(Ordering::SeqCst), "the others do not wait");
    assert_eq!(early.load(Ordering::SeqCst), 0, "requests before the first answer");
}

#[test]
fn a_first_worker_that_dies_does_not_hold_up_the_others() {
    let begun = AtomicBool::new(false);
    let api = Api::start(move |ask| {
        if begun.swap(true, Ordering::SeqCst) {
            return works(ask);
        }
        assert!(others_wait(ask), "the others do not wait");
        let worker = root(ask).join(format!(".git/mahabharatha/x/jobs/{}.1/worker.json", ask.task()));
        let worker: Value = serde_json::from_slice(&fs::read(worker).unwrap()).unwrap();
        let killed = Command::new("kill").args(["-9", &worker["pid"].to_string()]).status();
        assert!(killed.unwrap().success());
        Reply::Dropped
    });
    let Some(bench) = bench(api) else { return };
    bench.run(&["run"]).code(0);
    let attempts: u64 = TASKS.iter().map(|id| bench.repo.task(id)["attempt"].as_u64().unwrap()).sum();
    assert_eq!(attempts, 4, "one was killed");
    let events: Vec<String> = TASKS.iter().flat_map(|id| bench.events(id, &["prompt_cache"])).collect();
    assert!(events.iter().any(|event| event == "filled by this worker now"), "{events:?}");
}

#[test]
fn a_worker_that_waits_can_be_stopped() {
    let begun = AtomicBool::new(false);
    let api = Api::start(move |ask| {
        if !begun.swap(true, Ordering::SeqCst) {
            others_wait(ask);
            fs::write(root(ask).join("all-wait"), "").unwrap();
            // No answer comes before the client is gone.
            loop {
                std::thread::park();
            }
        }
        works(ask)
    });
    let Some(bench) = bench(api) else { return };
    let run = bench.spawn(&["run"]);
    bench.repo.wait_for("all-wait");
    bench.run(&["stop", "--grace", "1"]).code(0);
    run.wait().code(130);
    let events: Vec<String> = TASKS.iter().flat_map(|id| bench.events(id, &["prompt_cache"])).collect();
    assert_eq!(events.iter().filter(|event| *event == "called off").count(), 2, "{events:?}");
}
