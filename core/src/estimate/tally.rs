//! How often the attempts of each agent and model passed, and what they took and cost.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::history::By;
use crate::graph::Task;
use crate::ids::{Level, Time};
use crate::plan;
use crate::run::event::JobEnd;
use crate::run::{AttemptRecord, Run};
use crate::seconds::seconds;

/// One attempt that passed or failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trial {
    pub by: By,
    pub class: TaskClass,
    pub passed: bool,
    pub took: Duration,
    /// None if it is unknown.
    pub cost_usd: Option<f64>,
    pub at: Time,
}

impl Trial {
    /// Returns what an attempt tells about its agent: nothing if it was cancelled, never began, or was not made by an
    /// agent.
    pub fn of(run: &Run, class: TaskClass, record: &AttemptRecord) -> Option<Trial> {
        let (at, report) = record.ended.as_ref()?;
        let passed = match report.end {
            JobEnd::Done { .. } => true,
            JobEnd::Failed { .. } | JobEnd::Blocked { .. } | JobEnd::Escalated { .. } => false,
            JobEnd::Died { started } if started => false,
            _ => return None,
        };
        let by = By { agent: report.agent.clone()?, model: report.model.clone() };
        let (took, cost_usd) = (run.attempt_elapsed(record), report.cost().usd());
        Some(Trial { by, class, passed, took, cost_usd, at: *at })
    }
}

/// What tasks have in common if an attempt at one tells about the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskClass {
    pub estimate: Size,
    /// By the number of files that the task owns.
    pub files: Size,
    /// Whether it is on the first level of its graph, where interfaces are made.
    pub is_foundation: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    Small,
    Medium,
    Large,
}

/// Largest small and medium estimate.
const ESTIMATES: [Duration; 2] = [Duration::from_secs(10 * 60), Duration::from_secs(30 * 60)];
/// Largest small and medium number of files.
const FILES: [usize; 2] = [1, 3];

impl Size {
    fn of<T: PartialOrd>(value: T, limits: [T; 2]) -> Size {
        let [small, medium] = limits;
        match value {
            value if value <= small => Size::Small,
            value if value <= medium => Size::Medium,
            _ => Size::Large,
        }
    }
}

impl TaskClass {
    /// Returns the class of a task in a graph whose lowest level is `first`.
    pub fn of(task: &Task, first: Option<Level>) -> TaskClass {
        let files = &task.spec.files;
        TaskClass {
            estimate: Size::of(plan::estimate(task), ESTIMATES),
            files: Size::of(files.create.len() + files.modify.len(), FILES),
            is_foundation: Some(task.level) == first,
        }
    }
}

/// What the attempts of one agent and model came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tally {
    #[serde(flatten)]
    pub by: By,
    pub attempts: usize,
    pub passed: usize,
    /// Share of the attempts that passed.
    pub success_rate: f64,
    /// Mean time of an attempt.
    #[serde(rename = "mean_seconds", serialize_with = "seconds")]
    pub mean_time: Duration,
    /// Mean cost of an attempt, of those whose cost is known.
    pub mean_usd: Option<f64>,
}

impl Tally {
    pub(super) fn new<'a>(by: &By, trials: impl Iterator<Item = &'a Trial>) -> Tally {
        let trials: Vec<&Trial> = trials.collect();
        let (attempts, passed) = (trials.len(), trials.iter().filter(|trial| trial.passed).count());
        let costs: Vec<f64> = trials.iter().filter_map(|trial| trial.cost_usd).collect();
        let time: Duration = trials.iter().map(|trial| trial.took).sum();
        Tally {
            by: by.clone(),
            attempts,
            passed,
            success_rate: passed as f64 / attempts.max(1) as f64,
            mean_time: time / u32::try_from(attempts.max(1)).unwrap_or(u32::MAX),
            mean_usd: (!costs.is_empty()).then(|| costs.iter().sum::<f64>() / costs.len() as f64),
        }
    }

    /// Returns a tally for each agent and model, in the order of their names.
    pub(super) fn all(trials: &[Trial]) -> Vec<Tally> {
        let mut by: BTreeMap<&By, Vec<&Trial>> = BTreeMap::new();
        for trial in trials {
            by.entry(&trial.by).or_default().push(trial);
        }
        by.into_iter().map(|(by, trials)| Tally::new(by, trials.into_iter())).collect()
    }
}
