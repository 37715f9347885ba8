//! Checks a graph file and reports every problem in one pass.

use std::collections::BTreeSet;

use super::Severity::{Error, Warning};
use super::index::Index;
use super::report::{Problem, Report, shown};
use super::{
    OwnedPath, Rules, StartTree, Task, TaskGraph, claims, dependencies, disabled_checks, fields, owners, reads,
};
use crate::ids::{BadName, Feature, Level, TaskId};
use crate::spec::{Effort, GraphFile, TaskSpec};

/// Longest timeout of a verification. Anything longer is a mistake, and could overflow time arithmetic.
pub const MAX_TIMEOUT_SECONDS: u64 = 7 * 24 * 60 * 60;
/// Longest estimate, for the same reason.
const MAX_ESTIMATE_MINUTES: f64 = 365.0 * 24.0 * 60.0;

pub(super) fn check(file: &GraphFile, start: Option<&StartTree>, rules: Rules) -> (Option<TaskGraph>, Vec<Problem>) {
    let mut report = Report::new(file);
    let feature = check_header(&mut report, file);
    let (ids, names) = check_ids(&mut report, file);
    fields::check(&mut report, file);
    for (index, task) in file.tasks.iter().enumerate() {
        check_task(&mut report, index, task);
    }
    let needs = dependencies::check(&mut report, file, &ids);
    let claims = claims::read(&mut report, file, &ids);
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
        let names = names.into_iter().collect::<Option<Vec<TaskId>>>()?;
        let task = |(index, mut owned): (usize, Vec<OwnedPath>)| {
            owned.sort();
            owned.dedup();
            let (spec, id) = (file.tasks[index].clone(), names[index].clone());
            // Shared with the tasks themselves.
            let dependencies = needs.get(index).iter().map(|&need| names[need].clone()).collect();
            Task { id, level: Level(spec.level), dependencies, owned, spec }
        };
        let tasks = owned.into_iter().enumerate().map(task).collect();
        Some(TaskGraph::assemble(feature, tasks, &needs, ids))
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

/// Checks the ids. Returns the index of them, and each as a name unless it is none.
fn check_ids(report: &mut Report, file: &GraphFile) -> (Index, Vec<Option<TaskId>>) {
    let mut names = Vec::with_capacity(file.tasks.len());
    for (index, task) in file.tasks.iter().enumerate() {
        let name = TaskId::new(task.id.as_str());
        names.push(name.map_err(|bad| report.task(Error, "bad_task_id", index, bad_name(&bad))).ok());
    }
    let ids = Index::new(file.tasks.len(), |task| &file.tasks[task].id);
    let lower: Vec<String> = file.tasks.iter().map(|task| task.id.to_ascii_lowercase()).collect();
    let sorted: Vec<usize> = Index::new(lower.len(), |task| &lower[task]).sorted().collect();
    for alike in sorted.chunk_by(|one, other| lower[*one] == lower[*other]).filter(|alike| alike.len() > 1) {
        report_alike(report, file, alike);
    }
    (ids, names)
}

/// Reports tasks, in the order of the file, whose ids are the same or differ only in case.
fn report_alike(report: &mut Report, file: &GraphFile, alike: &[usize]) {
    let first = &file.tasks[alike[0]].id;
    let mut known = BTreeSet::new();
    for &index in alike {
        let id = &file.tasks[index].id;
        if !known.insert(id) {
            let message = format!("the id {} is used by an earlier task", shown(id));
            report.task(Error, "duplicate_task_id", index, message);
        } else if id != first {
            let message = format!(
                "the id {} differs from {} only in case, which some file systems ignore",
                shown(id),
                shown(first)
            );
            report.task(Error, "duplicate_task_id", index, message);
        }
    }
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
    if task.verification.is_blank() {
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
