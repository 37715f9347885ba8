//! `retry`: requeues tasks that are blocked, skipped, or completed but not merged, with the user's answer to their agents.

use std::sync::Arc;

use clap::Args;
use mahabharatha_core::excerpt::few;
use mahabharatha_core::ids::TaskId;
use mahabharatha_core::run::Run;
use mahabharatha_core::run::notes::{MAX_NOTE_CHARS, checked_note};
use mahabharatha_engine::report::stream::event_line;
use mahabharatha_engine::session::diagnosis::changed_settings;
use mahabharatha_engine::session::{self, control};
use mahabharatha_engine::specs;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;
use super::run::RunArgs;
use super::{Global, answer};

/// Most bytes of a note from standard input; a character has at most four.
const MAX_NOTE_BYTES: u64 = 4 * MAX_NOTE_CHARS as u64;

#[derive(Debug, Args)]
pub struct RetryArgs {
    /// The tasks to retry
    tasks: Vec<String>,
    /// Every blocked task
    #[arg(long, conflicts_with = "tasks")]
    all: bool,
    /// Your answer or advice, for every later attempt at these tasks; `-` reads it from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    note: Option<String>,
    /// Continue the run in this process, as `run` does
    #[arg(long)]
    run: bool,
}

pub fn run(global: &Global, ui: &Arc<Ui>, args: &RetryArgs) -> Result<ExitCode> {
    if args.tasks.is_empty() && !args.all {
        return Err(Error::new(Kind::Usage, "no task is named").hint("Name tasks, or use --all for every blocked one."));
    }
    let note = args.note.as_deref().map(|note| read_note(ui, note)).transpose()?;
    let place = global.known_place(None)?;
    let tasks = answer::task_ids(&args.tasks)?;
    let before = control::read_run(&place)?;
    answer::check_tasks(&before, &tasks)?;
    let max_usd = specs::load_config(&place.project)?.budget.max_usd_per_task;
    let answer = control::retry(&place, tasks, max_usd, note)?;
    if args.all && answer.accepted.is_empty() && answer.refused.is_empty() && !ui.json() {
        ui.note("no task is blocked");
    }
    let goes_on = args.run && answer.refused.is_empty() && !control::is_driven(&place)?;
    if goes_on && ui.json() {
        // The first line of the stream that `run` prints.
        ui.data(&event_line(session::now(), "retried", &answer));
    } else {
        answer::print(ui, &answer, "queued again");
    }
    if goes_on {
        return super::run::run(global, ui, &RunArgs::in_lines());
    }
    answer::print_next_command(&place, ui, &answer)?;
    if !answer.accepted.is_empty() && control::is_driven(&place)? {
        warn_of_changes(&place, ui, &before);
    }
    let is_over =
        |task: &TaskId| before.task(task).is_some_and(|state| max_usd.is_some_and(|limit| state.spent_usd() >= limit));
    // Any other refusal is printed and counts as a failure.
    Ok(match answer.refused.as_slice() {
        [] => ExitCode::Done,
        refused if refused.iter().all(|refusal| is_over(&refusal.task)) => ExitCode::Paused,
        _ => ExitCode::Failed,
    })
}

/// Warns that the process which drives the run goes on with the configuration that it began with.
fn warn_of_changes(place: &Place, ui: &Ui, run: &Run) {
    let changed = changed_settings(place, run);
    if !changed.is_empty() {
        let feature = &place.feature;
        ui.warn(&format!(
            ".mahabharatha/config.yaml changed since this run began ({}), and the run does not use it yet: mahabharatha \
             stop {feature} && mahabharatha run {feature} --accept-config",
            few(&changed)
        ));
    }
}

/// Returns the note as it is kept; `-` stands for standard input.
fn read_note(ui: &Ui, note: &str) -> Result<String> {
    let refused = |why: String| {
        Error::new(Kind::Usage, why).hint(format!("A note is plain text of at most {MAX_NOTE_CHARS} characters."))
    };
    if note != "-" {
        return checked_note(note).map_err(refused);
    }
    let bytes = ui.input(MAX_NOTE_BYTES).map_err(Error::caused("cannot read standard input"))?;
    if bytes.len() as u64 > MAX_NOTE_BYTES {
        return Err(refused(format!("standard input has more than {MAX_NOTE_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| refused("standard input is not UTF-8".to_string()))?;
    checked_note(&text).map_err(refused)
}
