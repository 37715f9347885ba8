//! Reports how a run ended: the reason, the next command, and the exit code.

use mahabharatha_core::excerpt::{key_lines, summary};
use mahabharatha_core::ids::TaskId;
use mahabharatha_core::run::event::{GateFailure, JobEnd, SETUP, SetupFailure};
use mahabharatha_core::run::{End, LevelFailure, LevelStatus, Run, TaskState};
use mahabharatha_core::view::{Blocker, RunView, answer_to, merged_phrase};
use mahabharatha_engine::provision;
use mahabharatha_engine::report::stream::{Ended, event_line};
use mahabharatha_engine::report::text::{count, gate_logs, sentence};
use mahabharatha_engine::session::{self, control};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::proc::shell_word;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::{Ui, fit};

use super::exit::{ExitCode, failure};

/// Most lines shown of a gate's output; the log has all of them.
const MAX_LINES: usize = 20;
/// Most blocked tasks that are listed.
const MAX_TASKS: usize = 5;
/// Most columns shown of a line.
const MAX_COLUMNS: usize = 200;

/// What drove the run, which decides the next command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    Run,
    Session,
    /// A session whose `task start` did not open the run.
    Opening,
}

/// Prints the last event of a command that streams events, with its exit code and error.
pub fn end_stream(ui: &Ui, streams: bool, result: &Result<ExitCode>) {
    if !streams {
        return;
    }
    let (code, error) = match result {
        Ok(code) => (*code, None),
        Err(error) => (ExitCode::from(error.kind()), Some(failure(error))),
    };
    ui.data(&event_line(session::now(), "end", Ended { code: code as u8, kind: code.word(), error }));
}

pub fn finish(place: &Place, ui: &Ui, end: &End, driver: Driver) -> Result<ExitCode> {
    let feature = &place.feature;
    let go_on = match driver {
        Driver::Run => format!("mahabharatha run {feature}"),
        Driver::Session => format!("mahabharatha task next -f {feature}"),
        Driver::Opening => format!("mahabharatha task start -f {feature}"),
    };
    let failed = |code, message: String, hint: String| Err(Error::new(code, message).hint(hint));
    match end {
        End::Completed => completed(place, ui),
        End::LevelMerged { level } => {
            let merged = control::read_run(place)?.merged_level_phrase(*level);
            ui.note(&format!("{feature}: {merged}; go on with the levels above it: {go_on}"));
            Ok(ExitCode::Done)
        }
        End::Blocked => Err(blocked(place, &control::read_run(place)?, &go_on)),
        End::RedBase { gates } => {
            let message = format!("these gates fail on the base, before anything was run: {}", gates.join(", "));
            let error = Error::new(Kind::Preflight, message)
                .hint("Fix the base first, or go on with --allow-red-base: those gates are then only reported.");
            let run = control::read_run(place)?;
            Err(run.red_gates().iter().fold(error, |error, gate| show_output(error, place, gate)))
        }
        End::SetupFailed { failure } => Err(setup_failed(place, failure, &go_on)),
        End::GateFailed { level, gate } => {
            let mut error = Error::new(Kind::Gate, format!("level {level} is not merged: its gate {gate} failed"));
            let failed = failed_gate(&control::read_run(place)?);
            let task = failed.as_ref().and_then(|(_, task, _)| task.as_ref()).map_or("TASK", TaskId::as_str);
            if let Some((failure, _, why)) = &failed {
                error = show_output(error.detail(summary(why)), place, failure);
            }
            if driver == Driver::Session {
                return Err(error.hint(format!("`{go_on}` names the task that fixes it.")));
            }
            Err(error.hint(format!(
                "`{go_on}` tries to fix it once more; before that, repeat a task with `mahabharatha retry -f {feature} {task}`, or commit your own fix in {}.",
                place.paths.staging_worktree().display()
            )))
        }
        End::Conflict { level, files, worktree } => {
            let message = format!("level {level} is not merged: it conflicts with commits on the base branch");
            let error = Error::new(Kind::Conflict, message);
            let hint = format!("Resolve and commit in {worktree}, then `mahabharatha merge --retry -f {feature}`.");
            Err(files.iter().fold(error, |error, file| error.detail(file.clone())).hint(hint))
        }
        End::Paused { why, .. } => {
            failed(Kind::Paused, format!("{feature} is paused: {why}"), resolution_of_blocker(place, &go_on)?)
        }
        End::Stopped => failed(
            Kind::Stopped,
            format!("{feature} is stopped, as requested; its work is kept"),
            format!("Go on with: {go_on}"),
        ),
        End::Undone => failed(
            Kind::Invalid,
            format!("{feature} was undone"),
            "Plan what is still wanted as another feature.".to_owned(),
        ),
        End::Failed { why } => {
            failed(Kind::Failed, format!("{feature} failed: {why}"), format!("Fix that, then go on with: {go_on}"))
        }
    }
}

fn completed(place: &Place, ui: &Ui) -> Result<ExitCode> {
    let run = control::read_run(place)?;
    let view = RunView::of(&run);
    let merged = merged_phrase(&view.levels);
    ui.note(&format!("{} is completed: {merged}. {}", place.feature, place.paths.completion().display()));
    ui.note(&next_step(place, &run, view.is_all_skipped()));
    Ok(ExitCode::Done)
}

/// Returns the next steps for a completed feature: review, merge if it is on staging, clean up.
fn next_step(place: &Place, run: &Run, is_all_skipped: bool) -> String {
    let (feature, start) = (&place.feature, run.setup().start.short());
    if is_all_skipped {
        return format!("Next: `mahabharatha cleanup -f {feature}` removes what is left of the run.");
    }
    let branch = run.landing_branch();
    let branch = shell_word(short_branch(&branch));
    let merge = if run.policy().onto_staging { format!(", merge it (git merge {branch})") } else { String::new() };
    format!(
        "Next: read the report (criteria, gates, changed files), review with `git diff {start} {branch}`{merge}, then \
         `mahabharatha cleanup -f {feature}` removes what is left of the run."
    )
}

/// Returns the error of a run that only blocked or waiting tasks are left of, with what their agents ask.
fn blocked(place: &Place, run: &Run, go_on: &str) -> Error {
    let feature = &place.feature;
    let blockers = RunView::of(run).blockers.0;
    let stuck: Vec<&Blocker> = blockers.iter().filter(|blocker| blocker.task.is_some()).collect();
    let mut error = Error::new(Kind::Blocked, format!("{feature} is blocked: only blocked or waiting tasks remain"));
    for Blocker { what, kind, cause, text, .. } in stuck.iter().take(MAX_TASKS) {
        let line =
            if *kind == "person" { format!("{what} {cause}") } else { format!("{what} is blocked: {}", summary(text)) };
        error = error.detail(fit(&line, MAX_COLUMNS));
    }
    if let Some(more) = stuck.len().checked_sub(MAX_TASKS).filter(|more| *more > 0) {
        error = error.detail(format!("… {more} more: `mahabharatha status {feature}`"));
    }
    let all = format!("`mahabharatha retry -f {feature} --all`");
    let answer = stuck.iter().find_map(|blocker| answer_to(run, blocker.task.as_ref()?));
    error.hint(match (stuck.as_slice(), answer) {
        ([], _) => format!("See `mahabharatha status {feature}`."),
        // A way out that goes on by itself needs nothing more.
        ([only], None) if only.resolution.contains(&format!("&& {go_on}")) => format!("{}.", sentence(&only.resolution)),
        ([only], None) => format!("{}. Then `{go_on}`.", sentence(&only.resolution)),
        ([_], Some(answer)) => format!("{}. Then `{go_on}`.", sentence(&answer)),
        (_, Some(answer)) => format!("{}. {all} repeats every blocked task. Then `{go_on}`.", sentence(&answer)),
        (_, None) => format!(
            "Fix the causes (`mahabharatha debug -f {feature}` says how), then {all}; or go on without a task: `mahabharatha skip -f {feature} TASK --reason TEXT`. Then \
             `{go_on}`."
        ),
    })
}

/// Returns the error of a worktree that could not be set up, with the end of the output and the command that repeats it;
/// or of whatever else keeps every worker from starting.
fn setup_failed(place: &Place, failure: &SetupFailure, go_on: &str) -> Error {
    let error = Error::new(Kind::Preflight, fit(&failure.summary(), MAX_COLUMNS));
    let SetupFailure::Command { command, output, .. } = failure else {
        return error.hint(format!("Fix that; no attempt was used up. Then go on with: {go_on}"));
    };
    let (lines, _) = key_lines(output, MAX_LINES);
    let error = lines.iter().map(|line| fit(line, MAX_COLUMNS)).fold(error, Error::detail);
    let (tried, log) = (provision::try_it(command), setup_log(place));
    error.hint(format!("Try it: `{tried}`. All of its output: {log}. No attempt was used up; then go on with: {go_on}"))
}

/// Returns the command that shows the output of the setup that failed: in a task's worktree, or on the base.
fn setup_log(place: &Place) -> String {
    let failed = |state: &TaskState| {
        let ended = state.attempts.last().and_then(|record| record.ended.as_ref());
        ended.is_some_and(|(_, report)| matches!(report.end, JobEnd::SetupFailed { .. }))
    };
    let run = control::read_run(place).ok();
    let task = run.and_then(|run| {
        run.graph().tasks().iter().zip(run.tasks()).find(|(_, state)| failed(state)).map(|(task, _)| task.id.clone())
    });
    match task {
        Some(task) => format!("`mahabharatha logs -f {} --task {task} --level debug`", place.feature),
        None => gate_logs(&place.feature, SETUP),
    }
}

/// Returns the failure of the current level's gate, the task that is to blame if one is, and why the level failed.
fn failed_gate(run: &Run) -> Option<(GateFailure, Option<TaskId>, String)> {
    match &run.current_level()?.status {
        LevelStatus::Failed { failure: LevelFailure::Gate { failure, task, why } } => {
            Some((failure.clone(), task.clone(), why.clone()))
        }
        LevelStatus::Fixing { failure, task, .. } => {
            Some((failure.clone(), Some(task.clone()), format!("{task} is to blame")))
        }
        _ => None,
    }
}

/// Adds a gate's command, the key lines of its output and the command that shows all of it to the error.
fn show_output(error: Error, place: &Place, failure: &GateFailure) -> Error {
    let clean = if failure.clean { " (in a clean checkout: no ignored files of earlier runs)" } else { "" };
    let error = error.detail(format!("{}: {}{clean}", failure.gate, failure.command));
    let (output, end) = failure.output_and_end();
    let (lines, others) = key_lines(output, MAX_LINES);
    let left_out = count(others, "more line");
    let more = (others > 0).then(|| format!("    … {left_out}: {}", gate_logs(&place.feature, &failure.gate)));
    let shown = lines.iter().map(String::as_str).chain(end).map(|line| format!("    {}", fit(line, MAX_COLUMNS)));
    let cause = failure.cause.iter().map(|cause| format!("    Likely cause: {cause}"));
    shown.chain(more).chain(cause).fold(error, Error::detail)
}

/// Returns what the user can do about the first blocker of the run.
fn resolution_of_blocker(place: &Place, go_on: &str) -> Result<String> {
    let blockers = RunView::of(&control::read_run(place)?).blockers;
    let resolution = blockers.first().map(|blocker| format!("{}.", sentence(&blocker.resolution)));
    Ok(resolution.unwrap_or_else(|| format!("Go on with: {go_on}")))
}
