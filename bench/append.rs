//! What one event costs, from the decision to the disk and to the files made from it, with few tasks and with many.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mahabharatha_core::config::{Config, Isolation};
use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Feature, Oid, Time};
use mahabharatha_core::run::event::{Event, JobEnd, JobReport, Setup};
use mahabharatha_core::run::{Effect, EffectId, Run};
use mahabharatha_core::spec::GraphFile;
use mahabharatha_engine::report::{Display, Opening, Reporter};
use mahabharatha_sys::project::Project;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::{Color, Flags, Ui};

const ROUNDS: usize = 5;
const EVENTS_A_ROUND: usize = 18;

/// A run whose jobs are done as fast as they are asked for.
struct Bench {
    run: Run,
    journal: Journal,
    reporter: Arc<Reporter>,
    waiting: Vec<Event>,
    now: Time,
    _lock: FeatureLock,
    _dir: tempfile::TempDir,
}

impl Bench {
    fn new(tasks: usize) -> Bench {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let git = |args: &[&str]| {
            let done = std::process::Command::new("git").args(args).current_dir(dir.path()).status();
            assert!(done.is_ok_and(|status| status.success()), "git {args:?}");
        };
        git(&["init", "-q", "-b", "main"]);
        git(&["-c", "user.name=b", "-c", "user.email=b@b", "commit", "-q", "--allow-empty", "-m", "base"]);
        let project = Project::find(dir.path()).expect("a project");
        let feature = Feature::new("bench").expect("a name");
        let paths = project.feature(&feature);
        let lock = FeatureLock::wait(paths.dir(), &paths.holder_file()).expect("the lock");
        let (mut journal, _) = Journal::open_for_append(&lock, &feature).expect("a journal");
        let now = Time(1_700_000_000_000);
        let setup = setup(feature, tasks);
        journal.append(now, &Event::Started(Box::new(setup.clone()))).expect("an append");
        let run = Run::start(now, &setup).expect("a run");
        let waiting = run.outstanding().flat_map(|(id, effect)| answer(id, effect)).collect();
        let ui = Ui::new(Flags { json: false, quiet: true, verbose: false, yes: false, color: Color::Never });
        let reporter =
            Arc::new(Reporter::start(&project, &paths, &run, Display::start(&Arc::new(ui), false), Opening::default()));
        Bench { run, journal, reporter, waiting, now, _lock: lock, _dir: dir }
    }

    /// The mean time of an event.
    fn round(&mut self) -> Duration {
        let begin = Instant::now();
        for _ in 0..EVENTS_A_ROUND {
            let event = self.waiting.remove(0);
            self.now = self.now + Duration::from_millis(100);
            self.journal.append(self.now, &event).expect("an append");
            self.reporter.recorded(self.now, &event);
            for (id, effect) in self.run.step(self.now, &event) {
                self.waiting.extend(answer(id, &effect));
            }
        }
        begin.elapsed() / EVENTS_A_ROUND as u32
    }
}

fn setup(feature: Feature, tasks: usize) -> Setup {
    let tasks: Vec<String> = (0..tasks)
        .map(|n| format!(r#"{{"id":"T{n}","title":"Task {n}","level":1,"files":{{"create":["src/{n}.txt"]}},"verification":{{"command":"true"}}}}"#))
        .collect();
    let graph = GraphFile::parse(&format!(r#"{{"feature":"bench","tasks":[{}]}}"#, tasks.join(","))).expect("a graph");
    let policy = Config::default().policy(Isolation::Off, Some(5), false, None);
    let start = Oid::new("0".repeat(40)).expect("an object name");
    Setup {
        feature,
        graph,
        base_branch: "refs/heads/main".into(),
        start,
        git_config: vec![],
        policy,
        planning: Cost::default(),
    }
}

fn answer(id: EffectId, effect: &Effect) -> Vec<Event> {
    match effect {
        Effect::PrepareSlot { worker } => vec![Event::SlotReady { effect: id, worker: *worker }],
        Effect::RunJob(job) => {
            let end = JobEnd::Done { commit: job.base.clone() };
            let report = JobReport::new(end, 100);
            let (task, attempt) = (job.task.clone(), job.attempt);
            vec![
                Event::JobStarted { effect: id, task: task.clone(), attempt, pid: 1 },
                Event::JobEnded { effect: id, task, attempt, report },
            ]
        }
        _ => vec![],
    }
}

fn main() {
    // Side by side, so that a noisy machine is noisy for both.
    let mut benches = [Bench::new(100), Bench::new(10_000)];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (bench, times) in benches.iter_mut().zip(&mut times) {
            times.push(bench.round());
            // Longer than the pause between two projections, so that each round pays for its own.
            std::thread::sleep(Duration::from_millis(300));
        }
    }
    let [few, many] = times.map(|mut times| {
        times.sort();
        times[ROUNDS / 2].as_secs_f64() * 1e6
    });
    println!("{:<34} {few:6.0} us", "one event, 100 tasks");
    println!("{:<34} {many:6.0} us  x {:.2} (aim: 1.5)", "one event, 10,000 tasks", many / few);
    for bench in &benches {
        bench.reporter.finish();
    }
}
