//! Causes that keep a level from landing, or stopped the run as a whole.

use mahabharatha_core::excerpt::key_lines;
use mahabharatha_core::ids::TaskId;
use mahabharatha_core::run::event::{GateFailure, Obstacle, SetupFailure};
use mahabharatha_core::run::{End, LevelFailure, LevelStatus, PauseCause, Run};
use mahabharatha_core::view::{Blocker, approval_command};
use mahabharatha_sys::proc::shell_word;
use mahabharatha_sys::ui::{clean, one_line};

use super::super::debug::Findings;
use super::super::text::{gate_logs, headline};
use super::{Hypothesis, run_again, words};
use crate::cause::is_hidden_variable;
use crate::provision;

const MAX_EVIDENCE: usize = 6;

/// Covers the blockers that are not blocked tasks: a level, a task that waits for the user, the run as a whole.
pub(super) fn about_levels(findings: &Findings, run: &Run) -> Vec<Hypothesis> {
    let is_blocked = |id: &TaskId| findings.tasks.iter().any(|task| task.id == id.as_str() && task.status == "blocked");
    let others = findings.blockers.iter().filter(|blocker| !blocker.task.as_ref().is_some_and(is_blocked));
    others.map(|blocker| about_blocker(findings, run, blocker)).collect()
}

fn about_blocker(findings: &Findings, run: &Run, blocker: &Blocker) -> Hypothesis {
    let feature = &findings.feature;
    let known = |code, evidence: Vec<String>, command: String| {
        let cause = format!("{}: {}", blocker.what, headline(&blocker.cause));
        Hypothesis::new(code, cause, command).shown_by(evidence).next(blocker.resolution.clone())
    };
    let plain = |code| known(code, vec![headline(&blocker.cause)], run_again(feature));
    let failed = run.levels().iter().find_map(|level| match &level.status {
        LevelStatus::Failed { failure } if blocker.is_of_level(level.level) => Some(failure),
        _ => None,
    });
    let awaiting = run.awaiting_approval().filter(|(level, _)| blocker.is_of_level(*level));
    let approval = awaiting.map(|(level, candidate)| approval_command(run, level, candidate));
    match (failed, run.ended()) {
        (Some(LevelFailure::Gate { failure, .. }), _) => about_gate(run, failure, "gate_failed", &known),
        (Some(LevelFailure::Obstacle(obstacle)), _) => about_obstacle(feature, obstacle, &known),
        (None, Some(End::RedBase { .. })) if blocker.is_of_run() => match run.red_gates() {
            [failure, ..] => about_gate(run, failure, "red_base", &known),
            [] => plain("red_base"),
        },
        (None, Some(End::SetupFailed { failure: SetupFailure::Command { command, output, cause, .. } }))
            if blocker.is_of_run() =>
        {
            let lines = key_lines(output, MAX_EVIDENCE).0;
            let evidence = lines.iter().map(|line| clean(line)).chain(cause.as_deref().map(one_line)).collect();
            let found = known("setup_failed", evidence, provision::try_it(command));
            let next = cause.iter().map(|cause| one_line(cause)).chain([found.next.clone()]);
            let next = next.collect::<Vec<_>>().join(" ");
            found.next(next)
        }
        (None, Some(End::Paused { cause, why })) if blocker.is_of_run() => match cause {
            PauseCause::OutOfSpace => plain("disk_full"),
            PauseCause::Budget => {
                known("budget", vec![headline(why)], format!("mahabharatha run {feature} --max-cost USD"))
            }
            PauseCause::Approval | PauseCause::Other => plain("paused"),
        },
        (None, None) if run.is_paused() && findings.lock.held && blocker.is_of_run() => {
            known("paused", vec![headline(&blocker.cause)], format!("mahabharatha resume {feature}"))
        }
        (None, None) if blocker.is_of_run() => plain("driver_gone"),
        _ if approval.is_some() => {
            known("awaits_approval", vec![headline(&blocker.cause)], approval.unwrap_or_default())
        }
        _ => match &blocker.task {
            Some(task) => {
                let is_held = run.held().any(|(job, _)| job.task == *task);
                let verb = if is_held { "complete" } else { "claim" };
                let command = format!("mahabharatha task {verb} {task} -f {feature}");
                let waits = known("waits_for_person", vec![headline(&blocker.cause)], command);
                Hypothesis { task: Some(task.to_string()), ..waits }
            }
            None => plain("failed"),
        },
    }
}

type Known<'a> = dyn Fn(&'static str, Vec<String>, String) -> Hypothesis + 'a;

/// `code` is the one for a gate whose output shows no other cause.
fn about_gate(run: &Run, failure: &GateFailure, code: &'static str, known: &Known<'_>) -> Hypothesis {
    let (feature, output) = (run.feature(), failure.output_and_end().0);
    let evidence: Vec<String> = key_lines(output, MAX_EVIDENCE).0.iter().map(|line| clean(line)).collect();
    let likely = failure.cause.as_deref().map(one_line);
    let again = run_again(feature.as_str());
    if let Some(denial) = likely.as_ref().filter(|_| failure.denied) {
        let command = words::after(again, denial);
        let next = format!("{denial} Then `{command}`.");
        return known("sandbox_denial", [evidence, vec![denial.clone()]].concat(), command).next(next);
    }
    if let Some(variable) = likely.as_ref().filter(|likely| is_hidden_variable(likely)) {
        let command = words::after(again, variable);
        let next = format!("{variable} Then `{command}`.");
        return known("hidden_variable", [evidence, vec![variable.clone()]].concat(), command).next(next);
    }
    if let Some((program, line)) = words::missing_tool(output) {
        let next = format!("Install {}, or change the gate's command; then `{again}`.", one_line(program));
        let evidence = [one_line(line)].into_iter().chain(words::hidden_tool(run.policy().isolation, program));
        return known("missing_tool", evidence.collect(), again).next(next);
    }
    let found = known(code, evidence.into_iter().chain(likely).collect(), again);
    let next = format!("See its output: {}. {}", gate_logs(feature, &failure.gate), found.next);
    found.next(next)
}

fn about_obstacle(feature: &str, obstacle: &Obstacle, known: &Known<'_>) -> Hypothesis {
    let again = run_again(feature);
    let told = vec![headline(&obstacle.to_string())];
    match obstacle {
        Obstacle::Conflict { files, worktree } => {
            let files = files.iter().map(|file| format!("both sides changed {}", one_line(file)));
            let evidence = files.take(MAX_EVIDENCE).chain([format!("the merge is in {worktree}")]);
            known("conflict", evidence.collect(), format!("mahabharatha merge --retry -f {feature}"))
        }
        Obstacle::CheckoutInTheWay { files, .. } => match files.as_slice() {
            // Git's own lock has a full path; other files are named relative to the checkout.
            [lock] if lock.starts_with('/') && lock.ends_with("/index.lock") => {
                let command = format!("rm {} && {again}", shell_word(lock));
                let next = format!("If no git command runs in your checkout, one was killed: `{command}`.");
                known("lock", told, command).next(next)
            }
            _ => known("checkout_in_the_way", told, again),
        },
        Obstacle::WorkLost { tasks } => {
            let tasks: Vec<&str> = tasks.iter().map(|task| task.as_str()).collect();
            known("lost_work", told, format!("mahabharatha retry {} -f {feature} && {again}", tasks.join(" ")))
        }
        Obstacle::BaseMoved | Obstacle::Outdated { .. } => known("base_moved", told, again),
        Obstacle::BaseRewritten { .. } => known("base_rewritten", told, again),
        Obstacle::CheckoutLeftBehind { .. } => known("checkout_left_behind", told, again),
        Obstacle::StagingLost => known("staging_lost", told, again),
        Obstacle::Forged { .. } => known("forged_objects", told, again),
    }
}
