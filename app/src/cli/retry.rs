//! `retry`: another try at tasks that are blocked, skipped or completed but not merged.

use clap::Args;
use mahabharatha_core::run::event::Command;

use super::{Global, steer};
use crate::error::{Error, ExitCode, Result};
use crate::ui::Ui;

#[derive(Debug, Args)]
pub struct RetryArgs {
    /// The tasks to try again
    tasks: Vec<String>,
    /// Every blocked task
    #[arg(long, conflicts_with = "tasks")]
    all: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &RetryArgs) -> Result<ExitCode> {
    if args.tasks.is_empty() && !args.all {
        return Err(
            Error::new(ExitCode::Usage, "no task is named").hint("Name tasks, or use --all for every blocked one.")
        );
    }
    let place = global.place(None)?;
    let answer = steer::steer(&place, &Command::Retry { tasks: steer::task_ids(&args.tasks)? })?;
    if args.all && answer.accepted.is_empty() && answer.refused.is_empty() && !ui.json() {
        ui.note("no task is blocked");
    }
    let code = steer::print_answer(ui, &answer, "queued again");
    if !answer.accepted.is_empty() && !steer::is_driven(&place)? {
        ui.note(&format!("Nothing runs now; go on with: mahabharatha run {}", place.feature));
    }
    Ok(code)
}
