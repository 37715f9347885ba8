//! `cleanup`: removes what runs left behind. Must never remove unmerged or unsaved work without `--force`.

use std::time::Duration;

use clap::Args;
use mahabharatha_core::ids::Feature;
use mahabharatha_core::run::End;
use mahabharatha_engine::claude::tasks::TaskList;
use mahabharatha_engine::host::cleanup::{self, Leftover, What};
use mahabharatha_engine::host::jobs;
use mahabharatha_engine::lease::Lease;
use mahabharatha_engine::session;
use mahabharatha_sys::error::{Error, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::Ui;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct CleanupArgs {
    /// The feature
    #[arg(id = "named", value_name = "FEATURE", conflicts_with = "all")]
    feature: Option<String>,
    /// Every feature of the project
    #[arg(long)]
    all: bool,
    /// List what would be removed; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Also remove work that is neither merged nor saved elsewhere
    #[arg(long)]
    force: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &CleanupArgs) -> Result<ExitCode> {
    let places: Vec<Place> = if args.all {
        let project = global.project()?;
        project.features()?.into_iter().map(|feature| at(global, feature)).collect::<Result<_>>()?
    } else {
        vec![global.known_place(args.feature.as_deref())?]
    };
    let (mut gone, mut kept) = (Vec::new(), Vec::new());
    for place in &places {
        let sessions = Lease::all_alive(place.paths.dir());
        match FeatureLock::try_acquire(place.paths.dir(), &place.paths.holder_file())? {
            Ok(_) if !sessions.is_empty() && args.all => {
                ui.warn(&format!(
                    "{} is left alone: a session holds tasks of it ({})",
                    place.feature, sessions[0].session
                ));
            }
            Ok(_) if !sessions.is_empty() => return Err(sessions[0].refusal(&place.feature)),
            Ok(lock) => clean(place, ui, &lock, args, &mut gone, &mut kept)?,
            Err(holder) if args.all => ui.warn(&format!("{} is left alone: it runs now ({holder})", place.feature)),
            Err(holder) => return Err(holder.refusal(&place.feature)),
        }
    }
    print(ui, args, &gone, &kept);
    Ok(ExitCode::Done)
}

fn at(global: &Global, feature: Feature) -> Result<Place> {
    let project = global.project()?;
    let paths = project.feature(&feature);
    Ok(Place { project, feature, paths })
}

fn clean(
    place: &Place,
    ui: &Ui,
    _lock: &FeatureLock,
    args: &CleanupArgs,
    gone: &mut Vec<String>,
    kept: &mut Vec<Leftover>,
) -> Result<()> {
    let run = session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)?;
    if !args.dry_run {
        jobs::end_survivors(&place.paths, run.as_ref(), None, Duration::ZERO)?;
    }
    let leftovers = cleanup::leftovers(&place.project, &place.paths, run.as_ref(), true)?;
    let (going, staying): (Vec<Leftover>, Vec<Leftover>) =
        leftovers.into_iter().partition(|leftover| args.force || leftover.precious.is_none());
    let going: Vec<What> = going.into_iter().map(|leftover| leftover.what).collect();
    if !args.dry_run {
        cleanup::remove(&place.project, &place.paths, &going)
            .map_err(|error| Error::new(error.kind(), format!("{}: {}", place.feature, error.message())))?;
    }
    gone.extend(going.iter().map(ToString::to_string));
    kept.extend(staying);
    if run.is_none_or(|run| run.ended() == Some(&End::Completed)) {
        // An unfinished run still needs its task list.
        match clean_list(place, args.dry_run) {
            Ok(list) => gone.extend(list),
            Err(error) => ui.warn(&error.to_string()),
        }
    }
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

fn print(ui: &Ui, args: &CleanupArgs, gone: &[String], kept: &[Leftover]) {
    if ui.json() {
        let kept: Vec<_> = kept
            .iter()
            .map(|leftover| serde_json::json!({ "what": leftover.what.to_string(), "why": leftover.precious }))
            .collect();
        let key = if args.dry_run { "would_remove" } else { "removed" };
        ui.data(&(serde_json::json!({ key: gone, "kept": kept }).to_string() + "\n"));
        return;
    }
    let verb = if args.dry_run { "would remove" } else { "removed" };
    for what in gone {
        ui.data(&format!("{verb} {what}\n"));
    }
    for leftover in kept {
        ui.data(&format!("kept {}: {}\n", leftover.what, leftover.precious.as_deref().unwrap_or_default()));
    }
    if gone.is_empty() && kept.is_empty() {
        ui.note("there is nothing to remove");
    } else if !kept.is_empty() {
        ui.note("What was kept goes with --force.");
    }
}
