//! Closes a feature after its last level: checks that every level is merged, writes the completion report, cleans up.

use std::collections::BTreeSet;

use mahabharatha_core::graph::{Task, TracedCriterion, trace};
use mahabharatha_core::ids::{Level, Oid};
use mahabharatha_core::run::event::{Event, GateFailure, GatePass, Note, verification_name};
use mahabharatha_core::run::{LevelStatus, Run, TaskState, TaskStatus};
use mahabharatha_core::spec::Requirements;
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::store::journal::Journal;

use super::{Context, cleanup};
use crate::report::completion_md::{FailedGate, FileChange, Findings, GateResult, GateStatus};
use crate::report::files;
use crate::worker;

/// Writes the completion report from the journal and removes leftovers. Fails if the branch lacks a merged level.
pub fn close(context: &Context, run: &Run) -> Result<()> {
    let branch = run.landing_branch();
    let tip = context
        .repository
        .resolve_ref(&branch)?
        .ok_or_else(|| Error::new(Kind::Failed, format!("the branch {branch} is gone")))?;
    for level in run.levels() {
        if let LevelStatus::Merged { commit, .. } = &level.status
            && !context.repository.is_ancestor(commit, &tip)?
        {
            let (level, commit, branch) = (level.level, commit.short(), short_branch(&branch));
            let message = format!("level {level} was merged as {commit}, which {branch} no longer contains");
            return Err(Error::new(Kind::Failed, message).hint(format!("Merge {commit} into {branch} again.")));
        }
    }
    files::write_completion(&context.paths, run, &findings(context, run, &tip)?)?;
    crash::point(|| "close with the report written");
    if context.config.cleanup.on_completion {
        worker::save_leftovers(context.paths.dir())?;
        let leftovers = cleanup::leftovers(&context.project, &context.paths, Some(run), false)?.into_iter();
        let things: Vec<cleanup::What> =
            leftovers.filter(|leftover| leftover.precious.is_none()).map(|leftover| leftover.what).collect();
        let keeps = context.config.cleanup.keep_worktrees;
        let things: Vec<cleanup::What> =
            things.into_iter().filter(|what| !keeps || !what.belongs_to_worktrees()).collect();
        cleanup::remove(&context.project, &context.paths, &things)?;
    }
    Ok(())
}

fn findings(context: &Context, run: &Run, tip: &Oid) -> Result<Findings> {
    let gates = gate_results(context, run)?;
    let failed_gates = failed_gates(context, &gates)?;
    let (commits, changes) = (commits(context, tip)?, changes(context, tip)?);
    let criteria = criteria(context, run);
    let (estimate, agents) = match context.estimate(run)? {
        Some((estimate, actual, agents)) => (Some((estimate, actual)), agents),
        None => (None, Vec::new()),
    };
    let has_gates = !context.config.quality_gates.is_empty();
    let tasks = run.graph().tasks().iter().zip(run.tasks());
    let is_unverified = |(task, state): &(&Task, &TaskState)| {
        matches!(state.status, TaskStatus::Completed { .. }) && task.spec.verification.is_blank()
    };
    let unverified = tasks.filter(is_unverified).count();
    Ok(Findings { gates, has_gates, unverified, failed_gates, commits, changes, criteria, estimate, agents })
}

/// Returns every failed gate run, including gates that passed later.
fn failed_gates(context: &Context, results: &[GateResult]) -> Result<Vec<FailedGate>> {
    let passed_later = |level: Level, failure: &GateFailure| {
        let matches = |result: &&GateResult| {
            result.level == level && result.command == failure.command && result.name == failure.gate
        };
        results.iter().find(matches).is_some_and(|result| result.status == GateStatus::Passed)
    };
    let mut failed = Vec::new();
    for entry in Journal::read(&context.paths.journal())? {
        match entry.event {
            Event::BaseChecked { red, .. } => {
                failed.extend(red.into_iter().map(|failure| FailedGate { level: None, failure, passed_later: false }));
            }
            Event::GateFailed { level, failure, .. } => {
                let passed_later = passed_later(level, &failure);
                failed.push(FailedGate { level: Some(level), failure, passed_later });
            }
            Event::Noted { level, note: Note::OnlyReported { failure } } => {
                let passed_later = level.is_some_and(|level| passed_later(level, &failure));
                failed.push(FailedGate { level, failure, passed_later });
            }
            _ => {}
        }
    }
    Ok(failed)
}

/// Returns the acceptance criteria of the requirements, then those that only tasks have.
fn criteria(context: &Context, run: &Run) -> Vec<TracedCriterion> {
    let text = bounded::read_to_string(&context.paths.requirements(), LARGE_FILE_BYTES).unwrap_or_default();
    let requirements = Requirements::parse(&text);
    let mut all = trace(&requirements, &run.setup().graph).0;
    let known =
        |entry: &str| requirements.criteria().any(|it| entry.contains(&it.id) || it.text.trim() == entry.trim());
    for task in run.graph().tasks() {
        let own = task.spec.acceptance_criteria.iter().filter(|entry| !known(entry));
        let served = |entry: &String| TracedCriterion {
            id: String::new(),
            criterion: entry.clone(),
            tasks: vec![task.id.to_string()],
        };
        all.extend(own.map(served));
    }
    all
}

/// Returns the lines added and removed since the start in each file that the run's commits changed. Several commits may
/// change the same lines, so this compares trees.
fn changes(context: &Context, tip: &Oid) -> Result<Vec<FileChange>> {
    let ours = format!("--grep=^Mahabharatha-Feature: {}$", context.paths.feature());
    let range = format!("{}..{tip}", context.start);
    let touched = context.repository.run([
        "log",
        "--no-merges",
        "--no-renames",
        "--format=",
        "--name-only",
        "-z",
        &ours,
        &range,
    ])?;
    let touched = String::from_utf8_lossy(&touched.bytes);
    let touched: BTreeSet<&str> = touched.split('\0').map(|path| path.trim_start_matches('\n')).collect();
    let args = ["diff-tree", "-r", "--no-renames", "--numstat", "-z", context.start.as_str(), tip.as_str()];
    let output = context.repository.run(args)?;
    let change = |record: &str| {
        let mut parts = record.splitn(3, '\t');
        let (added, removed, path) = (parts.next()?, parts.next()?, parts.next()?);
        let lines = added.parse::<u64>().ok().zip(removed.parse::<u64>().ok());
        touched.contains(path).then(|| FileChange { path: path.to_owned(), lines })
    };
    Ok(String::from_utf8_lossy(&output.bytes).split('\0').filter_map(change).collect())
}

/// Returns the last result of each gate at each level, from the journal: by level, in the order of the configuration, then
/// the verifications.
fn gate_results(context: &Context, run: &Run) -> Result<Vec<GateResult>> {
    let name = |pass: &GatePass| match &pass.task {
        Some(task) => verification_name(task),
        None => {
            let gate = context.config.quality_gates.iter().find(|gate| gate.command == pass.command);
            gate.map_or_else(|| "gate".to_string(), |gate| gate.name.clone())
        }
    };
    let mut results: Vec<GateResult> = Vec::new();
    let mut record = |result: GateResult| {
        let is_same = |known: &GateResult| {
            (known.level, &known.name, &known.command) == (result.level, &result.name, &result.command)
        };
        results.retain(|known| !is_same(known));
        results.push(result);
    };
    for entry in Journal::read(&context.paths.journal())? {
        match &entry.event {
            // Includes gates that had passed on this tree before and were not run again.
            Event::GatesPassed { level, candidate, .. } => {
                for pass in run.passed_gates().filter(|pass| pass.tree == candidate.tree) {
                    let (name, command) = (name(pass), pass.command.clone());
                    let (status, clean) = (GateStatus::Passed, pass.clean);
                    record(GateResult { name, command, level: *level, status, clean });
                }
            }
            Event::GateFailed { level, failure, .. } => record(failed(*level, failure, GateStatus::Failed)),
            Event::Noted { level: Some(level), note: Note::OnlyReported { failure } } => {
                let red_before = run.red_gates().iter().any(|red| red.gate == failure.gate);
                let status = if red_before { GateStatus::RedBefore } else { GateStatus::NotRequired };
                record(failed(*level, failure, status));
            }
            _ => {}
        }
    }
    let position = |result: &GateResult| {
        context.config.quality_gates.iter().position(|gate| gate.name == result.name).unwrap_or(usize::MAX)
    };
    results.sort_by_key(|result| (result.level, position(result)));
    Ok(results)
}

fn failed(level: Level, failure: &GateFailure, status: GateStatus) -> GateResult {
    let (name, command, clean) = (failure.gate.clone(), failure.command.clone(), failure.clean);
    GateResult { name, command, level, status, clean }
}

/// Returns the commits that the run added to the branch, newest first.
fn commits(context: &Context, tip: &Oid) -> Result<Vec<String>> {
    let ours = format!("--grep=^Mahabharatha-Feature: {}$", context.paths.feature());
    let range = format!("{}..{tip}", context.start);
    let output = context.repository.run(["log", "--topo-order", "--format=%h %s", &ours, &range])?;
    Ok(String::from_utf8_lossy(&output.bytes).lines().map(str::to_owned).collect())
}
