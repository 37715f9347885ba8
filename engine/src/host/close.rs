//! The end of a feature: the checklist, the report, clearing away.

use mahabharatha_core::ids::{Level, Oid};
use mahabharatha_core::run::event::{Event, GateFailure, Note};
use mahabharatha_core::run::{LevelStatus, Run};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, ExitCode, Result};
use mahabharatha_sys::store::journal::Journal;

use super::{Context, cleanup};
use crate::report::completion_md::{GateResult, GateStatus};
use crate::report::files;
use crate::worker;

/// Completed only if it is so: the report is written from what the journal says, after git has been asked.
pub fn close(context: &Context, run: &Run) -> Result<()> {
    let branch = run.landing_branch();
    let tip = context
        .repository
        .resolve_ref(&branch)?
        .ok_or_else(|| Error::new(ExitCode::Failed, format!("the branch {branch} is gone")))?;
    for level in run.levels() {
        if let LevelStatus::Merged { commit, .. } = &level.status
            && !context.repository.is_ancestor(commit, &tip)?
        {
            let (level, commit, branch) = (level.level, commit.short(), branch.trim_start_matches("refs/heads/"));
            let message = format!("level {level} was merged as {commit}, which {branch} no longer contains");
            return Err(Error::new(ExitCode::Failed, message).hint(format!("Merge {commit} into {branch} again.")));
        }
    }
    files::write_completion(&context.paths, run, &gate_results(context, run)?, &commits(context, &tip)?)?;
    crash::point(|| "close with the report written");
    if context.config.cleanup.on_completion {
        worker::save_leftovers(context.paths.dir())?;
        let leftovers = cleanup::leftovers(&context.project, &context.paths, Some(run), false)?.into_iter();
        let things: Vec<cleanup::What> =
            leftovers.filter(|leftover| leftover.precious.is_none()).map(|leftover| leftover.what).collect();
        cleanup::remove(&context.project, &context.paths, &things)?;
    }
    Ok(())
}

/// What came of each gate at each level, as the journal has it.
fn gate_results(context: &Context, run: &Run) -> Result<Vec<GateResult>> {
    let name = |command: &str| {
        let gate = context.config.quality_gates.iter().find(|gate| gate.command == command);
        gate.map_or_else(|| "verification".to_string(), |gate| gate.name.clone())
    };
    let mut results: Vec<GateResult> = Vec::new();
    let mut record = |result: GateResult| {
        results.retain(|known| (known.level, &known.command) != (result.level, &result.command));
        results.push(result);
    };
    for entry in Journal::read(&context.paths.journal())? {
        match &entry.event {
            // Also what had passed on this very tree before, and was not run again.
            Event::GatesPassed { level, candidate, .. } => {
                for pass in run.passed_gates().filter(|pass| pass.tree == candidate.tree) {
                    let (name, command) = (name(&pass.command), pass.command.clone());
                    record(GateResult { name, command, level: *level, status: GateStatus::Passed });
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
    Ok(results)
}

fn failed(level: Level, failure: &GateFailure, status: GateStatus) -> GateResult {
    GateResult { name: failure.gate.clone(), command: failure.command.clone(), level, status }
}

/// The commits that the run put onto the branch, the newest first.
fn commits(context: &Context, tip: &Oid) -> Result<Vec<String>> {
    let ours = format!("--grep=^Mahabharatha-Feature: {}$", context.paths.feature());
    let range = format!("{}..{tip}", context.start);
    let output = context.repository.run(["log", "--topo-order", "--format=%h %s", &ours, &range])?;
    Ok(String::from_utf8_lossy(&output.bytes).lines().map(str::to_owned).collect())
}
