//! Removes what the runs of a feature left behind. Must never remove unmerged or unsaved work without `force`.

use std::fs;
use std::time::Duration;

use mahabharatha_core::run::End;
use mahabharatha_sys::error::{Error, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::store::tree;

use crate::claude::tasks::TaskList;
use crate::host::cleanup::{self, Leftover, What};
use crate::host::jobs;

#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Change nothing.
    pub dry_run: bool,
    /// Also remove work that is neither merged nor saved elsewhere.
    pub force: bool,
}

/// What was removed, or would be, and what was kept.
#[derive(Default)]
pub struct Cleaned {
    pub gone: Vec<String>,
    pub kept: Vec<Leftover>,
    /// Why the task list in Claude Code could not be cleaned.
    pub warning: Option<String>,
}

/// Cleans up after a feature. The lock proves that no process drives its run.
pub fn clean(place: &Place, lock: &FeatureLock, request: Request) -> Result<Cleaned> {
    let run = super::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)?;
    if !request.dry_run {
        jobs::end_survivors(&place.paths, run.as_ref(), None, Duration::ZERO)?;
    }
    let leftovers = cleanup::leftovers(&place.project, &place.paths, run.as_ref(), true)?;
    let (going, kept): (Vec<Leftover>, Vec<Leftover>) =
        leftovers.into_iter().partition(|leftover| request.force || leftover.precious.is_none());
    let going: Vec<What> = going.into_iter().map(|leftover| leftover.what).collect();
    if !request.dry_run {
        cleanup::remove(&place.project, &place.paths, &going)
            .map_err(|error| Error::new(error.kind(), format!("{}: {}", place.feature, error.message())))?;
    }
    let mut cleaned = Cleaned { gone: going.iter().map(ToString::to_string).collect(), kept, warning: None };
    if is_unbegun(place) {
        if is_known(place) {
            cleaned.gone.push(format!("the feature {}, for which nothing was written", place.feature));
        }
        if !request.dry_run {
            forget_unbegun(place, lock)?;
        }
    }
    if run.is_none_or(|run| run.ended() == Some(&End::Completed)) {
        // An unfinished run still needs its task list.
        match clean_list(place, request.dry_run) {
            Ok(list) => cleaned.gone.extend(list),
            Err(error) => cleaned.warning = Some(error.to_string()),
        }
    }
    Ok(cleaned)
}

/// Tells whether nothing of value was made for the feature: no run, no specs, no answers of an interview.
pub fn is_unbegun(place: &Place) -> bool {
    let paths = &place.paths;
    let is_ours = |entry: &fs::DirEntry| entry.path() == paths.holder_file();
    let has_specs = fs::read_dir(paths.specs()).is_ok_and(|entries| entries.flatten().any(|entry| !is_ours(&entry)));
    !has_specs && !paths.journal().exists() && !paths.interview_draft().exists()
}

/// Tells whether anything but its lock shows that there is a feature for which nothing was written.
fn is_known(place: &Place) -> bool {
    place.paths.has_planning_costs() || place.paths.specs().is_dir()
}

/// Removes what makes a feature known for which nothing was written: its empty directory of specs, and its cost, which
/// becomes part of the project's setup cost. The lock file stays, as every lock file does.
pub fn forget_unbegun(place: &Place, _lock: &FeatureLock) -> Result<()> {
    place.paths.give_back_planning_cost(&place.project)?;
    tree::remove_file(&place.paths.holder_file())?;
    // Only if it is empty.
    let _ = fs::remove_dir(place.paths.specs());
    Ok(())
}

/// Removes our tasks from the feature's list in Claude Code; returns a description of the list if it had any.
fn clean_list(place: &Place, dry_run: bool) -> Result<Option<String>> {
    let list = TaskList::of(&place.project, &place.feature)?;
    if !list.has_entries()? {
        return Ok(None);
    }
    if !dry_run {
        list.remove()?;
    }
    Ok(Some(format!("tasks in {list}")))
}
