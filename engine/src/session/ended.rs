//! Sessions that have ended: their leases end, and their tasks are released.

use std::path::Path;

use mahabharatha_core::ids::Feature;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Project;

use super::claims;
use crate::claude::guard;
use crate::lease::{self, Lease};
use crate::worker::subagents;

/// Ends a session in the repository around a directory. Ends its leases first: what cannot be released now is released when
/// the next session starts.
pub fn end(dir: &Path, session: &str) -> Result<()> {
    let held = guard::features_held(dir, session).into_iter();
    let planned = guard::features_planned(dir, session);
    let mut leases = held.chain(planned.iter().map(|feature_dir| lease::planning(feature_dir)));
    leases.try_for_each(|dir| lease::end(&dir, session))?;
    release_abandoned(dir)
}

/// Releases the tasks that ended sessions still hold in the repository around a directory. Reads only a few small files if
/// there are none.
pub fn release_abandoned(dir: &Path) -> Result<()> {
    let abandoned = guard::features(dir).into_iter().filter(|dir| is_abandoned(dir));
    let names = abandoned.filter_map(|dir| Feature::new(dir.file_name()?.to_str()?.to_owned()).ok());
    let names: Vec<Feature> = names.collect();
    if names.is_empty() {
        return Ok(());
    }
    let project = Project::find(dir)?;
    names.iter().try_for_each(|name| claims::release_ended(&project, &project.feature(name)))
}

/// Tells whether a session without a live lease holds an attempt of the feature.
fn is_abandoned(feature_dir: &Path) -> bool {
    let sessions = subagents::sessions_at_work(feature_dir).unwrap_or_default();
    sessions.iter().any(|session| Lease::of(feature_dir, session).is_none())
}
