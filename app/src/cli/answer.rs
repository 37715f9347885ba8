//! Prints a run's answer to a command, as text or JSON.

use mahabharatha_core::ids::TaskId;
use mahabharatha_core::run::Run;
use mahabharatha_core::run::effect::Answer;
use mahabharatha_engine::lease::Lease;
use mahabharatha_engine::session::control::{self, is_driven, no_such_task};
use mahabharatha_engine::session::diagnosis::changed_settings;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;

/// Prints the command that continues a run which no process drives.
pub fn print_next_command(place: &Place, ui: &Ui, answer: &Answer) -> Result<()> {
    if answer.accepted.is_empty() || is_driven(place)? {
        return Ok(());
    }
    if let Some(lease) = Lease::driving(place.paths.dir()) {
        ui.note(&format!("Session {} goes on with: mahabharatha task next -f {}", lease.session, place.feature));
    } else {
        let changed = changed_settings(place, &control::read_run(place)?);
        let accept = if changed.is_empty() { "" } else { " --accept-config" };
        ui.note(&format!("{0} is not running. Continue with: mahabharatha run {0}{accept}", place.feature));
    }
    Ok(())
}

/// Prints which tasks were accepted and which were refused. Any refusal is a failure.
pub fn print(ui: &Ui, answer: &Answer, done: &str) -> ExitCode {
    if ui.json() {
        ui.pretty(answer);
    } else {
        for task in &answer.accepted {
            ui.note(&format!("{task}: {done}"));
        }
        for refusal in &answer.refused {
            ui.warn(&format!("{}: not {done}: {}", refusal.task, refusal.why));
        }
    }
    if answer.refused.is_empty() { ExitCode::Done } else { ExitCode::Failed }
}

/// Fails if the run does not have one of the tasks.
pub fn check_tasks(run: &Run, tasks: &[TaskId]) -> Result<()> {
    match tasks.iter().find(|task| run.task(task).is_none()) {
        Some(unknown) => Err(no_such_task(run, unknown.as_str())),
        None => Ok(()),
    }
}

/// Parses task ids from the command line.
pub fn task_ids(names: &[String]) -> Result<Vec<TaskId>> {
    names.iter().map(|name| task_id(name)).collect()
}

/// Parses a task id from the command line.
pub fn task_id(name: &str) -> Result<TaskId> {
    TaskId::new(name).map_err(|bad| Error::new(Kind::Usage, bad.to_string()))
}
