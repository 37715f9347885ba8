//! Undoes a feature: reverts its merged levels on the base branch.

use mahabharatha_core::ids::{Level, Oid};
use mahabharatha_core::run::event::Event;
use mahabharatha_core::run::{End, LevelStatus, Run, record};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::project::{FeaturePaths, Place};
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::IntegrationLock;

use super::control::no_run;
use super::{lock, now, rebuild, refuse_another_session};
use crate::host::integrate::{Integration, Undoing};
use crate::host::{Context, Settings};
use crate::report::files;
use crate::specs;

pub use crate::host::integrate::Reverted;

/// What was undone, or would be.
#[derive(Debug, PartialEq, Eq)]
pub struct Undone {
    /// The short name of the base branch.
    pub branch: String,
    /// Newest level first; empty if an earlier call had reverted them already.
    pub reverts: Vec<Reverted>,
    /// The tip of the base branch when they were reverted. Later commits may have brought the feature back.
    pub commit: Oid,
}

/// Reverts the merged levels of a feature; with `dry_run` only finds out whether that can be done.
pub fn undo(place: &Place, dry_run: bool) -> Result<Undone> {
    let Place { project, feature, paths } = place;
    let held = lock(paths, None)?;
    refuse_another_session(paths, None)?;
    let (mut journal, records) = Journal::open_for_append(&held, feature)?;
    let mut run = rebuild(paths, &records)?.ok_or_else(|| no_run(place))?;
    let branch = short_branch(&run.setup().base_branch).to_owned();
    let undone = records.iter().rev().find_map(|record| match &record.event {
        Event::Undone { commit } => Some(commit.clone()),
        _ => None,
    });
    if let Some(commit) = undone.filter(|_| run.ended() == Some(&End::Undone)) {
        return Ok(Undone { branch, reverts: Vec::new(), commit });
    }
    if run.outstanding().next().is_some() {
        return Err(Error::new(
            Kind::Invalid,
            format!("the run of {feature} is not at rest: it was killed, or a session holds a task"),
        )
        .hint(format!(
            "Let it end in good order first: mahabharatha stop -f {feature}, or mahabharatha run {feature}."
        )));
    }
    let config = specs::load_config(project)?;
    let settings = Settings { config, agent: None, ports: Vec::new(), containers: None };
    let integration = Context::new(project, paths, &run, settings)?.integration(|_| {})?;
    let levels = landed_levels(&integration, &run)?;
    if levels.is_empty() {
        return Err(Error::new(Kind::Invalid, format!("no level of {feature} is merged, so there is nothing to undo")));
    }
    let integrating = IntegrationLock::wait(&project.shared_dir())?;
    let (from, reverts) = match integration.prepare_undo(&integrating, &levels)? {
        Undoing::Ready { from, reverts } => (from, reverts),
        Undoing::Done { tip } => (tip, Vec::new()),
        Undoing::NotLanded { level } => return Err(not_landed(&run, level, &branch)),
        Undoing::Conflict { level, files } => {
            let message = format!(
                "level {level} of {feature} cannot be undone: later commits on {branch} changed the same lines"
            );
            let error = Error::new(Kind::Conflict, message);
            return Err(files.into_iter().fold(error, Error::detail).hint(
                "Nothing was changed. Revert those commits first, or undo the features that made them (newest first).",
            ));
        }
    };
    let commit = reverts.last().map_or(&from, |revert| &revert.commit).clone();
    if dry_run {
        return Ok(Undone { branch, reverts, commit });
    }
    integration.undo(&integrating, &from, &reverts)?.map_err(|obstacle| {
        Error::new(Kind::Preflight, format!("{feature} cannot be undone: {obstacle}"))
            .hint("Nothing was changed. Change that, then undo it again.")
    })?;
    crash::point(|| "undo with the branch moved");
    record(&mut run, &mut journal, now(), &Event::Undone { commit: commit.clone() })?;
    crash::point(|| "undo with its event");
    files::write_all(project, paths, &run)?;
    Ok(Undone { branch, reverts, commit })
}

/// Returns the levels that landed with a commit of their own, lowest first.
fn landed_levels(integration: &Integration, run: &Run) -> Result<Vec<(Level, Oid)>> {
    let mut landed = Vec::new();
    for level in run.levels() {
        if let LevelStatus::Merged { commit, .. } = &level.status
            && integration.is_landing(level.level, commit)?
        {
            landed.push((level.level, commit.clone()));
        }
    }
    Ok(landed)
}

fn not_landed(run: &Run, level: Level, branch: &str) -> Error {
    let message = format!("level {level} of {} is not on {branch}", run.feature());
    let staging = run.landing_branch();
    let hint = if run.policy().onto_staging {
        format!("It is on {} alone: delete that branch if you do not want it.", short_branch(&staging))
    } else {
        format!("The history of {branch} was rewritten since; there is nothing that could be reverted.")
    };
    Error::new(Kind::Invalid, message).hint(hint)
}

/// Fails if the feature was undone; one that has not run was not.
pub fn refuse_undone_feature(place: &Place) -> Result<()> {
    let run = rebuild(&place.paths, &Journal::read(&place.paths.journal())?)?;
    run.map_or(Ok(()), |run| refuse_undone(&place.paths, &run))
}

/// Fails if the feature was undone: its run has ended for good.
pub fn refuse_undone(paths: &FeaturePaths, run: &Run) -> Result<()> {
    if run.ended() != Some(&End::Undone) {
        return Ok(());
    }
    let feature = run.feature();
    let specs = format!(".gsd/specs/{feature}");
    let again = match paths.requirements() {
        file if file.is_file() => {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("mahabharatha plan NAME --from {specs}/{name}")
        }
        // A graph that names another feature is refused.
        _ => format!(
            "copy {specs}/task-graph.json, set `feature` to NAME in the copy, and mahabharatha design NAME --from-graph \
             COPY --force"
        ),
    };
    Err(Error::new(Kind::Invalid, format!("{feature} was undone, and does not run again")).hint(format!(
        "Bring it back by reverting its reverts (git log --grep \"Revert level\"), or plan it as another feature: {again}"
    )))
}
