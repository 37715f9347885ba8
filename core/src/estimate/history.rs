//! What earlier runs took and cost, as far as their journals tell.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::config::Config;
use crate::cost::Cost;
use crate::ids::{Level, Time};
use crate::plan;
use crate::run::event::{Event, JobEnd};
use crate::run::{LevelState, LevelStatus, Run, TaskState, TaskStatus};
use crate::seconds::seconds;
use crate::spec::TaskSpec;

use super::tally::{Tally, TaskClass, Trial};

/// The agent that does a task, by its name in the configuration, and the model it is asked to use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct By {
    pub agent: String,
    /// None for the agent's own default.
    pub model: Option<String>,
}

impl By {
    /// Returns who does a task by the configuration.
    pub fn of(config: &Config, task: &TaskSpec, asked: Option<&str>) -> By {
        let (name, model) = match config.agent_for(task, asked) {
            Ok((name, agent)) => (name, agent.model_for(task).map(str::to_owned)),
            Err(unknown) => (unknown, task.model.clone()),
        };
        By { agent: name.to_string(), model }
    }
}

/// One task that an agent completed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    pub by: By,
    pub estimate: Duration,
    /// Time of all its attempts, without pauses between them.
    pub took: Duration,
    /// Cost of all its attempts; none if a part of it is unknown.
    pub cost_usd: Option<f64>,
    pub at: Time,
}

/// Attempts, completed tasks and merged levels of earlier runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    pub(super) samples: Vec<Sample>,
    pub(super) trials: Vec<Trial>,
    /// When each level was merged, and how long its merge and gates took.
    pub(super) integrations: Vec<(Time, Duration)>,
}

impl History {
    pub fn add(&mut self, observed: &Observed) {
        let run = &observed.run;
        let first = run.levels().first().map(|level| level.level);
        for (task, state) in run.graph().tasks().iter().zip(run.tasks()) {
            self.samples.extend(sample(run, plan::estimate(task), state));
            let class = TaskClass::of(task, first);
            self.trials.extend(state.attempts.iter().filter_map(|record| Trial::of(run, class, record)));
        }
        self.integrations.extend(observed.levels.iter().filter_map(|level| level.merged.zip(level.integration)));
    }

    /// Returns the history as it was at that time.
    pub fn before(&self, time: Time) -> History {
        History {
            samples: self.samples.iter().filter(|sample| sample.at < time).cloned().collect(),
            trials: self.trials.iter().filter(|trial| trial.at < time).cloned().collect(),
            integrations: self.integrations.iter().filter(|(at, _)| *at < time).copied().collect(),
        }
    }

    /// Returns what the attempts of each agent and model came to.
    pub fn tallies(&self) -> Vec<Tally> {
        Tally::all(&self.trials)
    }

    /// Returns everyone who completed a task.
    pub fn performers(&self) -> BTreeSet<&By> {
        self.samples.iter().map(|sample| &sample.by).collect()
    }
}

/// Returns what a completed task took. Tasks that a session or a person did tell nothing about agents.
fn sample(run: &Run, estimate: Duration, state: &TaskState) -> Option<Sample> {
    let TaskStatus::Completed { at, .. } = state.status else { return None };
    let reports = || state.attempts.iter().filter_map(|record| record.ended.as_ref()).map(|(_, report)| report);
    let done = reports().rev().find(|report| matches!(report.end, JobEnd::Done { .. }))?;
    let by = By { agent: done.agent.clone()?, model: done.model.clone() };
    let took = state.attempts.iter().map(|record| run.attempt_elapsed(record)).sum();
    let cost: Cost = reports().map(|report| report.cost()).sum();
    Some(Sample { by, estimate, took, cost_usd: cost.usd(), at })
}

/// A run with the time that each of its levels took.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub run: Run,
    pub levels: Vec<LevelTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelTime {
    pub level: Level,
    /// Time in which the run was driven from the merge of the level before until this one was merged, or until now.
    #[serde(rename = "wall_seconds", serialize_with = "seconds")]
    pub wall: Duration,
    #[serde(serialize_with = "is_known")]
    pub merged: Option<Time>,
    /// Time from the end of the last task until the level was merged.
    #[serde(skip)]
    integration: Option<Duration>,
    /// Time of all attempts at its tasks.
    #[serde(rename = "work_seconds", serialize_with = "seconds")]
    pub work: Duration,
    #[serde(flatten)]
    pub cost: Cost,
}

/// What a run took and cost so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Actual {
    pub levels: Vec<LevelTime>,
    /// Time in which the run was driven.
    #[serde(rename = "wall_seconds", serialize_with = "seconds")]
    pub wall: Duration,
    #[serde(rename = "work_seconds", serialize_with = "seconds")]
    pub work: Duration,
    #[serde(flatten)]
    pub cost: Cost,
    /// Every level is merged.
    pub completed: bool,
}

impl Observed {
    pub fn actual(&self) -> Actual {
        Actual {
            wall: self.run.elapsed(),
            work: self.levels.iter().map(|level| level.work).sum(),
            cost: self.run.attempts_cost(),
            completed: self.levels.iter().all(|level| level.merged.is_some()),
            levels: self.levels.clone(),
        }
    }

    /// Rebuilds a run from its events and notes when its levels ended; none if there are no events.
    pub fn replay<'a>(events: impl IntoIterator<Item = (Time, &'a Event)>) -> Result<Option<Observed>, String> {
        let mut events = events.into_iter();
        let mut run = match events.next() {
            None => return Ok(None),
            Some((now, Event::Started(setup))) => Run::start(now, setup)?,
            Some(_) => return Err("the journal does not begin with the start of a run".to_string()),
        };
        let mut clock = Clock::default();
        for (now, event) in events {
            let was_running = clock.is_running(&run);
            run.step(now, event);
            clock.note(&run, was_running);
        }
        let levels = clock.level_times(&run);
        Ok(Some(Observed { run, levels }))
    }
}

/// The run's work time at the end of each merged level, and at the end of each level's tasks.
#[derive(Default)]
struct Clock {
    merged: Vec<Duration>,
    worked: Vec<Duration>,
}

impl Clock {
    /// Tells whether tasks of the first level that is not merged may still be under way.
    fn is_running(&self, run: &Run) -> bool {
        let level = run.levels().get(self.merged.len());
        level.is_some_and(|level| matches!(level.status, LevelStatus::Pending | LevelStatus::Running))
    }

    fn note(&mut self, run: &Run, was_running: bool) {
        let current = self.merged.len();
        if was_running && !self.is_running(run) {
            self.worked.truncate(current);
            self.worked.push(run.elapsed());
        }
        let is_merged = |level: &&LevelState| matches!(level.status, LevelStatus::Merged { .. });
        let merged = run.levels().iter().take_while(is_merged).count();
        // A level can be added below merged ones only before they are merged.
        self.merged.resize(merged, run.elapsed());
        self.worked.resize(self.worked.len().max(merged), run.elapsed());
    }

    fn level_times(&self, run: &Run) -> Vec<LevelTime> {
        let mut start = Duration::ZERO;
        let time = |(index, level): (usize, &LevelState)| {
            let end = self.merged.get(index).copied().unwrap_or_else(|| run.elapsed());
            let wall = end.saturating_sub(start);
            start = start.max(end);
            let merged = match level.status {
                LevelStatus::Merged { at, .. } => Some(at),
                _ => None,
            };
            let attempts = || run.tasks()[level.tasks.clone()].iter().flat_map(|task| &task.attempts);
            let reports = attempts().filter_map(|record| record.ended.as_ref());
            LevelTime {
                level: level.level,
                wall,
                merged,
                integration: merged.and(self.worked.get(index)).map(|worked| end.saturating_sub(*worked)),
                work: attempts().map(|record| run.attempt_elapsed(record)).sum(),
                cost: reports.map(|(_, report)| report.cost()).sum(),
            }
        };
        run.levels().iter().enumerate().map(time).collect()
    }
}

fn is_known<S: Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(time.is_some())
}
