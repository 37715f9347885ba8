//! Random graphs and policies.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use mahabharatha_core::config::Isolation;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::run::event::{Accepted, Amend, Backoff, BackoffStrategy, CleanGates, Policy, Schedule};
use mahabharatha_core::run::{Roster, Successor};
use mahabharatha_core::spec::{GraphFile, TaskSpec};

use crate::rng::Rng;

/// Draws a graph with at most `most` tasks.
pub fn graph(rng: &mut Rng, most: u64) -> GraphFile {
    let count = match rng.between(0, 19) {
        0 | 1 => 1,
        2 if most > 25 => rng.between(26, most),
        _ => rng.between(2, most.min(25)),
    };
    let levels = level_numbers(rng, count.min(5));
    let mut tasks: Vec<TaskSpec> = Vec::new();
    for number in 0..count {
        // Every level gets a task before any gets a second one.
        let level = levels.get(number as usize).copied().unwrap_or_else(|| levels[rng.index(levels.len())]);
        tasks.push(task(rng, &format!("T-{number:02}"), level));
    }
    for index in 0..tasks.len() {
        depend(rng, &mut tasks, index);
    }
    if rng.chance(30) {
        share(rng, &mut tasks);
    }
    GraphFile {
        feature: "sim".to_string(),
        total_tasks: None,
        max_parallelization: None,
        tasks: tasks.into_iter().map(Into::into).collect(),
        extra: Default::default(),
    }
}

/// Draws ascending level numbers, from any number, with or without gaps.
fn level_numbers(rng: &mut Rng, most: u64) -> Vec<u32> {
    let mut next = rng.between(0, 2) as u32;
    let mut levels = Vec::new();
    for _ in 0..rng.between(1, most) {
        levels.push(next);
        next += rng.one_of([1, 1, 1, 2, 10]);
    }
    levels
}

pub fn task(rng: &mut Rng, id: &str, level: u32) -> TaskSpec {
    static TEMPLATE: OnceLock<TaskSpec> = OnceLock::new();
    let template = TEMPLATE.get_or_init(|| {
        let text = r#"{"id":"T","title":"A task","level":0,"verification":{"command":"true"}}"#;
        serde_json::from_str(text).expect("a task with the least that it needs")
    });
    let mut task = template.clone();
    task.id = id.to_string();
    task.level = level;
    task.files.create = vec![format!("src/{id}.rs")];
    task.estimate_minutes = rng.chance(70).then(|| rng.between(1, 30) as f64);
    task.foreground = rng.chance(4);
    task
}

/// Makes a task depend on some tasks of lower levels.
fn depend(rng: &mut Rng, tasks: &mut [TaskSpec], index: usize) {
    let level = tasks[index].level;
    let lower: Vec<String> = tasks.iter().filter(|task| task.level < level).map(|task| task.id.clone()).collect();
    for _ in 0..rng.between(0, 3) {
        if let Some(id) = rng.pick(&lower)
            && !tasks[index].dependencies.contains(id)
        {
            tasks[index].dependencies.push(id.clone());
        }
    }
}

/// Lets tasks also own a file of a task that they depend on, each after the one before.
fn share(rng: &mut Rng, tasks: &mut [TaskSpec]) {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|index| tasks[*index].level);
    for first in 0..tasks.len() {
        let file = tasks[first].files.create[0].clone();
        let mut last = tasks[first].id.clone();
        for &index in &order {
            if tasks[index].dependencies.contains(&last) && rng.chance(40) {
                tasks[index].files.modify.push(file.clone());
                last = tasks[index].id.clone();
            }
        }
    }
}

/// Draws the cost of more planning: mostly none, sometimes unknown.
pub fn planning(rng: &mut Rng) -> Cost {
    match rng.between(0, 9) {
        0 => Cost::of(None, rng.between(0, 999)),
        1..=3 => Cost::of(Some(rng.between(0, 300) as f64 / 100.0), rng.between(0, 999)),
        _ => Cost::default(),
    }
}

/// Draws no roster, or up to four agents that take over from one another.
fn roster(rng: &mut Rng) -> Roster {
    let names = ["small", "middle", "large", "huge"];
    let count = rng.one_of([0, 0, 1, 2, 3, 4]);
    let next = names[..count].windows(2).map(|pair| {
        let after = rng.between(1, 2) as u32;
        (pair[0].to_string(), Successor { agent: pair[1].to_string(), after })
    });
    let next = next.collect();
    Roster { default: names[..count].first().copied().unwrap_or_default().to_string(), tasks: BTreeMap::new(), next }
}

pub fn policy(rng: &mut Rng) -> Policy {
    Policy {
        isolation: Isolation::Off,
        amend: rng.one_of([Amend::Ask, Amend::Auto]),
        workers: rng.between(1, 8) as u32,
        max_attempts: rng.between(1, 4) as u32,
        backoff: Backoff {
            strategy: rng.one_of([BackoffStrategy::Exponential, BackoffStrategy::Linear, BackoffStrategy::Fixed]),
            base_ms: rng.one_of([0, 10, 1_000, 5_000]),
            max_ms: rng.one_of([0, 1_000, 60_000]),
        },
        remediation_attempts: rng.between(0, 3) as u32,
        has_gates: rng.chance(70),
        allow_red_base: rng.chance(20),
        onto_staging: false,
        clean_gates: rng.one_of([CleanGates::Last, CleanGates::Last, CleanGates::Every, CleanGates::Never]),
        waits_for_limits: rng.chance(70),
        accepted: Accepted::default(),
        approval: rng.chance(20),
        schedule: rng.one_of([Schedule::Levels, Schedule::Dependencies]),
        roster: roster(rng),
        max_usd: rng.chance(15).then(|| rng.between(0, 20) as f64),
        max_usd_per_task: rng.chance(15).then(|| rng.between(1, 4) as f64 / 2.0),
    }
}
