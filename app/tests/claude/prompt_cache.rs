//! One worker fills the service's prompt cache before the others send the same prefix.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

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

/// A request that is answered when the test says so.
struct Held {
    /// Gets the first request.
    first: Receiver<Ask>,
    answer: Sender<()>,
}

/// A service that holds back its answer to the first request, and then replies to it as given.
fn holding_first(reply: fn(&Ask) -> Reply) -> (Api, Held, Arc<AtomicUsize>) {
    let (tell, first) = mpsc::channel();
    let (answer, told) = mpsc::channel();
    let pending = Mutex::new(Some((tell, told)));
    let (answered, early) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
    let too_early = Arc::clone(&early);
    let api = Api::start(move |ask| {
        let Some((tell, told)) = pending.lock().unwrap().take() else {
            if !answered.load(Ordering::SeqCst) {
                too_early.fetch_add(1, Ordering::SeqCst);
            }
            return works(ask);
        };
        tell.send(ask.clone()).unwrap();
        // An error where the test is over.
        let _ = told.recv();
        answered.store(true, Ordering::SeqCst);
        reply(ask)
    });
    (api, Held { first, answer }, early)
}

impl Held {
    /// Waits until the workers of all tasks but the one that asked first say that they wait; returns that one's request.
    fn others_wait(&self, bench: &Bench) -> Ask {
        let first = self.first.recv().unwrap();
        let waits = |task: &str| {
            let log = fs::read_to_string(bench.repo.join(&format!(".mahabharatha/logs/x/tasks/{task}.jsonl")));
            log.unwrap_or_default().contains("waiting for the worker that fills it")
        };
        let others = || TASKS.iter().filter(|task| **task != first.task());
        bench.repo.wait_until("the other workers wait", || others().all(|task| waits(task)));
        first
    }
}

/// What became of the waiting, by event.
fn count(bench: &Bench, event: &str) -> usize {
    let events = TASKS.iter().flat_map(|id| bench.events(id, &["prompt_cache"]));
    events.filter(|found| found == event).count()
}

/// On a machine that is too busy the other workers give up before the test goes on.
const GAVE_UP: &str = "waited long enough";

fn bench(api: Api) -> Option<Bench> {
    let bench = Bench::new(api, "workers: { count: 3 }\n")?;
    bench.repo.graph("x", &TASKS.map(|id| task(id, 1, &format!("{id}.txt"))));
    Some(bench)
}

#[test]
fn the_others_ask_after_the_first_answer() {
    let (api, held, early) = holding_first(works);
    let Some(bench) = bench(api) else { return };
    let run = bench.spawn(&["run"]);
    held.others_wait(&bench);
    held.answer.send(()).unwrap();
    run.wait().code(0);
    assert!(early.load(Ordering::SeqCst) <= count(&bench, GAVE_UP), "requests before the first answer");
}

#[test]
fn a_first_worker_that_dies_does_not_hold_up_the_others() {
    let (api, held, _) = holding_first(|_| Reply::Dropped);
    let Some(bench) = bench(api) else { return };
    let run = bench.spawn(&["run"]);
    let first = held.others_wait(&bench);
    let worker = bench.repo.read(&format!(".git/mahabharatha/x/jobs/{}.1/worker.json", first.task()));
    let worker: Value = serde_json::from_str(&worker).unwrap();
    assert!(Command::new("kill").args(["-9", &worker["pid"].to_string()]).status().unwrap().success());
    held.answer.send(()).unwrap();
    run.wait().code(0);
    let attempts: u64 = TASKS.iter().map(|id| bench.repo.task(id)["attempt"].as_u64().unwrap()).sum();
    assert_eq!(attempts, 4, "one was killed");
    assert!(count(&bench, "filled by this worker now") + count(&bench, GAVE_UP) > 0);
}

#[test]
fn a_worker_that_waits_can_be_stopped() {
    let (api, held, _) = holding_first(|_| Reply::Dropped);
    let Some(bench) = bench(api) else { return };
    let run = bench.spawn(&["run"]);
    // No answer comes before the client is gone.
    held.others_wait(&bench);
    bench.run(&["stop", "--grace", "1"]).code(0);
    run.wait().code(130);
    assert_eq!(count(&bench, "cancelled") + count(&bench, GAVE_UP), 2);
}
