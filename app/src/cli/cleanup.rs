//! `cleanup`: removes what runs left behind. Must never remove unmerged or unsaved work without `--force`.

use clap::Args;
use mahabharatha_engine::host::cleanup::Leftover;
use mahabharatha_engine::lease::Lease;
use mahabharatha_engine::session::cleanup::{Cleaned, Request, clean};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
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
    if args.all && global.names_a_feature() {
        return Err(Error::new(Kind::Usage, "--all means every feature, but --feature names one")
            .hint("Leave out one of them."));
    }
    let places: Vec<Place> = if args.all {
        let project = global.project()?;
        // One without a directory of its own has left nothing behind.
        let places = project.known_features().into_iter().map(|feature| Place::new(project.clone(), feature));
        places.filter(|place| place.paths.dir().is_dir()).collect()
    } else {
        vec![global.cleanable_place(args.feature.as_deref())?]
    };
    let request = Request { dry_run: args.dry_run, force: args.force };
    let mut all = Cleaned::default();
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
            Ok(lock) => {
                let Cleaned { gone, kept, warning } = clean(place, &lock, request)?;
                warning.iter().for_each(|warning| ui.warn(warning));
                all.gone.extend(gone);
                all.kept.extend(kept);
            }
            Err(holder) if args.all => ui.warn(&format!("{} is left alone: it runs now ({holder})", place.feature)),
            Err(holder) => return Err(holder.refusal(&place.feature)),
        }
    }
    print(ui, args, &all.gone, &all.kept);
    Ok(ExitCode::Done)
}

fn print(ui: &Ui, args: &CleanupArgs, gone: &[String], kept: &[Leftover]) {
    if ui.json() {
        let kept: Vec<_> = kept
            .iter()
            .map(|leftover| serde_json::json!({ "what": leftover.what.to_string(), "why": leftover.precious }))
            .collect();
        let key = if args.dry_run { "would_remove" } else { "removed" };
        ui.data(&serde_json::json!({ key: gone, "kept": kept }).to_string());
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
        ui.note("Remove what was kept with --force.");
    }
}
