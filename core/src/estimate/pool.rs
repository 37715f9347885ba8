//! Chooses the samples from which a task's time and cost are drawn, and draws.

use std::time::Duration;

use serde::Serialize;

use super::history::{By, History, Sample};
use crate::plan::MAX_ESTIMATE;

/// Fewest samples of an agent and model, or of an agent, that are preferred to those of all.
pub const MIN_SAMPLES: usize = 5;

/// Where the samples for a task come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    AgentAndModel,
    /// The agent with any model: there are too few samples of this model.
    Agent,
    /// All agents: there are too few samples of this one.
    All,
    /// There are no samples.
    None,
}

/// Samples for the tasks of one agent and model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pool {
    #[serde(flatten)]
    pub by: By,
    /// Number of tasks of the graph that draw from it.
    pub tasks: usize,
    pub basis: Basis,
    /// Number of completed tasks that times are drawn from.
    pub samples: usize,
    /// Number of completed tasks that costs are drawn from: only those of the same agent, since another tells nothing
    /// about its price.
    pub cost_samples: usize,
    /// Times of the samples relative to their estimates.
    #[serde(skip)]
    ratios: Vec<f64>,
    /// Costs of the samples for each second of their estimates.
    #[serde(skip)]
    rates: Vec<f64>,
}

impl Pool {
    pub(super) fn new(by: &By, history: &History) -> Pool {
        let all = || history.samples.iter();
        let of_agent: Vec<&Sample> = all().filter(|sample| sample.by.agent == by.agent).collect();
        let own: Vec<&Sample> = of_agent.iter().copied().filter(|sample| sample.by == *by).collect();
        let is_enough = |samples: &[&Sample]| samples.len() >= MIN_SAMPLES;
        let (basis, times) = if is_enough(&own) {
            (Basis::AgentAndModel, own.clone())
        } else if is_enough(&of_agent) {
            (Basis::Agent, of_agent.clone())
        } else if all().len() > 0 {
            (Basis::All, all().collect())
        } else {
            (Basis::None, Vec::new())
        };
        // Costs of another model are far off, so even a few of the same are better.
        let rates = [rates(&own), rates(&of_agent)].into_iter().find(|rates| !rates.is_empty()).unwrap_or_default();
        let ratio = |sample: &&Sample| sample.took.as_secs_f64() / sample.estimate.as_secs_f64();
        let ratios: Vec<f64> = times.iter().map(ratio).collect();
        Pool { by: by.clone(), tasks: 0, basis, samples: ratios.len(), cost_samples: rates.len(), ratios, rates }
    }

    /// Draws how long a task with this estimate takes.
    pub(super) fn draw_time(&self, estimate: Duration, random: &mut Random) -> Option<Duration> {
        let seconds = estimate.as_secs_f64() * random.pick(&self.ratios)?;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(MAX_ESTIMATE).min(MAX_ESTIMATE))
    }

    /// Draws what a task with this estimate costs.
    pub(super) fn draw_cost(&self, estimate: Duration, random: &mut Random) -> Option<f64> {
        random.pick(&self.rates).map(|rate| rate * estimate.as_secs_f64())
    }
}

/// Returns the known costs for each second of the estimates.
fn rates(samples: &[&Sample]) -> Vec<f64> {
    samples.iter().filter_map(|sample| Some(sample.cost_usd? / sample.estimate.as_secs_f64())).collect()
}

/// Pseudo-random numbers (SplitMix64) that depend on the seed alone, so that one history gives one answer.
pub(super) struct Random(u64);

impl Random {
    /// Seeds it from a name, by FNV-1a.
    pub fn seeded(name: &str) -> Random {
        Random(
            name.bytes()
                .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)),
        )
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let index = self.next() % (items.len() as u64).max(1);
        items.get(usize::try_from(index).ok()?)
    }
}
