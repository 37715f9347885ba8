//! What workers do at the moment, from the files that they leave in their slots.

use std::collections::BTreeMap;

use mahabharatha_core::ids::{Attempt, WorkerId};
use mahabharatha_core::view::RunView;
use mahabharatha_sys::project::FeaturePaths;

use crate::report::status::Doing;
use crate::worker::{Phase, Progress};

/// Returns the current activity of running workers, by worker.
pub fn doing(paths: &FeaturePaths, view: &RunView) -> BTreeMap<u32, Doing> {
    let attempts: BTreeMap<&str, u32> = view.tasks.iter().map(|task| (task.id.as_str(), task.attempt)).collect();
    let mut doing = BTreeMap::new();
    for worker in view.workers.iter().filter(|worker| worker.status == "running") {
        let Some(task) = &worker.task else { continue };
        let Some(attempt) = attempts.get(task.as_str()) else { continue };
        let progress = Progress::read(paths.dir(), WorkerId(worker.id), task, Attempt(*attempt));
        doing.extend(progress.map(|progress| (worker.id, shown(progress))));
    }
    doing
}

fn shown(progress: Progress) -> Doing {
    let Progress { phase, since, agent, model, doing, tokens, .. } = progress;
    let phase = match phase {
        Phase::Agent => "agent",
        Phase::Verifying => "verifying",
    };
    Doing { phase, since, agent, model, what: doing, tokens }
}
