//! `scale`: sets the number of workers of a run, also while it is on.

use clap::Args;
use mahabharatha_core::ids::WorkerId;
use mahabharatha_engine::session::control;
use mahabharatha_engine::specs;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = super::examples::SCALE)]
pub struct ScaleArgs {
    /// How many agents work at once, until the run is completed or `run -w` says otherwise
    #[arg(value_name = "N", value_parser = super::worker_count())]
    workers: u32,
}

pub fn run(global: &Global, ui: &Ui, args: &ScaleArgs) -> Result<ExitCode> {
    let place = global.known_place(None)?;
    let ports = specs::load_config(&place.project)?.ports;
    let answer = control::scale(&place, args.workers, &ports)?;
    let driven = control::is_driven(&place)?;
    if ui.json() {
        let retiring: Vec<WorkerId> = control::read_run(&place)?.retiring().collect();
        let data =
            json!({ "feature": place.feature, "workers": args.workers, "retiring": retiring, "running": driven });
        ui.data(&data.to_string());
        return Ok(ExitCode::Done);
    }
    ui.note(&format!("{}: {}", place.feature, answer.message.unwrap_or_default()));
    if !driven {
        ui.note(&format!("{0} is not running. Continue with: mahabharatha run {0}", place.feature));
    }
    Ok(ExitCode::Done)
}
