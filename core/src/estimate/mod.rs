//! Estimates how long a graph takes and what it costs: by its own estimates, and by what earlier runs took and cost.
//!
//! Each completed task of the history is a sample: the ratio of its time to its estimate, and its cost per estimated
//! minute. The graph is scheduled `ROUNDS` times, each time with a random sample for every task; P50 and P90 are the
//! percentiles of the results.
//!
//! Called by `engine/history` and the displays of estimates. Must never present an unknown cost as zero.

mod history;
mod pool;
mod route;
mod tally;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Serialize;

pub use self::history::{Actual, By, History, LevelTime, Observed};
use self::pool::Random;
pub use self::pool::{Basis, MIN_SAMPLES, Pool};
pub use self::route::{Assigned, Route, assign, substitutes};
pub use self::tally::Tally;
use crate::config::WORKERS;
use crate::graph::{Task, TaskGraph};
use crate::ids::Level;
use crate::plan::{self, CriticalPath, by_level, longest_first, makespan};
use crate::seconds::{seconds, seconds_if_known};

/// How often the graph is scheduled with drawn times.
pub const ROUNDS: usize = 400;
/// Share of the wall time that another worker must save to be worth it.
const WORTHWHILE_GAIN: f64 = 0.05;
/// Largest number of workers that is considered: more cannot be configured.
const MAX_WORKERS: u32 = *WORKERS.end();
/// Up to this many, every number of workers has a row; beyond it, every power of two.
const ALL_ROWS: u32 = 12;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    pub workers: u32,
    /// Fewest workers beyond which each further one saves less than `WORTHWHILE_GAIN` of the wall time.
    pub best_workers: u32,
    pub levels: Vec<LevelEstimate>,
    pub total: Figures,
    pub critical_path: CriticalPath,
    pub by_workers: Vec<ByWorkers>,
    pub pools: Vec<Pool>,
    /// Number of merged levels that the time of merges and gates is drawn from.
    pub integration_samples: usize,
    /// What the attempts of each agent and model came to in earlier runs.
    pub agents: Vec<Tally>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelEstimate {
    pub level: Level,
    /// Number of tasks for workers.
    pub tasks: usize,
    /// Number of tasks that wait for a person, which are not counted.
    pub foreground: usize,
    #[serde(flatten)]
    pub figures: Figures,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Sum of the tasks' estimates.
    #[serde(rename = "work_seconds", serialize_with = "seconds")]
    pub work: Duration,
    /// Longest chain of dependencies; within a level, its longest task.
    #[serde(rename = "critical_path_seconds", serialize_with = "seconds")]
    pub critical_path: Duration,
    #[serde(flatten)]
    pub wall: Wall,
    #[serde(flatten)]
    pub cost: CostRange,
}

/// Time from start to end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Wall {
    /// By the graph's estimates alone, without merges and gates.
    #[serde(rename = "wall_seconds", serialize_with = "seconds")]
    pub plain: Duration,
    /// By the history, with merges and gates; none without a history.
    #[serde(rename = "p50_seconds", serialize_with = "seconds_if_known")]
    pub p50: Option<Duration>,
    #[serde(rename = "p90_seconds", serialize_with = "seconds_if_known")]
    pub p90: Option<Duration>,
}

/// Percentiles of the cost; none if the cost of a task is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostRange {
    pub p50_usd: Option<f64>,
    pub p90_usd: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ByWorkers {
    pub workers: u32,
    #[serde(flatten)]
    pub wall: Wall,
}

/// The tasks of a level for workers, in the order in which they are started: each with its estimate and its pool.
struct LevelTasks {
    tasks: Vec<(Duration, usize)>,
}

/// Results of all rounds for one level.
struct Drawn {
    /// For each number of workers, the wall times.
    walls: Vec<Vec<Duration>>,
    costs: Vec<Option<f64>>,
}

impl Estimate {
    /// Estimates the graph; `by` tells who does a task.
    pub fn new(graph: &TaskGraph, workers: u32, by: impl Fn(&Task) -> By, history: &History) -> Estimate {
        let workers = workers.max(1);
        let mut pools: Vec<Pool> = Vec::new();
        let mut pool_of = |task: &Task| {
            let by = by(task);
            let index = pools.iter().position(|pool| pool.by == by).unwrap_or_else(|| {
                pools.push(Pool::new(&by, history));
                pools.len() - 1
            });
            pools[index].tasks += 1;
            index
        };
        let level_tasks = |tasks: &[Task]| LevelTasks {
            tasks: longest_first(tasks).into_iter().map(|(estimate, task)| (estimate, pool_of(task))).collect(),
        };
        let levels: Vec<LevelTasks> = by_level(graph).map(level_tasks).collect();
        let best_workers = best_workers(&levels);
        let counts = counts(&levels, workers, best_workers);
        let mut random = Random::seeded(graph.feature.as_str());
        let drawn: Vec<Drawn> = levels.iter().map(|level| draw(level, &counts, &pools, history, &mut random)).collect();
        let own = counts.iter().position(|count| *count == workers).unwrap_or(0);
        let critical_path = plan::critical_path(graph);
        Estimate {
            workers,
            best_workers,
            levels: by_level(graph)
                .zip(levels.iter().zip(&drawn))
                .map(|(tasks, (level, drawn))| level_estimate(tasks, level, workers, own, drawn))
                .collect(),
            total: Figures {
                work: levels.iter().map(LevelTasks::work).sum(),
                critical_path: critical_path.length,
                wall: total_wall(&levels, &drawn, workers, own),
                cost: CostRange::of(sums(&drawn, |drawn, round| drawn.costs[round])),
            },
            critical_path,
            by_workers: counts
                .iter()
                .enumerate()
                .map(|(index, &workers)| ByWorkers { workers, wall: total_wall(&levels, &drawn, workers, index) })
                .collect(),
            integration_samples: history.integrations.len(),
            agents: history.tallies(),
            pools,
        }
    }

    /// Tells whether there is a history to draw from.
    pub fn has_history(&self) -> bool {
        self.pools.iter().any(|pool| pool.samples > 0)
    }
}

impl LevelTasks {
    fn lengths(&self) -> Vec<Duration> {
        self.tasks.iter().map(|(estimate, _)| *estimate).collect()
    }

    fn work(&self) -> Duration {
        self.tasks.iter().map(|(estimate, _)| *estimate).sum()
    }
}

fn level_estimate(tasks: &[Task], level: &LevelTasks, workers: u32, own: usize, drawn: &Drawn) -> LevelEstimate {
    let lengths = level.lengths();
    LevelEstimate {
        level: tasks.first().map_or(Level(0), |task| task.level),
        tasks: level.tasks.len(),
        foreground: tasks.len() - level.tasks.len(),
        figures: Figures {
            work: level.work(),
            critical_path: lengths.first().copied().unwrap_or_default(),
            wall: Wall::of(makespan(&lengths, workers), drawn.walls[own].clone()),
            cost: CostRange::of(drawn.costs.iter().copied().collect()),
        },
    }
}

/// Draws the time of a level for each number of workers, with the same times of tasks, and its cost.
fn draw(level: &LevelTasks, counts: &[u32], pools: &[Pool], history: &History, random: &mut Random) -> Drawn {
    let mut drawn = Drawn { walls: vec![Vec::new(); counts.len()], costs: Vec::new() };
    for _ in 0..ROUNDS {
        let times = level.tasks.iter().map(|&(estimate, pool)| pools[pool].draw_time(estimate, random));
        if let Some(times) = times.collect::<Option<Vec<Duration>>>() {
            let integration = random.pick(&history.integrations).map_or(Duration::ZERO, |(_, took)| *took);
            for (walls, &workers) in drawn.walls.iter_mut().zip(counts) {
                walls.push(makespan(&times, workers) + integration);
            }
        }
        let costs = level.tasks.iter().map(|&(estimate, pool)| pools[pool].draw_cost(estimate, random));
        drawn.costs.push(costs.sum());
    }
    drawn
}

fn total_wall(levels: &[LevelTasks], drawn: &[Drawn], workers: u32, index: usize) -> Wall {
    let plain = levels.iter().map(|level| makespan(&level.lengths(), workers)).sum();
    let walls = sums(drawn, |drawn, round| drawn.walls[index].get(round).copied());
    Wall::of(plain, walls.unwrap_or_default())
}

/// Adds up all levels for each round; none if a level has no result.
fn sums<T: std::iter::Sum>(drawn: &[Drawn], of: impl Fn(&Drawn, usize) -> Option<T>) -> Option<Vec<T>> {
    (0..ROUNDS).map(|round| drawn.iter().map(|drawn| of(drawn, round)).sum()).collect()
}

impl Wall {
    fn of(plain: Duration, mut drawn: Vec<Duration>) -> Wall {
        drawn.sort_unstable();
        Wall { plain, p50: percentile(&drawn, 50), p90: percentile(&drawn, 90) }
    }
}

impl CostRange {
    fn of(drawn: Option<Vec<f64>>) -> CostRange {
        let mut drawn = drawn.unwrap_or_default();
        drawn.sort_unstable_by(f64::total_cmp);
        CostRange { p50_usd: percentile(&drawn, 50), p90_usd: percentile(&drawn, 90) }
    }
}

/// Returns the smallest value that this percentage of the sorted values does not exceed.
fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

fn widest(levels: &[LevelTasks]) -> u32 {
    let widest = levels.iter().map(|level| level.tasks.len()).max().unwrap_or(1);
    u32::try_from(widest).unwrap_or(MAX_WORKERS).clamp(1, MAX_WORKERS)
}

/// Compares each number of workers with every larger one: several workers together may save time where one alone does not.
fn best_workers(levels: &[LevelTasks]) -> u32 {
    let lengths: Vec<Vec<Duration>> = levels.iter().map(LevelTasks::lengths).collect();
    let wall = |workers| lengths.iter().map(|lengths| makespan(lengths, workers)).sum::<Duration>().as_secs_f64();
    let walls: Vec<f64> = (1..=widest(levels)).map(wall).collect();
    let is_enough = |index: &usize| {
        let mut more = walls[*index..].iter().enumerate().skip(1);
        more.all(|(added, wall)| walls[*index] - wall < WORTHWHILE_GAIN * added as f64 * walls[*index])
    };
    (0..walls.len()).find(is_enough).map_or(1, |index| index as u32 + 1)
}

/// Returns the numbers of workers to show, in ascending order.
fn counts(levels: &[LevelTasks], workers: u32, best: u32) -> Vec<u32> {
    let widest = widest(levels);
    let all = 1..=widest.min(ALL_ROWS);
    let powers = (0..).map(|power| 1u32 << power).take_while(|count| *count < widest);
    let mut counts: Vec<u32> = all.chain(powers).chain([widest, workers, best]).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}
