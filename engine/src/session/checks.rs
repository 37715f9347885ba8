//! Checks whether a run can do what the options and the configuration ask for.

use mahabharatha_core::graph::TaskGraph;
use mahabharatha_core::ids::Level;
use mahabharatha_core::run::event::{Intent, Policy};
use mahabharatha_core::run::{LevelStatus, Run};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::short_branch;

use super::control::no_such_level;

/// Fails if `merge.target` was changed after a level was merged: later levels have to land on the same branch.
pub(super) fn check_target(run: &Run, policy: &Policy) -> Result<()> {
    let merged = run.levels().iter().find(|level| matches!(level.status, LevelStatus::Merged { .. }));
    let Some(level) = merged.filter(|_| policy.onto_staging != run.policy().onto_staging) else { return Ok(()) };
    let (branch, before) = (run.landing_branch(), if policy.onto_staging { "base" } else { "staging" });
    let (level, branch) = (level.level, short_branch(&branch));
    let message = format!("merge.target was changed, and level {level} is merged into {branch} already");
    Err(Error::new(Kind::Invalid, message).hint(format!("Put it back for this run: merge.target: {before}.")))
}

/// Fails if the requested level does not exist or an earlier level is not merged.
pub(super) fn check_intent(intent: Intent, graph: &TaskGraph, run: Option<&Run>) -> Result<()> {
    let (Intent::Level(goal) | Intent::Merge(goal) | Intent::Session(Some(goal))) = intent else { return Ok(()) };
    let levels = graph.levels();
    if !levels.contains(&goal) {
        return Err(no_such_level(graph, goal));
    }
    let is_merged = |level: &Level| {
        let states = run.map(Run::levels).unwrap_or_default();
        states.iter().any(|state| state.level == *level && matches!(state.status, LevelStatus::Merged { .. }))
    };
    match levels.iter().find(|level| **level < goal && !is_merged(level)) {
        None => Ok(()),
        Some(first) => Err(Error::new(Kind::Invalid, format!("level {goal} cannot run: level {first} is not merged"))
            .hint(format!("Run it first: mahabharatha run {} --level {first}", graph.feature))),
    }
}
