//! Reads what earlier runs took and cost from the journals of all features. Changes nothing.
//!
//! Called by `session` and `host`.

use mahabharatha_core::config::Config;
use mahabharatha_core::estimate::{self, Assigned, By, Estimate, History, Observed};
use mahabharatha_core::graph::{Task, TaskGraph};
use mahabharatha_core::ids::{Feature, Time};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::store::journal::Journal;
use serde::Serialize;

/// The history of a repository.
pub struct Loaded {
    pub history: History,
    pub left_out: Vec<LeftOut>,
}

/// Feature whose journal cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    pub feature: String,
    pub problem: String,
}

/// Reads the journals of all features but this one, up to a time if one is given.
pub fn load(project: &Project, except: &Feature, before: Option<Time>) -> Loaded {
    let mut loaded = Loaded { history: History::default(), left_out: Vec::new() };
    for feature in project.known_features().into_iter().filter(|feature| feature != except) {
        match observe(&project.feature(&feature)) {
            Ok(Some(observed)) => loaded.history.add(&observed),
            Ok(None) => {}
            Err(error) => {
                loaded.left_out.push(LeftOut { feature: feature.to_string(), problem: error.message().to_owned() })
            }
        }
    }
    if let Some(before) = before {
        loaded.history = loaded.history.before(before);
    }
    loaded
}

/// Rebuilds a feature's run from its journal, with the time of each level; none if it has not run.
pub fn observe(paths: &FeaturePaths) -> Result<Option<Observed>> {
    let records = Journal::read(&paths.journal())?;
    Observed::replay(records.iter().map(|record| (record.at, &record.event))).map_err(|why| {
        let hint = format!("See `mahabharatha debug -f {}`.", paths.feature());
        Error::new(Kind::Invalid, format!("{}: {why}", paths.journal().display())).hint(hint)
    })
}

/// Assigns the tasks of a graph to agents, by the configuration and, if that asks for it, by the history.
pub fn assign(project: &Project, config: &Config, graph: &TaskGraph, asked: Option<&str>) -> Assigned {
    let history = match config.routing.route {
        Some(_) => load(project, &graph.feature, None).history,
        None => History::default(),
    };
    estimate::assign(config, graph, asked, &history)
}

/// Who is to do the tasks, and how many at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assumptions {
    pub workers: u32,
    /// The agent for tasks that name none, as with `run --agent`.
    pub agent: Option<String>,
    /// The model of every task whose agent has used it before.
    pub model: Option<String>,
}

/// Estimates a graph as the configuration and the assumptions would have it done.
pub fn estimate(graph: &TaskGraph, config: &Config, history: &History, assumptions: &Assumptions) -> Estimate {
    let Assumptions { workers, agent, model } = assumptions;
    let known = history.performers();
    let by = |task: &Task| {
        let usual = By::of(config, &task.spec, agent.as_deref());
        let changed = model.clone().map(|model| By { agent: usual.agent.clone(), model: Some(model) });
        changed.filter(|changed| known.contains(changed)).unwrap_or(usual)
    };
    Estimate::new(graph, *workers, by, history)
}
