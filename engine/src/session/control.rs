//! Sends commands to a run that another process drives, and applies them to a run that no process drives.

use mahabharatha_core::config::Ports;
use mahabharatha_core::graph::{OwnedPath, TaskGraph};
use mahabharatha_core::ids::{Level, TaskId, WorkerId};
use mahabharatha_core::names::suggestion;
use mahabharatha_core::run::effect::Answer;
use mahabharatha_core::run::event::{Command, Event, TaskBudget};
use mahabharatha_core::run::{End, Run, TaskStatus, record};
use mahabharatha_core::view::{RunView, approval_command};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::Git;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::store::spool::{self, Asked};

use super::undo::refuse_undone;
use super::{now, rebuild};
use crate::host::jobs;
use crate::lease::Lease;
use crate::report::files;
use crate::specs;

/// Fewest digits of an id that an approval takes, as with git.
const MIN_ID_DIGITS: usize = 4;

/// Reads the run from its journal; fails if there has been none.
pub fn read_run(place: &Place) -> Result<Run> {
    rebuild(&place.paths, &Journal::read(&place.paths.journal())?)?.ok_or_else(|| no_run(place))
}

pub fn no_run(place: &Place) -> Error {
    Error::new(Kind::Invalid, format!("there has been no run of {}", place.feature))
        .hint(format!("Start one: mahabharatha run {}", place.feature))
}

/// Returns the error for a name that is not a task of the run, with the nearest one.
pub fn no_such_task(run: &Run, name: &str) -> Error {
    let known: Vec<&str> = run.graph().tasks().iter().map(|task| task.id.as_str()).collect();
    let message = format!("{} has no task {name}", run.feature());
    Error::new(Kind::Usage, message).hint(suggestion(name, "tasks", &known))
}

/// Returns the error for a level that the graph does not have, with those that it has.
pub fn no_such_level(graph: &TaskGraph, level: Level) -> Error {
    let levels: Vec<String> = graph.levels().iter().map(Level::to_string).collect();
    Error::new(Kind::Usage, format!("{} has no level {level}", graph.feature))
        .hint(format!("The levels are: {}.", levels.join(", ")))
}

/// Fails if the run has no such worker.
pub fn check_worker(run: &Run, worker: WorkerId) -> Result<()> {
    let count = run.workers().len();
    if (worker.0 as usize) < count {
        return Ok(());
    }
    let hint = format!("The workers of {} are 0 to {}.", run.feature(), count.saturating_sub(1));
    Err(Error::new(Kind::Usage, format!("there is no worker {worker}")).hint(hint))
}

/// Returns the run as shown to the user. Whether a process drives it or a session holds its tasks is not in the
/// journal.
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

/// Updates the costs in the files of an earlier run after planning. The caller holds the feature's lock.
pub fn show_planning_cost(place: &Place) -> Result<()> {
    match rebuild(&place.paths, &Journal::read(&place.paths.journal())?)? {
        Some(run) => files::write_costs(&place.project, &place.paths, &run),
        None => Ok(()),
    }
}

/// Sends a command to the process that drives the run, or applies it here if there is none.
pub fn send(place: &Place, command: &Command) -> Result<Answer> {
    refuse_undone(&place.paths, &read_run(place)?)?;
    match spool::ask(place.paths.dir(), &place.paths.holder_file(), command)? {
        Asked::Answered(answer) => Ok(answer),
        Asked::TookLock { lock, request } => apply(place, &lock, request, command),
    }
}

/// Sends a command to the process that drives the run; fails if there is none. `verb` says what the user asked for.
pub fn send_to_driver(place: &Place, command: &Command, verb: &str) -> Result<Answer> {
    if is_driven(place)?
        && let Asked::Answered(answer) = spool::ask(place.paths.dir(), &place.paths.holder_file(), command)?
    {
        return Ok(answer);
    }
    unfinished_run(place, verb)?;
    Err(Error::new(Kind::Invalid, format!("no process drives {}", place.feature))
        .hint(format!("Resume it: mahabharatha run {}", place.feature)))
}

/// Returns the run if `run` can go on with it; fails if there has been none, or if it has ended for good.
fn unfinished_run(place: &Place, verb: &str) -> Result<Run> {
    let run = read_run(place)?;
    refuse_undone(&place.paths, &run)?;
    if run.ended() == Some(&End::Completed) {
        let message = format!("{} is completed, so there is no run to {verb}", place.feature);
        return Err(
            Error::new(Kind::Invalid, message).hint("Plan what is new as another feature: mahabharatha plan NAME")
        );
    }
    Ok(run)
}

/// Sets the number of workers of the run. Ports for more workers must be free.
pub fn scale(place: &Place, workers: u32, ports: &Ports) -> Result<Answer> {
    let run = unfinished_run(place, "scale")?;
    let added = workers.saturating_sub(run.workers().len() as u32);
    drop(place.project.lease_ports(ports, added)?);
    send(place, &Command::Scale { workers })
}

/// Approves the level that waits for it: the tree or staging commit that was shown to the user, or what waits at this
/// moment if `shown` is empty. Returns what to tell the user.
pub fn approve(place: &Place, level: Option<Level>, shown: &str) -> Result<String> {
    let is_id = shown.len() >= MIN_ID_DIGITS && shown.chars().all(|c| c.is_ascii_hexdigit());
    if !shown.is_empty() && !is_id {
        let message =
            format!("--approve: {shown:?} is no tree or commit: give at least {MIN_ID_DIGITS} digits of its id");
        return Err(Error::new(Kind::Usage, message));
    }
    let run = read_run(place)?;
    let waiting = run.awaiting_approval().filter(|(waiting, _)| level.is_none_or(|level| level == *waiting));
    let Some((level, candidate)) = waiting else {
        let what = level.map_or_else(|| "no level".to_string(), |level| format!("level {level}"));
        let does = if level.is_some() { "does not wait" } else { "waits" };
        return Err(Error::new(Kind::Invalid, format!("{what} of {} {does} for approval", place.feature))
            .hint("`mahabharatha status` shows what each level waits for."));
    };
    let shown = shown.to_ascii_lowercase();
    if ![&candidate.tree, &candidate.staging].iter().any(|id| id.as_str().starts_with(&shown)) {
        let what = format!("{shown} does not wait for approval: level {level} of {} has changed since", place.feature);
        let (base, staging) = (candidate.base.short(), candidate.staging.short());
        return Err(Error::new(Kind::Invalid, what).hint(format!(
            "`git diff {base}...{staging}` shows what waits now; `{}` approves it.",
            approval_command(&run, level, candidate),
        )));
    }
    let answer = send(place, &Command::Approve { level, tree: candidate.tree.clone() })?;
    let message = answer.message.unwrap_or_default();
    if answer.declined {
        return Err(Error::new(Kind::Invalid, message).hint("`mahabharatha status` shows what waits now."));
    }
    Ok(message)
}

/// Lets a task change files that it does not own: all of these paths, if the files of its base allow each of them, or
/// none.
pub fn grant(place: &Place, task: TaskId, paths: &[String]) -> Result<Answer> {
    let refused = |why: String| Error::new(Kind::Usage, format!("{why}; nothing is granted"));
    let read = |path: &String| {
        OwnedPath::read(path)
            .map_err(|why| refused(why).hint("A path is written as in a task graph: mahabharatha help task-graph"))
    };
    let owned = paths.iter().map(read).collect::<Result<Vec<_>>>()?;
    let run = read_run(place)?;
    if run.task(&task).is_none() {
        return Err(no_such_task(&run, task.as_str()));
    }
    let found = specs::start_tree(&place.project.git(), run.newest_base())?;
    if let Some(why) = owned.iter().find_map(|path| found.cannot_grant(path)) {
        return Err(refused(why));
    }
    send(place, &Command::Grant { task, paths: paths.to_vec() })
}

fn apply(place: &Place, lock: &FeatureLock, request: String, command: &Command) -> Result<Answer> {
    let (mut journal, records) = Journal::open_for_append(lock, &place.feature)?;
    let mut run = rebuild(&place.paths, &records)?.ok_or_else(|| no_run(place))?;
    if run.answer(&request).is_none() {
        let event = Event::Asked { request: request.clone(), command: command.clone() };
        record(&mut run, &mut journal, now(), &event)?;
        files::write_all(&place.project, &place.paths, &run)?;
    }
    Ok(run.answer(&request).cloned().unwrap_or_default())
}

/// Returns whether a process or a session drives the run now.
pub fn is_at_work(place: &Place) -> Result<bool> {
    Ok(is_driven(place)? || Lease::driving(place.paths.dir()).is_some())
}

/// Returns whether a process drives the run now.
pub fn is_driven(place: &Place) -> Result<bool> {
    Ok(FeatureLock::holder(place.paths.dir())?.is_some())
}

/// Requeues tasks (all blocked ones if none is named) with the user's note, and deletes the refs of the commits to be
/// replaced.
pub fn retry(place: &Place, tasks: Vec<TaskId>, max_usd: Option<f64>, note: Option<String>) -> Result<Answer> {
    let before = read_run(place)?;
    let answer = send(place, &Command::Retry { tasks, budget: Some(TaskBudget { max_usd }), note })?;
    let git = Git::repository(place.project.common_dir());
    for task in &answer.accepted {
        if let Some(TaskStatus::Completed { commit, .. }) = before.task(task).map(|state| &state.status)
            && git.resolve_ref(&place.paths.task_ref(task))?.as_ref() == Some(commit)
        {
            // Fails if the run has set the ref to a new commit in the meantime, which then stays.
            let _ = git.delete_ref(&place.paths.task_ref(task), Some(commit));
        }
    }
    Ok(answer)
}
