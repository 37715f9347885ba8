//! `debug`: shows what blocks a feature and the state of its files; `--repair` fixes what can be fixed.

use clap::Args;
use mahabharatha_engine::report::debug::render;
use mahabharatha_engine::report::files;
use mahabharatha_engine::report::text::count;
use mahabharatha_engine::session::{self, control, diagnosis};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::atomic::sweep;
use mahabharatha_sys::store::journal::{Health, Repair, Repaired, examine};
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::Global;
use super::exit::ExitCode;
use crate::observe::{Planned, planned};

#[derive(Debug, Args)]
pub struct DebugArgs {
    /// Show only this task, with everything that its attempts left
    task: Option<String>,
    /// Repair a damaged journal; the original is kept beside it
    #[arg(long, conflicts_with = "task")]
    repair: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &DebugArgs) -> Result<ExitCode> {
    let place = global.known_place(None)?;
    if args.repair {
        return repair(&place, ui);
    }
    let Some(mut findings) = diagnosis::examine_feature(&place, args.task.as_deref())? else {
        return Err(planned(&place)?.no_run());
    };
    let planned = findings.is_not_run_yet().then(|| planned(&place));
    if let Some(Ok(planned)) = &planned {
        findings.blockers.extend(planned.view.blockers.iter().cloned());
    }
    if ui.json() {
        ui.pretty(&findings);
    } else {
        let next = planned.map(|planned| next_step(&place, planned));
        ui.painted(&render(&findings, args.task.is_some(), next.as_deref(), ui.paint()));
    }
    let sound = matches!(findings.journal.health, "good" | "torn");
    Ok(if sound { ExitCode::Done } else { ExitCode::Invalid })
}

/// Returns the command that follows for a feature that has not run yet.
fn next_step(place: &Place, planned: Result<Planned>) -> String {
    planned.map_or_else(|_| format!("mahabharatha plan {}", place.feature), |planned| planned.next())
}

fn repair(place: &Place, ui: &Ui) -> Result<ExitCode> {
    let paths = &place.paths;
    let lock = FeatureLock::try_acquire(paths.dir(), &paths.holder_file())?
        .map_err(|holder| holder.refusal(&place.feature))?;
    let examined = examine(&paths.journal(), &place.feature)?;
    if examined.health == Health::Missing {
        return Err(control::no_run(place));
    }
    // Records that can be read but form no valid run are dropped too.
    let keep = if session::rebuild(paths, &examined.records).is_ok() { usize::MAX } else { 0 };
    let planned = Repair::plan(&lock, &place.feature, keep)?;
    if let Some(repair) = &planned
        && repair.outcome.records_kept == 0
    {
        confirm_restart(place, ui)?;
    }
    let repaired = planned.map(|repair| repair.apply(&lock)).transpose()?;
    let records = examine(&paths.journal(), &place.feature)?.records;
    if let Some(run) = session::rebuild(paths, &records)? {
        files::write_all(&place.project, paths, &run)?;
    }
    for dir in [paths.specs(), &paths.task_files()] {
        sweep(dir);
    }
    print_repair(place, ui, repaired.as_ref());
    Ok(ExitCode::Done)
}

fn confirm_restart(place: &Place, ui: &Ui) -> Result<()> {
    let question = format!("Nothing of the journal of {} can be read. Start the run over?", place.feature);
    match ui.confirm(&question, "--yes") {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::new(Kind::Failed, "nothing was changed")),
        Err(no_answer) => Err(Error::new(Kind::Usage, no_answer.to_string())
            .hint("The original is kept, and what was merged stays merged; but the run forgets that it was.")),
    }
}

fn print_repair(place: &Place, ui: &Ui, repaired: Option<&Repaired>) {
    if ui.json() {
        let data = json!({ "feature": place.feature.as_str(), "journal": repaired });
        ui.data(&data.to_string());
        return;
    }
    let feature = &place.feature;
    let Some(Repaired { original, records_kept, lines_dropped, bytes_dropped, events_dropped, header_replaced }) =
        repaired
    else {
        ui.note(&format!("the journal of {feature} is valid; the files derived from it are written again"));
        return;
    };
    let path = place.paths.journal();
    ui.note(&format!("{} is repaired: {} are kept", path.display(), count(*records_kept, "record")));
    if *header_replaced {
        ui.note("its header is restored");
    }
    let events: Vec<String> = events_dropped.iter().map(|(name, times)| format!("{times} {name}")).collect();
    ui.warn(&format!("dropped: {}, {bytes_dropped} bytes ({})", count(*lines_dropped, "line"), events.join(", ")));
    if let Some(original) = original {
        ui.note(&format!("the original is {}", original.display()));
    }
    ui.note(&format!("Go on with: mahabharatha run {feature}. Events of the dropped lines are recovered from git and the job directories, or repeated."));
}
