//! Follow-up tasks: work that follows on what a feature has merged, such as a review comment. They are appended to the
//! feature's graph, and the next `run` takes them up like any other change of the graph.

use mahabharatha_core::graph::{MAX_TIMEOUT_SECONDS, OwnedPath};
use mahabharatha_core::ids::{Level, TaskId};
use mahabharatha_core::run::Run;
use mahabharatha_core::spec::{FileLists, GraphFile, TaskSpec, Verification};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::atomic::write_atomic;
use mahabharatha_sys::store::locks::GraphLock;

use super::undo::refuse_undone;
use crate::specs;

/// A piece of work to be done after what is merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowUp {
    /// What it follows up. It names the work: one that the graph has already is not added again.
    pub source: String,
    pub title: String,
    /// What to do, for the agent.
    pub action: String,
    /// Files of the feature that it may change, as they are listed in a graph.
    pub files: Vec<String>,
}

/// Appends a follow-up to the graph of a feature and returns its id and level; `None` if the graph has it already. Nothing is
/// written unless the run can take it in.
pub fn append(place: &Place, run: &Run, follow_up: &FollowUp) -> Result<Option<(TaskId, Level)>> {
    refuse_undone(&place.paths, run)?;
    let _lock = GraphLock::wait(place.paths.dir())?;
    let tree = specs::start_tree(&place.project.git(), &run.setup().start)?;
    let mut file = specs::read_graph(&place.paths, &tree)?;
    if has(&file, &follow_up.source) {
        return Ok(None);
    }
    let task = task(&file, run, follow_up)?;
    let id = TaskId::new(task.id.clone()).map_err(|bad| Error::new(Kind::Invalid, bad.rule))?;
    let level = Level(task.level);
    file.tasks.push(task.into());
    file.total_tasks = file.total_tasks.map(|_| file.tasks.len() as u64);
    let rules = specs::load_config(&place.project)?.graph_rules();
    specs::valid_graph(&place.paths, &file, Some(&tree), rules)?;
    let too_late = run.cannot_replan(&file);
    if !too_late.is_empty() {
        let error = Error::new(Kind::Invalid, format!("the graph of {} cannot be extended", place.feature));
        return Err(too_late.into_iter().fold(error, Error::detail).hint("Put those tasks back as they were."));
    }
    write_atomic(&place.paths.graph(), file.to_json().as_bytes())?;
    Ok(Some((id, level)))
}

/// Returns whether the graph has a task for this work.
pub fn has(file: &GraphFile, source: &str) -> bool {
    file.tasks.iter().any(|task| task.follow_up.as_deref() == Some(source))
}

/// Returns the task of a follow-up. It depends on all tasks that own its files, or a part of them, and passes the
/// verifications of all; in everything else it is like the last of them.
fn task(file: &GraphFile, run: &Run, follow_up: &FollowUp) -> Result<TaskSpec> {
    let FollowUp { source, title, action, files } = follow_up;
    let wanted = files.iter().map(|file| OwnedPath::read(file)).collect::<Result<Vec<_>, _>>();
    let wanted = wanted.map_err(|why| Error::new(Kind::Invalid, format!("{source}: {why}")))?;
    let touches = |task: &&TaskSpec| owned(task, run).iter().any(|own| wanted.iter().any(|path| own.overlaps(path)));
    let owners: Vec<&TaskSpec> = file.tasks.iter().map(|task| &**task).filter(touches).collect();
    let owns = |path: &OwnedPath| owners.iter().any(|task| owned(task, run).iter().any(|own| covers(own, path)));
    let last = owners.iter().max_by_key(|task| task.level);
    let (Some(last), true) = (last, wanted.iter().all(owns)) else {
        let message = format!("{source} names a file that no task of {} owns", run.feature());
        return Err(Error::new(Kind::Invalid, message));
    };
    // Those of other follow-ups repeat what the tasks before them have.
    let first_owners = owners.iter().filter(|task| task.follow_up.is_none());
    let verification = one_after_the_other(first_owners.map(|task| &task.verification));
    let number = (1..).find(|number| file.tasks.iter().all(|task| task.id != name(*number))).unwrap_or(1);
    Ok(TaskSpec {
        id: name(number),
        title: title.clone(),
        level: level(file, run, &wanted),
        files: FileLists { modify: files.clone(), ..FileLists::default() },
        dependencies: owners.iter().map(|task| task.id.clone()).collect(),
        verification,
        description: None,
        action: Some(action.clone()),
        done: None,
        estimate_minutes: None,
        estimate_tokens: None,
        follow_up: Some(source.clone()),
        ..(*last).clone()
    })
}

/// Returns a verification that passes if all of these do. Each has its own time.
fn one_after_the_other<'a>(all: impl Iterator<Item = &'a Verification>) -> Verification {
    let mut commands: Vec<(&str, u64)> = Vec::new();
    for Verification { command, timeout_seconds, .. } in all.filter(|one| !one.command.trim().is_empty()) {
        match commands.iter_mut().find(|(known, _)| known == command) {
            Some((_, longest)) => *longest = (*longest).max(*timeout_seconds),
            None => commands.push((command.as_str(), *timeout_seconds)),
        }
    }
    let total = commands.iter().fold(0, |total: u64, (_, seconds)| total.saturating_add(*seconds));
    let (command, timeout_seconds) = match commands[..] {
        [] => return Verification::default(),
        [(one, seconds)] => (one.to_owned(), seconds),
        _ => {
            let parts: Vec<String> = commands.iter().map(|(command, _)| format!("(\n{command}\n)")).collect();
            (parts.join(" && "), total.min(MAX_TIMEOUT_SECONDS))
        }
    };
    Verification { command, timeout_seconds, ..Verification::default() }
}

/// Returns the last level if it has only follow-ups of other files and has not begun, else a new one.
fn level(file: &GraphFile, run: &Run, wanted: &[OwnedPath]) -> u32 {
    let top = file.tasks.iter().map(|task| task.level).max().unwrap_or_default();
    let has_begun = run.levels().iter().any(|state| state.level.0 == top && state.base.is_some());
    let fits = |task: &TaskSpec| {
        let overlaps = |own: &OwnedPath| wanted.iter().any(|path| own.overlaps(path));
        task.follow_up.is_some() && !owned(task, run).iter().any(overlaps)
    };
    let is_open = !has_begun && file.tasks.iter().filter(|task| task.level == top).all(|task| fits(task));
    if is_open { top } else { top.saturating_add(1) }
}

fn name(number: u32) -> String {
    format!("FOLLOW-{number:03}")
}

/// Returns what a task of the graph file lists, and what it was granted in the run.
fn owned(task: &TaskSpec, run: &Run) -> Vec<OwnedPath> {
    let listed = task.files.create.iter().chain(&task.files.modify);
    let granted = TaskId::new(task.id.clone()).ok().and_then(|id| run.graph().task(&id));
    let granted = granted.into_iter().flat_map(|task| task.owned.clone());
    listed.filter_map(|path| OwnedPath::read(path).ok()).chain(granted).collect()
}

/// Returns whether one owned path is another or has it below.
fn covers(own: &OwnedPath, path: &OwnedPath) -> bool {
    own.covers(&path.path) || (own.directory && own.path == path.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verification_runs_once_and_has_its_own_time() {
        let of = |command: &str, timeout_seconds| Verification {
            command: command.to_owned(),
            timeout_seconds,
            ..Verification::default()
        };
        let all = [of("make a", 60), of(" ", 5), of("make b", 30), of("make a", 90)];
        assert_eq!(one_after_the_other(all.iter()), of("(\nmake a\n) && (\nmake b\n)", 120));
        assert_eq!(one_after_the_other(all[..2].iter()), of("make a", 60));
        assert_eq!(one_after_the_other(all[1..2].iter()), Verification::default());
        let long = [of("a", MAX_TIMEOUT_SECONDS), of("b", 1)];
        assert_eq!(one_after_the_other(long.iter()).timeout_seconds, MAX_TIMEOUT_SECONDS);
    }
}
