//! `retry`: requeues tasks that are blocked, skipped, or completed but not merged.

use clap::Args;
use mahabharatha_core::ids::TaskId;
use mahabharatha_engine::session::control;
use mahabharatha_engine::specs;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;
use super::{Global, answer};

#[derive(Debug, Args)]
pub struct RetryArgs {
    /// The tasks to retry
    tasks: Vec<String>,
    /// Every blocked task
    #[arg(long, conflicts_with = "tasks")]
    all: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &RetryArgs) -> Result<ExitCode> {
    if args.tasks.is_empty() && !args.all {
        return Err(Error::new(Kind::Usage, "no task is named").hint("Name tasks, or use --all for every blocked one."));
    }
    let place = global.known_place(None)?;
    let before = control::read_run(&place)?;
    let max_usd = specs::load_config(&place.project)?.budget.max_usd_per_task;
    let answer = control::retry(&place, answer::task_ids(&args.tasks)?, max_usd)?;
    if args.all && answer.accepted.is_empty() && answer.refused.is_empty() && !ui.json() {
        ui.note("no task is blocked");
    }
    let code = answer::print(ui, &answer, "queued again");
    answer::suggest_tasks(ui, &before, &answer);
    answer::print_next_command(&place, ui, &answer)?;
    let is_over =
        |task: &TaskId| before.task(task).is_some_and(|state| max_usd.is_some_and(|limit| state.spent_usd() >= limit));
    // Any other refusal is printed and counts as a failure.
    let only_budgets = !answer.refused.is_empty() && answer.refused.iter().all(|refusal| is_over(&refusal.task));
    Ok(if only_budgets { ExitCode::Paused } else { code })
}
