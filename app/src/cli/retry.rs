//! `retry`: another try at tasks that are blocked, skipped or completed but not merged.

use clap::Args;
use mahabharatha_core::ids::TaskId;
use mahabharatha_core::run::event::{Command, TaskBudget};
use mahabharatha_core::run::{Run, TaskStatus};

use super::place::Place;
use super::{Global, control};
use crate::error::{Error, ExitCode, Result};
use crate::git::Git;
use crate::specs;
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
    let place = global.known_place(None)?;
    let before = control::read_run(&place)?;
    let max_usd = specs::load_config(&place.project)?.budget.max_usd_per_task;
    let command = Command::Retry { tasks: control::task_ids(&args.tasks)?, budget: Some(TaskBudget { max_usd }) };
    let answer = control::send(&place, &command)?;
    drop_commits(&place, &before, &answer.accepted)?;
    if args.all && answer.accepted.is_empty() && answer.refused.is_empty() && !ui.json() {
        ui.note("no task is blocked");
    }
    let code = control::print_answer(ui, &answer, "queued again");
    control::suggest_tasks(ui, &before, &answer);
    control::say_how_to_go_on(&place, ui, &answer)?;
    let is_over =
        |task: &TaskId| before.task(task).is_some_and(|state| max_usd.is_some_and(|limit| state.spent_usd() >= limit));
    // What else was refused is said, and a failure of its own.
    let only_budgets = !answer.refused.is_empty() && answer.refused.iter().all(|refusal| is_over(&refusal.task));
    Ok(if only_budgets { ExitCode::Paused } else { code })
}

/// Lets go of what was made before. Where the run has set the ref anew meanwhile, it stays.
fn drop_commits(place: &Place, before: &Run, retried: &[TaskId]) -> Result<()> {
    let git = Git::repository(place.project.common_dir());
    for task in retried {
        if let Some(TaskStatus::Completed { commit, .. }) = before.task(task).map(|state| &state.status)
            && git.resolve_ref(&place.paths.task_ref(task))?.as_ref() == Some(commit)
        {
            // Fails where it was set anew in this very moment; then it is not ours to drop.
            let _ = git.delete_ref(&place.paths.task_ref(task), Some(commit));
        }
    }
    Ok(())
}
