//! `skip`: skips tasks, and the tasks that depend on them.

use clap::Args;
use mahabharatha_core::ids::TaskId;
use mahabharatha_core::run::event::Command;
use mahabharatha_engine::session::control;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;
use super::{Global, answer};

#[derive(Debug, Args)]
pub struct SkipArgs {
    /// The tasks to skip
    #[arg(required = true)]
    tasks: Vec<String>,
    /// Why; shown in the reports
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: String,
    /// Keep the tasks that depend on them
    #[arg(long)]
    keep_dependents: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &SkipArgs) -> Result<ExitCode> {
    let place = global.known_place(None)?;
    let tasks = answer::task_ids(&args.tasks)?;
    let run = control::read_run(&place)?;
    answer::check_tasks(&run, &tasks)?;
    // What cannot be skipped is refused without a question.
    let skippable: Vec<TaskId> =
        tasks.iter().filter(|task| run.can_skip(task, args.keep_dependents)).cloned().collect();
    let dependents = run.skipped_with(&skippable);
    if !args.keep_dependents && !dependents.is_empty() {
        let names: Vec<&str> = dependents.iter().map(TaskId::as_str).collect();
        ui.note(&format!("Tasks that depend on them are skipped too: {}", names.join(", ")));
        if !ui
            .confirm("Skip them all?", "--yes, or --keep-dependents")
            .map_err(|unanswered| Error::new(Kind::Usage, unanswered.to_string()))?
        {
            ui.note("Nothing was skipped.");
            return Ok(ExitCode::Done);
        }
    }
    let command = Command::Skip { tasks, reason: args.reason.clone(), keep_dependents: args.keep_dependents };
    let answer = control::send(&place, &command)?;
    let code = answer::print(ui, &answer, "skipped");
    answer::print_next_command(&place, ui, &answer)?;
    Ok(code)
}
