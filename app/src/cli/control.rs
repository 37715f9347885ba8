//! Commands to a run from another terminal, or to one that nobody drives.

use jiff::Timestamp;
use mahabharatha_core::ids::{TaskId, Time};
use mahabharatha_core::names::suggestion;
use mahabharatha_core::run::effect::Answer;
use mahabharatha_core::run::event::{Command, Event};
use mahabharatha_core::run::{Run, record};
use mahabharatha_core::view::RunView;

use super::place::Place;
use crate::error::{Error, ExitCode, Result};
use crate::host::jobs;
use crate::lease::Lease;
use crate::report::files;
use crate::session;
use crate::store::journal::Journal;
use crate::store::locks::FeatureLock;
use crate::store::spool::{self, Asked};
use crate::ui::Ui;

/// The run as its journal tells it; an error where there has been none.
pub fn read_run(place: &Place) -> Result<Run> {
    session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)?.ok_or_else(|| no_run(place))
}

pub fn no_run(place: &Place) -> Error {
    Error::new(ExitCode::Invalid, format!("there has been no run of {}", place.feature))
        .hint(format!("Start one: mahabharatha run {}", place.feature))
}

/// The run as it is now. Its journal does not tell whether somebody still drives it, or holds its tasks.
pub fn view(place: &Place, run: &Run, driven: bool) -> Result<RunView> {
    let view = files::view(&place.paths, run)?;
    if driven {
        return Ok(view);
    }
    let is_held = |task: &TaskId| {
        let holder = run.held().find(|(job, _)| job.task == *task);
        holder.is_some_and(|(_, session)| Lease::of(place.paths.dir(), session).is_some())
    };
    Ok(view.undriven(|task, attempt| is_held(task) || jobs::is_alive(&place.paths, task, attempt)))
}

/// Has the files of an earlier run show what planning has cost since. The caller holds the feature's lock.
pub fn show_planning_cost(place: &Place) -> Result<()> {
    match session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)? {
        Some(run) => files::write_costs(&place.project, &place.paths, &run),
        None => Ok(()),
    }
}

/// Has the run's process carry a command out, or does so itself where none is alive.
pub fn send(place: &Place, command: &Command) -> Result<Answer> {
    read_run(place)?;
    match spool::ask(place.paths.dir(), &place.paths.lock_sign(), command)? {
        Asked::Answered(answer) => Ok(answer),
        Asked::TookLock { lock, request } => apply(place, &lock, request, command),
    }
}

fn apply(place: &Place, lock: &FeatureLock, request: String, command: &Command) -> Result<Answer> {
    let (mut journal, records) = Journal::open_for_append(lock, &place.feature)?;
    let mut run = session::rebuild(&place.paths, &records)?.ok_or_else(|| no_run(place))?;
    if run.answer(&request).is_none() {
        let now = Time(Timestamp::now().as_millisecond());
        let event = Event::Asked { request: request.clone(), command: command.clone() };
        record(&mut run, &mut journal, now, &event)?;
        files::write_all(&place.project, &place.paths, &run)?;
    }
    Ok(run.answer(&request).cloned().unwrap_or_default())
}

/// Says how what was queued or left out comes into effect, where nobody is at it.
pub fn say_how_to_go_on(place: &Place, ui: &Ui, answer: &Answer) -> Result<()> {
    if answer.accepted.is_empty() || is_driven(place)? {
        return Ok(());
    }
    if let Some(lease) = Lease::driving(place.paths.dir()) {
        ui.note(&format!("Session {} goes on with: mahabharatha task next -f {}", lease.session, place.feature));
    } else {
        ui.note(&format!("Nothing runs now; go on with: mahabharatha run {}", place.feature));
    }
    Ok(())
}

/// Whether a process drives the run now.
pub fn is_driven(place: &Place) -> Result<bool> {
    Ok(FeatureLock::holder(place.paths.dir())?.is_some())
}

/// Says what was done and what was not; not everything done is a failure.
pub fn print_answer(ui: &Ui, answer: &Answer, done: &str) -> ExitCode {
    if ui.json() {
        ui.data(&serde_json::to_string_pretty(answer).expect("an answer has string keys only"));
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

/// An error for a name that is no task of the run.
pub fn no_such_task(run: &Run, name: &str) -> Error {
    let message = format!("{} has no task {name}", run.feature());
    Error::new(ExitCode::Usage, message).hint(task_suggestion(run, name))
}

fn task_suggestion(run: &Run, name: &str) -> String {
    let known: Vec<&str> = run.graph().tasks().iter().map(|task| task.id.as_str()).collect();
    suggestion(name, "tasks", &known)
}

/// Names the tasks that may have been meant where some are unknown.
pub fn suggest_tasks(ui: &Ui, run: &Run, answer: &Answer) {
    let unknown = answer.refused.iter().find(|refusal| run.task(&refusal.task).is_none());
    if let Some(refusal) = unknown {
        ui.note(&task_suggestion(run, refusal.task.as_str()));
    }
}

/// Task ids as the command line has them.
pub fn task_ids(names: &[String]) -> Result<Vec<TaskId>> {
    names
        .iter()
        .map(|name| TaskId::new(name.clone()).map_err(|bad| Error::new(ExitCode::Usage, bad.to_string())))
        .collect()
}
