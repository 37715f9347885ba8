//! What one event costs, from the decision to the disk, with few tasks and with many: it must not grow with the graph.

use std::time::{Duration, Instant};

use mahabharatha::store::journal::Journal;
use mahabharatha::store::locks::FeatureLock;
use mahabharatha_core::ids::{Attempt, Feature, Oid, TaskId, Time, WorkerId};
use mahabharatha_core::run::event::{Backoff, BackoffStrategy, Event, JobEnd, JobReport, Policy, Setup};
use mahabharatha_core::run::{Effect, Run};
use mahabharatha_core::spec::GraphFile;

const WORKERS: u32 = 5;
const EVENTS: usize = 300;

fn main() {
    // Side by side, so that a noisy machine is noisy for both.
    let mut benches = [Bench::new(100), Bench::new(10_000)];
    let mut least = [Duration::MAX; 2];
    for _ in 0..5 {
        for (bench, least) in benches.iter_mut().zip(&mut least) {
            *least = (*least).min(bench.round());
        }
    }
    let [few, many] = least.map(|time| time.as_secs_f64() * 1e6 / EVENTS as f64);
    println!("one event, 100 tasks                {few:6.0} us");
    println!("one event, 10,000 tasks             {many:6.0} us  x {:.2} (aim: 1.5)", many / few);
}
