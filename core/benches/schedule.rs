//! Drives the decider in virtual time over random graphs under both schedules and prints how long the runs take, relative to
//! the least possible: the critical path, or the work shared evenly among the workers, whichever is longer. Gates, merges
//! and the preparation of worktrees take no time here.
#![expect(clippy::disallowed_methods, reason = "a benchmark tells what it measured")]

use std::collections::BTreeMap;
use std::io::Write;

use mahabharatha_core::config::{Config, Isolation};
use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Feature, Oid, Time};
use mahabharatha_core::run::event::{Candidate, Event, JobEnd, JobReport, Policy, Schedule, Setup};
use mahabharatha_core::run::{Effect, EffectId, End, Run};
use mahabharatha_core::spec::{GraphFile, TaskSpec};

const GRAPHS_OF_EACH_SHAPE: u64 = 100;
const SIGMA: f64 = 0.8;
const MEDIAN_MINUTES: f64 = 10.0;

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws from 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    fn log_normal(&mut self) -> f64 {
        let (one, two) = (1.0 - self.unit(), self.unit());
        let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos();
        MEDIAN_MINUTES * (SIGMA * normal).exp()
    }
}

/// A graph as the tasks that each task depends on, all with lower numbers, and the true minutes of each.
struct Work {
    needs: Vec<Vec<usize>>,
    minutes: Vec<f64>,
    estimates: Vec<f64>,
}

type Shape = fn(&mut Rng, usize) -> Vec<Vec<usize>>;

const SHAPES: [(&str, Shape); 4] = [("wide", wide), ("chains", chains), ("diamonds", diamonds), ("layers", layers)];

/// A foundation of one or two tasks, and all others on top of it.
fn wide(rng: &mut Rng, count: usize) -> Vec<Vec<usize>> {
    let roots = rng.between(1, 2);
    (0..count).map(|task| if task < roots { Vec::new() } else { vec![rng.between(0, roots - 1)] }).collect()
}

/// Chains beside each other.
fn chains(rng: &mut Rng, count: usize) -> Vec<Vec<usize>> {
    let beside = rng.between(1, 6.min(count));
    (0..count).map(|task| task.checked_sub(beside).into_iter().collect()).collect()
}

/// One task, several on top of it, one that joins them, and so on.
fn diamonds(rng: &mut Rng, count: usize) -> Vec<Vec<usize>> {
    let mut needs: Vec<Vec<usize>> = vec![Vec::new()];
    while needs.len() < count {
        let (top, width) = (needs.len() - 1, rng.between(2, 8));
        needs.extend((0..width).map(|_| vec![top]));
        needs.push((top + 1..=top + width).collect());
    }
    needs
}

/// Layers in which each task depends on one to three of the layer below, and sometimes on one further down.
fn layers(rng: &mut Rng, count: usize) -> Vec<Vec<usize>> {
    let width = rng.between(2, 12);
    let mut needs: Vec<Vec<usize>> = Vec::new();
    for task in 0..count {
        let start = task / width * width;
        let mut below = Vec::new();
        if start > 0 {
            below.extend((0..rng.between(1, 3)).map(|_| rng.between(start - width, start - 1)));
            if rng.unit() < 0.2 {
                below.push(rng.between(0, start - 1));
            }
        }
        below.sort_unstable();
        below.dedup();
        needs.push(below);
    }
    needs
}

impl Work {
    fn random(rng: &mut Rng, shape: Shape) -> Work {
        let count = rng.between(5, 60);
        let needs = shape(rng, count);
        let minutes: Vec<f64> = needs.iter().map(|_| rng.log_normal()).collect();
        let estimates = minutes.iter().map(|minutes| minutes * (0.5 + rng.unit())).collect();
        Work { needs, minutes, estimates }
    }

    /// Returns the least time that this can take, in minutes.
    fn bound(&self, workers: u32) -> f64 {
        let mut ends: Vec<f64> = Vec::new();
        for (task, needs) in self.needs.iter().enumerate() {
            let start = needs.iter().map(|needed| ends[*needed]).fold(0.0, f64::max);
            ends.push(start + self.minutes[task]);
        }
        let path = ends.into_iter().fold(0.0, f64::max);
        path.max(self.minutes.iter().sum::<f64>() / f64::from(workers))
    }

    fn graph(&self) -> GraphFile {
        let mut levels: Vec<u32> = Vec::new();
        let mut tasks = Vec::new();
        for (task, needs) in self.needs.iter().enumerate() {
            levels.push(needs.iter().map(|needed| levels[*needed] + 1).max().unwrap_or(1));
            let text = format!(
                r#"{{"id":"T-{task}","title":"t","level":{},"files":{{"create":["{task}.rs"]}},
                    "verification":{{"command":"true"}}}}"#,
                levels[task]
            );
            let mut spec: TaskSpec = serde_json::from_str(&text).expect("a task with the least that it needs");
            spec.dependencies = needs.iter().map(|needed| format!("T-{needed}")).collect();
            spec.estimate_minutes = Some(self.estimates[task]);
            tasks.push(spec.into());
        }
        let feature = "bench".to_string();
        GraphFile { feature, total_tasks: None, max_parallelization: None, tasks, extra: Default::default() }
    }

    /// Returns the minutes that a run of it takes.
    fn run(&self, schedule: Schedule, workers: u32) -> f64 {
        let setup = Setup {
            feature: Feature::new("bench").expect("a good name"),
            graph: self.graph(),
            base_branch: "refs/heads/main".to_string(),
            start: oid(0),
            git_config: Vec::new(),
            policy: policy(schedule, workers),
            planning: Cost::default(),
        };
        let mut run = Run::start(Time(0), &setup).expect("a valid graph");
        let mut queue: BTreeMap<(i64, u64), Event> = BTreeMap::new();
        let begun: Vec<(EffectId, Effect)> = run.outstanding().map(|(id, effect)| (id, effect.clone())).collect();
        let mut last = 0;
        self.begin(&begun, 0, &mut queue);
        while let Some(((now, _), event)) = queue.pop_first() {
            last = now;
            let begun = run.step(Time(now), &event);
            self.begin(&begun, now, &mut queue);
        }
        assert_eq!(run.ended(), Some(&End::Completed));
        last as f64 / 60_000.0
    }

    /// Answers effects: jobs after their time, everything else at once.
    fn begin(&self, effects: &[(EffectId, Effect)], now: i64, queue: &mut BTreeMap<(i64, u64), Event>) {
        for (id, effect) in effects {
            let effect_id = *id;
            let (after, event) = match effect {
                Effect::PrepareSlot { worker } => (0, Event::SlotReady { effect: effect_id, worker: *worker }),
                Effect::RunJob(job) => {
                    let task: usize = job.task.as_str()[2..].parse().expect("the number of a task");
                    let took = (self.minutes[task] * 60_000.0) as i64;
                    let report = JobReport::new(JobEnd::Done { commit: oid(id.0 + 1) }, took as u64);
                    let (task, attempt) = (job.task.clone(), job.attempt);
                    (took, Event::JobEnded { effect: effect_id, task, attempt, report })
                }
                Effect::Stage { level, tasks, .. } => {
                    let (level, staging, commits) = (*level, oid(id.0 + 1), tasks.clone());
                    (0, Event::Staged { effect: effect_id, level, staging, commits })
                }
                Effect::Gate { level, base, staging, .. } => {
                    let candidate = Candidate { base: base.clone(), staging: staging.clone(), tree: oid(id.0 + 1) };
                    (0, Event::GatesPassed { effect: effect_id, level: *level, candidate, passed: Vec::new() })
                }
                Effect::Land { level, .. } => {
                    (0, Event::Landed { effect: effect_id, level: *level, commit: oid(id.0 + 1) })
                }
                Effect::Close => (0, Event::Closed { effect: effect_id }),
                other => panic!("{other:?} is not expected here"),
            };
            queue.insert((now + after, id.0), event);
        }
    }
}

fn policy(schedule: Schedule, workers: u32) -> Policy {
    let policy = Config::default().policy(Isolation::Off, Some(workers), false, None);
    Policy { schedule, ..policy }
}

fn oid(number: u64) -> Oid {
    Oid::new(format!("{number:040x}")).expect("a good name of an object")
}

fn main() {
    let mut out = std::io::stdout();
    let _ =
        writeln!(out, "Time of a run, relative to the least possible ({GRAPHS_OF_EACH_SHAPE} graphs of each shape)\n");
    let _ = writeln!(out, "workers  schedule      graphs     mean  95th percentile");
    for workers in [4, 8] {
        for schedule in [Schedule::Levels, Schedule::Dependencies] {
            let mut all = Vec::new();
            for (number, (name, shape)) in SHAPES.into_iter().enumerate() {
                let ratios = (0..GRAPHS_OF_EACH_SHAPE).map(|seed| {
                    let work = Work::random(&mut Rng(seed * 31 + number as u64), shape);
                    work.run(schedule, workers) / work.bound(workers)
                });
                let ratios: Vec<f64> = ratios.collect();
                let _ = writeln!(out, "{}", line(workers, schedule, name, &ratios));
                all.extend(ratios);
            }
            let _ = writeln!(out, "{}\n", line(workers, schedule, "all", &all));
        }
    }
}

fn line(workers: u32, schedule: Schedule, graphs: &str, ratios: &[f64]) -> String {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
    let percentile = sorted[(sorted.len() * 95).div_ceil(100) - 1];
    format!("{workers:7}  {:12}  {graphs:8} {mean:6.3}           {percentile:6.3}", schedule.to_string())
}
