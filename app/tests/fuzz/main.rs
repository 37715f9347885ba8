//! Everything that reads what others wrote, on malformed input: mutations of a saved corpus, arbitrary bytes, and
//! inputs that are made to be deep, long or many. Nothing may panic, hang or take memory without bound.
//!
//! `FUZZ_SECONDS` says how long for each reader; `app/tests/fuzz.sh SECONDS` runs them all and tells the counts.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod extreme;
mod mutate;
mod readers;

use std::io::Write;
use std::time::{Duration, Instant};

use proptest::test_runner::{Config, FileFailurePersistence, RngAlgorithm, TestRng, TestRunner};

use readers::Reader;

/// No input of a few kilobytes takes so long, however slow the machine.
const TOO_LONG: Duration = Duration::from_secs(20);
const CASES_AT_ONCE: u32 = 128;

fn seconds() -> u64 {
    std::env::var("FUZZ_SECONDS").ok().map_or(8, |text| text.parse().expect("FUZZ_SECONDS is a number"))
}

/// Reads for so many seconds, each time something else; the same in the same order if `FUZZ_SEED` is the same.
fn fuzz(reader: &dyn Reader) {
    let corpus = mutate::corpus(reader.name());
    for input in &corpus {
        reader.read(input);
    }
    let strategy = mutate::inputs(corpus, reader.words());
    let seed: u64 = std::env::var("FUZZ_SEED").ok().map_or(0, |text| text.parse().expect("FUZZ_SEED is a number"));
    let until = Instant::now() + Duration::from_secs(seconds());
    let (mut cases, mut round) = (0, 0_u64);
    while Instant::now() < until {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&round.to_le_bytes());
        let config = Config {
            cases: CASES_AT_ONCE,
            max_shrink_iters: 2_000,
            failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
            ..Config::default()
        };
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
        let outcome = runner.run(&strategy, |input| {
            let began = Instant::now();
            reader.read(&input);
            assert!(began.elapsed() < TOO_LONG, "it took {:?}", began.elapsed());
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{} with FUZZ_SEED={seed}, round {round}; put the input into its corpus: {error}", reader.name());
        }
        cases += CASES_AT_ONCE;
        round += 1;
    }
    tell(&format!("{}: {cases} inputs in {} s", reader.name(), seconds()));
}

/// Not through `println`, which a test that passes keeps to itself.
fn tell(text: &str) {
    let _ = writeln!(std::io::stdout(), "fuzz: {text}");
}

macro_rules! fuzz_tests {
    ($($name:ident: $reader:expr;)*) => {
        $(#[test] fn $name() { fuzz(&$reader); })*

        /// Of every reader.
        fn all() -> Vec<Box<dyn Reader>> {
            vec![$(Box::new($reader)),*]
        }
    };
}

fuzz_tests! {
    task_graph: readers::Graph;
    task_file: readers::TaskFile;
    configuration: readers::Configuration;
    journal: readers::JournalFile::new();
    lock_file: readers::LockFile::new();
    requirements: readers::Requirements;
    state_md: readers::StateMd;
    worktreeinclude: readers::WorktreeInclude::new();
    agent_stream: readers::AgentStream;
    result: readers::ResultFile::new();
    logs: readers::LogFiles::new();
}

const AGAIN: &str = "FUZZ_WITH_LITTLE_MEMORY";

/// Deep, long and many, in a process that may not take more than a gigabyte and a half.
#[test]
fn extremes_take_neither_memory_nor_time_without_bound() {
    if std::env::var_os(AGAIN).is_none() {
        let output = std::process::Command::new("sh")
            .args(["-c", r#"ulimit -v 1500000; exec "$0" "$@""#])
            .arg(std::env::current_exe().unwrap())
            .args(["extremes_take", "--nocapture", "--test-threads=1"])
            .env(AGAIN, "1")
            .output()
            .unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{text}");
        text.lines().filter_map(|line| line.strip_prefix("fuzz: ")).for_each(tell);
        return;
    }
    let mut count = 0;
    for reader in all() {
        for (name, input) in extreme::inputs(reader.name()) {
            let began = Instant::now();
            reader.read(&input);
            let took = began.elapsed();
            // What grows with the square of its input would take hours.
            let reader = reader.name();
            assert!(took < TOO_LONG, "{reader} took {took:?} for {name} of {} bytes", input.len());
            if took > Duration::from_secs(1) {
                tell(&format!("{reader} took {took:.1?} for {name} of {} bytes", input.len()));
            }
            count += 1;
        }
    }
    tell(&format!("{count} extreme inputs of up to {} bytes", extreme::LONG));
}
