//! Checks a graph file and reports every problem in one pass.

use std::collections::{BTreeMap, BTreeSet};

use super::Severity::{Error, Warning};
use super::report::{Problem, Report, shown};
use super::{
    OwnedPath, Rules, StartTree, Task, TaskGraph, claims, dependencies, disabled_checks, fields, owners, reads,
};
use crate::ids::{BadName, Feature, Level, TaskId};
use crate::spec::{Effort, GraphFile, Shared, TaskSpec};

/// Longest timeout of a verification. Anything longer is a mistake, and could overflow time arithmetic.
pub const MAX_TIMEOUT_SECONDS: u64 = 7 * 24 * 60 * 60;
/// Longest estimate, for the same reason.
const MAX_ESTIMATE_MINUTES: f64 = 365.0 * 24.0 * 60.0;

pub(super) fn check(file: &GraphFile, start: Option<&StartTree>, rules: Rules) -> (Option<TaskGraph>, Vec<Problem>) {
    let mut report = Report::new(file);
    let feature = check_header(&mut report, file);
    let first = check_ids(&mut report, file);
    fields::check(&mut report, file);
    for (index, task) in file.tasks.iter().enumerate() {
        check_task(&mut report, index, task);
    }
    let needs = dependencies::check(&mut report, file, &first);
    let claims = claims::read(&mut report, file, &first);
    let made = owners::check(&mut report, file, &claims, &needs, rules);
    if let Some(start) = start {
        claims::check_start(&mut report, &claims, &made, start);
        // Only for a new graph, so that a run that has begun can always be replayed.
        disabled_checks::check(&mut report, file);
    }
    reads::check(&mut report, file, &claims, start);

    let graph = feature.filter(|_| !report.has_errors()).and_then(|feature| {
        let mut owned = vec![Vec::new(); file.tasks.len()];
        for claim in claims {
            owned[claim.task].push(claim.owned);
        }
        let tasks = file.tasks.iter().zip(owned).map(|(spec, owned)| task(spec, owned)).collect::<Option<_>>()?;
        Some(TaskGraph::assemble(feature, tasks))
    });
    (graph, report.finish())
}

fn check_header(report: &mut Report, file: &GraphFile) -> Option<Feature> {
    if file.tasks.is_empty() {
        report.whole(Error, "no_tasks", "the graph has no tasks".to_owned());
    }
    if let Some(total) = file.total_tasks.filter(|total| *total != file.tasks.len() as u64) {
        let message = format!("total_tasks says {total}, but there are {} tasks", file.tasks.len());
        report.whole(Warning, "total_tasks", message);
    }
    Feature::new(file.feature.clone()).map_err(|bad| report.whole(Error, "bad_feature", bad_name(&bad))).ok()
}

fn bad_name(bad: &BadName) -> String {
    format!("{} is not a valid {}: {}", shown(&bad.value), bad.what, bad.rule)
}

/// Checks the ids, and returns the index of the first task with each id.
fn check_ids<'f>(report: &mut Report, file: &'f GraphFile) -> BTreeMap<&'f str, usize> {
    let mut first = BTreeMap::new();
    let mut first_ignoring_case: BTreeMap<String, &str> = BTreeMap::new();
    for (index, task) in file.tasks.iter().enumerate() {
        if let Err(bad) = TaskId::new(task.id.clone()) {
            report.task(Error, "bad_task_id", index, bad_name(&bad));
        }
        let alike = *first_ignoring_case.entry(task.id.to_ascii_lowercase()).or_insert(&task.id);
        if first.contains_key(task.id.as_str()) {
            let message = format!("the id {} is used by an earlier task", shown(&task.id));
            report.task(Error, "duplicate_task_id", index, message);
            continue;
        }
        first.insert(task.id.as_str(), index);
        if alike != task.id {
            let message = format!(
                "the id {} differs from {} only in case, which some file systems ignore",
                shown(&task.id),
                shown(alike)
            );
            report.task(Error, "duplicate_task_id", index, message);
        }
    }
    first
}

fn check_task(report: &mut Report, index: usize, task: &TaskSpec) {
    if task.title.trim().is_empty() || task.title.contains(char::is_control) {
        let message = "the title must be one line of text; it becomes the subject of the task's commit";
        report.task(Error, "bad_title", index, message.to_owned());
    }
    let commands = [("verification", Some(&task.verification.command)), ("run", task.run.as_ref())];
    for (name, _) in commands.iter().filter(|(_, command)| command.is_some_and(|command| command.contains('\0'))) {
        report.task(Error, "bad_command", index, format!("the {name} command contains a NUL character"));
    }
    if task.verification.command.trim().is_empty() {
        let message = "has no verification command, so any result of the agent counts as done";
        report.task(Warning, "empty_verification", index, message.to_owned());
    }
    let timeout = task.verification.timeout_seconds;
    if !(1..=MAX_TIMEOUT_SECONDS).contains(&timeout) {
        let message = format!("the verification timeout is {timeout} seconds; use 1 to {MAX_TIMEOUT_SECONDS} (a week)");
        report.task(Error, "bad_timeout", index, message);
    }
    if let Some(minutes) = task.estimate_minutes.filter(|minutes| !(0.0..=MAX_ESTIMATE_MINUTES).contains(minutes)) {
        let message =
            format!("the estimate is {minutes:?} minutes; use 0 to {MAX_ESTIMATE_MINUTES} (a year), or leave it out");
        report.task(Error, "bad_estimate", index, message);
    }
    if let Some(effort) = task.effort.as_ref().filter(|effort| Effort::read(effort).is_none()) {
        let known = Effort::ALL.map(Effort::as_str).join(", ");
        report.task(Error, "bad_effort", index, format!("the effort is {}; use one of {known}", shown(effort)));
    }
    if task.files.create.is_empty() && task.files.modify.is_empty() {
        let message = "owns no files, so it cannot change anything; list files under `create` or `modify`";
        report.task(Warning, "owns_nothing", index, message.to_owned());
    }
}

fn task(spec: &Shared<TaskSpec>, mut owned: Vec<OwnedPath>) -> Option<Task> {
    let mut known = BTreeSet::new();
    let once = spec.dependencies.iter().filter(|dependency| known.insert(dependency.as_str()));
    let dependencies = once.map(|dependency| TaskId::new(dependency.clone()).ok()).collect::<Option<_>>()?;
    owned.sort();
    owned.dedup();
    Some(Task {
        id: TaskId::new(spec.id.clone()).ok()?,
        level: Level(spec.level),
        dependencies,
        owned,
        spec: spec.clone(),
    })
}
