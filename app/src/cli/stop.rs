//! `stop`: stops a run, or the orphans of a run that died. When it returns, nothing is running.

use std::time::Duration;

use clap::Args;
use mahabharatha_core::ids::WorkerId;
use mahabharatha_core::run::End;
use mahabharatha_core::run::effect::GRACE_PERIOD;
use mahabharatha_engine::session::control;
use mahabharatha_engine::session::stop::stop;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::Ui;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct StopArgs {
    /// The feature to stop
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// Stop only this worker
    #[arg(long, value_name = "N")]
    worker: Option<u32>,
    /// Kill at once
    #[arg(long)]
    force: bool,
    /// Time that agents get to end by themselves
    #[arg(long, value_name = "SECONDS", default_value_t = GRACE_PERIOD.as_secs(), value_parser = clap::value_parser!(u64).range(..=86_400))]
    grace: u64,
}

pub fn run(global: &Global, ui: &Ui, args: &StopArgs) -> Result<ExitCode> {
    let place = global.known_place(args.feature.as_deref())?;
    if let Some(holder) = FeatureLock::holder(place.paths.dir())?.filter(|holder| holder.authoring.is_some()) {
        return Err(holder.refusal(&place.feature));
    }
    if !place.paths.journal().exists() {
        return Err(control::no_run(&place));
    }
    let worker = args.worker.map(WorkerId);
    if let Some(worker) = worker {
        control::check_worker(&control::read_run(&place)?, worker)?;
    }
    let grace = if args.force { Duration::ZERO } else { Duration::from_secs(args.grace) };
    let answered = || {
        if !ui.json() {
            ui.note(&stopping_text(&place, worker, args.force));
        }
    };
    let stopped = stop(&place, worker, args.force, grace, answered)?;
    if ui.json() {
        ui.data(
            &serde_json::json!({ "feature": place.feature.as_str(), "worker": worker, "stopped": stopped }).to_string(),
        );
    } else {
        ui.note(&result_text(&place, worker, stopped)?);
    }
    Ok(ExitCode::Done)
}

/// Returns what `stop` says before the agents have ended. An agent that is killed leaves its work to be saved later.
fn stopping_text(place: &Place, worker: Option<WorkerId>, force: bool) -> String {
    match (worker, force) {
        (None, false) => format!("stopping {}: its agents are ended and their work is saved", place.feature),
        (None, true) => format!(
            "stopping {}: its agents are killed; their work is in the worktrees, and the next run saves it",
            place.feature
        ),
        (Some(worker), false) => format!("stopping worker {worker}: its agent is ended and its work is saved"),
        (Some(worker), true) => {
            format!(
                "stopping worker {worker}: its agent is killed; its work is in the worktree, and is saved before the next attempt there"
            )
        }
    }
}

fn result_text(place: &Place, worker: Option<WorkerId>, stopped: bool) -> Result<String> {
    let feature = &place.feature;
    Ok(match worker {
        _ if !stopped => format!("nothing runs for {feature}"),
        Some(worker) => format!("worker {worker} is stopped; its task goes to another"),
        None if control::read_run(place)?.ended() == Some(&End::Completed) => {
            format!("{feature} is completed; nothing runs")
        }
        None => format!("{feature} is stopped; its work is kept. Go on with: mahabharatha run {feature}"),
    })
}
