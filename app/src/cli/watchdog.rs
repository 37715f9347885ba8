//! `watchdog`: kills the agent of `plan` or `design` if that command is killed. Started by the command itself.

use std::path::PathBuf;

use clap::Args;
use mahabharatha_engine::host::jobs;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct WatchdogArgs {
    /// Marker of the processes to kill
    mark: PathBuf,
}

pub fn run(ui: &Ui, args: &WatchdogArgs) -> Result<ExitCode> {
    // Returns at the end of stdin, which is closed when the command that started this process exits for any reason.
    let _ = ui.input(0);
    jobs::end_escaped(&args.mark);
    Ok(ExitCode::Done)
}
