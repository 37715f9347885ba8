//! Simulates runs of random graphs with random faults, through the same loop that the real host uses.
//! `SIM_SCHEDULES` sets their number, `SIM_SEED` repeats a single one.
#![expect(clippy::disallowed_methods, reason = "a test may be told what to do, and tells what it did")]

mod checker;
mod coverage;
mod faults;
mod graphs;
mod invariants;
mod model;
mod ownership;
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

/// Interval of schedules that are run twice and whose journal is written and read.
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
        panic!("schedule {seed} failed, see above; repeat it with SIM_SEED={seed}. The end of its journal:\n{tail}");
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

/// Prints without `println`, which a passing test captures.
fn tell(text: &str) {
    let _ = writeln!(std::io::stdout(), "\n{text}");
}

/// Runs one schedule; the error is the end of its journal if a check failed.
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

/// Checks that the same seed gives the same journal.
fn repeats(seed: u64, journals: &[Vec<(Time, Event)>]) {
    let again = Schedule::new(seed);
    again.run();
    assert!(again.journals() == journals, "the same seed took another course");
}

/// Checks that the journal survives writing and reading.
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
