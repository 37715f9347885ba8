//! The run against a simulated world: thousands of random graphs, each with its own faults, through the same `drive`
//! that the real host uses. `SIM_SCHEDULES` says how many, `SIM_SEED` repeats a single one.
#![expect(clippy::disallowed_methods, reason = "a test may be told what to do, and tells what it did")]

mod books;
mod coverage;
mod faults;
mod graphs;
mod invariants;
mod judge;
mod ledger;
mod person;
mod replan;
mod repo;
mod rng;
mod schedule;
mod totality;
mod trunk;
mod workers;
mod world;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use mahabharatha_core::ids::Time;
use mahabharatha_core::run::event::Event;
use mahabharatha_core::run::replay;

use crate::schedule::{Schedule, Tally};

/// Every so many schedules one is run twice, and its journal written and read.
const REPEAT_EVERY: u64 = 50;

#[test]
fn every_schedule_keeps_the_promises() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let (first, count) = match number("SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("SIM_SCHEDULES").unwrap_or(100_000)),
    };
    let next = AtomicU64::new(first);
    let failed = Mutex::new(None);
    let sum = Mutex::new(Tally::default());
    let work = || {
        while let seed = next.fetch_add(1, Ordering::Relaxed)
            && seed < first + count
            && failed.lock().expect("no panic holds it").is_none()
        {
            match run(seed) {
                Ok(tally) => {
                    let mut sum = sum.lock().expect("no panic holds it");
                    sum.features += tally.features;
                    sum.steps += tally.steps;
                    sum.processes += tally.processes;
                    sum.coverage.add(&tally.coverage);
                }
                Err(tail) => *failed.lock().expect("no panic holds it") = Some((seed, tail)),
            }
        }
    };
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            threads.spawn(work);
        }
    });
    if let Some((seed, tail)) = failed.into_inner().expect("no panic holds it") {
        panic!("schedule {seed} failed as told above; repeat it with SIM_SEED={seed}. It ended so:\n{tail}");
    }
    let sum = sum.into_inner().expect("no panic holds it");
    tell(&format!(
        "{count} schedules, {} features, {} steps, {} processes\n\nHow often each event came in each state:\n{}\n\nNever:\n{}\nHow often an \
         attempt ended in each way:\n{}",
        sum.features,
        sum.steps,
        sum.processes,
        sum.coverage.table(),
        sum.coverage.never(),
        sum.coverage.ends()
    ));
    if count >= 5_000 {
        assert_eq!(sum.coverage.missing(), [], "important pairs never came");
    }
}

/// Not through `println`, which a test that passes keeps to itself.
fn tell(text: &str) {
    let _ = writeln!(std::io::stdout(), "\n{text}");
}

/// Runs one schedule; `Err` tells how it ended where a promise was broken.
fn run(seed: u64) -> Result<Tally, String> {
    let schedule = Schedule::new(seed);
    let tally = catch_unwind(AssertUnwindSafe(|| {
        let tally = schedule.run();
        if seed.is_multiple_of(REPEAT_EVERY) {
            let journals = schedule.journals();
            repeats(seed, &journals);
            journals.iter().for_each(|journal| survives_writing(journal));
        }
        tally
    }));
    tally.map_err(|_| schedule.tail())
}

/// The same seed gives the same trace.
fn repeats(seed: u64, journals: &[Vec<(Time, Event)>]) {
    let again = Schedule::new(seed);
    again.run();
    assert!(again.journals() == journals, "the same seed took another course");
}

/// What is written into the journal comes back as it was.
fn survives_writing(journal: &[(Time, Event)]) {
    let read: Vec<(Time, Event)> = journal
        .iter()
        .map(|(now, event)| {
            let line = serde_json::to_string(event).expect("an event can be written");
            (*now, serde_json::from_str(&line).expect("an event can be read"))
        })
        .collect();
    assert!(read == journal, "an event is not what it was written as");
    let of = |records: &[(Time, Event)]| replay(records.iter().map(|(now, event)| (*now, event)));
    assert!(of(&read) == of(journal), "the journal that was read adds up to another run");
}
