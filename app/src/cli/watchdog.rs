//! `watchdog`: ends what an asked agent left running when the command that asked it was killed.

use std::path::PathBuf;

use clap::Args;
use mahabharatha_engine::host::jobs;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct WatchdogArgs {
    /// The mark of those that are to end
    mark: PathBuf,
}

pub fn run(ui: &Ui, args: &WatchdogArgs) -> Result<ExitCode> {
    // Its other end is closed by the death of who asked, however that came.
    let _ = ui.input(0);
    jobs::end_escaped(&args.mark);
    Ok(ExitCode::Done)
}
