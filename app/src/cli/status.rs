//! `status`: how far a feature is.

use clap::Args;
use jiff::Timestamp;
use mahabharatha_core::ids::{TaskId, Time};
use mahabharatha_core::view::RunView;

use super::{Global, steer};
use crate::error::{ExitCode, Result};
use crate::host::jobs;
use crate::report::status::{Show, status_json, status_text};
use crate::store::watch;
use crate::ui::Ui;

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Go on showing it until the run ends
    #[arg(long)]
    watch: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &StatusArgs) -> Result<ExitCode> {
    let place = global.place(None)?;
    let print = || -> Result<bool> {
        let run = steer::read_run(&place)?;
        let driven = steer::is_driven(&place)?;
        let view = RunView::of(&run);
        let is_alive = |task: &TaskId, attempt| jobs::is_alive(&place.paths, task, attempt);
        let view = if driven { view } else { view.undriven(is_alive) };
        if ui.json() {
            ui.data(&status_json(&view).to_string());
        } else {
            let show = Show {
                now: Time(Timestamp::now().as_millisecond()),
                verbose: ui.verbose(),
                columns: ui.columns(),
                paint: ui.paint(),
            };
            ui.data(&status_text(&view, show));
        }
        Ok(driven)
    };
    if !args.watch {
        print()?;
        return Ok(ExitCode::Done);
    }
    let changes = watch::changes(place.paths.dir())?;
    while print()? && !ui.reader_left() {
        changes.wait();
    }
    Ok(ExitCode::Done)
}
