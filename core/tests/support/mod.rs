//! Chance with a memory, and graphs made by it.

use mahabharatha_core::spec::{FileLists, GraphFile, TaskSpec, Verification};
use serde_json::Map;

/// Xorshift: the same seed, the same choices, on every machine.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds are spread, and the one state that xorshift never leaves is avoided.
        Rng(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Any number lower than `bound`; 0 where `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) % (bound.max(1) as u64)) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A graph without a problem, on a start commit that has exactly what its tasks modify.
pub fn random_graph(rng: &mut Rng, max_tasks: usize) -> GraphFile {
    let count = 1 + rng.below(max_tasks);
    let levels = random_levels(rng, count);
    let mut tasks: Vec<TaskSpec> = Vec::with_capacity(count);
    for (index, &level) in levels.iter().enumerate() {
        let lower: Vec<usize> = (0..index).filter(|&other| levels[other] < level).collect();
        let mut dependencies: Vec<String> = Vec::new();
        for _ in 0..rng.below(4).min(lower.len()) {
            let id = tasks[lower[rng.below(lower.len())]].id.clone();
            if !dependencies.contains(&id) {
                dependencies.push(id);
            }
        }
        let mut files = random_files(rng, index);
        if !lower.is_empty() && rng.chance(30) {
            let made = &tasks[lower[rng.below(lower.len())]].files;
            files.read.extend(made.create.iter().chain(&made.modify).next().cloned());
        }
        tasks.push(random_task(rng, index, level, dependencies, files));
    }
    shuffle(rng, &mut tasks);
    GraphFile {
        feature: "random".to_owned(),
        total_tasks: rng.chance(50).then_some(count as u64),
        max_parallelization: None,
        tasks: tasks.into_iter().map(Into::into).collect(),
        extra: Map::new(),
    }
}

/// Ascending, with gaps, from 0 or higher.
fn random_levels(rng: &mut Rng, count: usize) -> Vec<u32> {
    let mut level = rng.below(2) as u32;
    let climb = 5 + rng.below(40);
    let mut next = |rng: &mut Rng| {
        if rng.chance(climb) {
            level += 1 + rng.below(2) as u32;
        }
        level
    };
    (0..count).map(|_| next(rng)).collect()
}

/// Every name holds the task's number, so that no two tasks share one.
fn random_files(rng: &mut Rng, index: usize) -> FileLists {
    let mut files = FileLists::default();
    for number in 0..1 + rng.below(3) {
        let path = match rng.below(5) {
            0 => format!("top-{index}-{number}.txt"),
            1 => format!("src/deep/er/{index}-{number}.rs"),
            2 => format!("src/ünïcode {index} {number}.md"),
            3 => format!("dir-{index}/{number}/"),
            _ => format!("./lib//{index}/{number}/**"),
        };
        let list = if rng.chance(50) { &mut files.create } else { &mut files.modify };
        list.push(path);
    }
    files
}

fn random_task(rng: &mut Rng, index: usize, level: u32, dependencies: Vec<String>, files: FileLists) -> TaskSpec {
    TaskSpec {
        id: format!("T-{index:03}"),
        title: format!("Task {index}"),
        level,
        files,
        dependencies,
        verification: Verification { command: "true".to_owned(), ..Verification::default() },
        description: None,
        context: None,
        action: None,
        done: None,
        interface: None,
        security: None,
        acceptance_criteria: Vec::new(),
        estimate_minutes: rng.chance(70).then(|| rng.below(600) as f64 / 10.0),
        estimate_tokens: None,
        agent: None,
        model: None,
        effort: None,
        fallback_model: None,
        foreground: false,
        follow_up: None,
        run: None,
        extra: Map::new(),
    }
}

fn shuffle<T>(rng: &mut Rng, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last + 1));
    }
}
