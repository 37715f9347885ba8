//! `status`: how far a feature is.

use clap::Args;
use mahabharatha_core::view::RunView;

use super::{Global, steer};
use crate::error::{ExitCode, Result};
use crate::report::status;
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
        if ui.json() {
            ui.data(&status::json(&view, driven));
        } else {
            ui.data(&status::table(&view, driven, ui.verbose(), ui.width()));
        }
        Ok(driven)
    };
    if !args.watch {
        print()?;
        return Ok(ExitCode::Done);
    }
    let changes = watch::changes(place.paths.dir())?;
    while print()? {
        changes.wait();
    }
    Ok(ExitCode::Done)
}
