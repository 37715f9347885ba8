//! How the work that failed attempts saved can be looked at.

use mahabharatha_core::ids::{Oid, TaskId};
use mahabharatha_core::view::RunView;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::{Place, wip_ref};

use crate::report::status::SavedWork;

/// Returns a command for each attempt whose work can still be read. `cleanup` removes the refs, git the commits later.
pub fn saved_work(place: &Place, view: &RunView) -> Result<SavedWork> {
    let (git, feature) = (place.project.git(), &place.feature);
    let prefix = format!("refs/mahabharatha/{feature}/wip/");
    let refs: Vec<String> = git.for_each_ref(&[&prefix])?.into_iter().map(|(name, _)| name).collect();
    let saved: Vec<(&TaskId, u32, &Oid)> = view
        .tasks
        .iter()
        .flat_map(|task| task.attempts.iter().map(move |attempt| (&task.id, attempt)))
        .filter_map(|(task, attempt)| Some((task, attempt.attempt, attempt.wip.as_ref()?)))
        .collect();
    let commits: Vec<Oid> = saved.iter().map(|(.., wip)| (*wip).clone()).collect();
    let lost = git.lost(&commits)?;
    let command = |(task, attempt, wip): (&TaskId, u32, &Oid)| {
        let name = wip_ref(feature.as_str(), task.as_str(), attempt);
        let command = match refs.contains(&name) {
            true => format!("git show {name}"),
            false if lost.contains(wip) => return None,
            false => format!("mahabharatha diff -f {feature} {task} --attempt {attempt}"),
        };
        Some(((task.clone(), attempt), command))
    };
    Ok(saved.into_iter().filter_map(command).collect())
}
