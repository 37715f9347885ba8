//! Blockers of a run: what keeps it from continuing, why, and what the user can do.

mod data;
mod failure;

pub use self::data::{Blocker, Blockers};
pub(super) use self::failure::told;
use super::Stamp;
use crate::excerpt::{key_line, summary};
use crate::ids::{Level, TaskId};
use crate::names::{argument_list, shell_word};
use crate::run::effect::Job;
use crate::run::event::{Candidate, GateFailure, Obstacle, SetupFailure};
use crate::run::{End, LevelFailure, LevelStatus, PauseCause, Run, TaskState, TaskStatus};

/// Names the run as a whole in a blocker.
pub(super) const RUN: &str = "run";

pub(super) fn blockers_of(run: &Run) -> Blockers {
    let mut blockers = Vec::new();
    for (task, state) in run.graph().tasks().iter().zip(run.tasks()) {
        match &state.status {
            TaskStatus::Blocked { reason, .. } => blockers.push(blocked_task(run, &task.id, state, reason)),
            TaskStatus::Waiting => blockers.push(waiting_task(run, &task.id)),
            _ => {}
        }
    }
    blockers.extend(run.awaited().map(|(job, session)| held_task(run, job, session)));
    let failed = run.levels().iter().filter_map(|level| match &level.status {
        LevelStatus::Failed { failure } => Some((level.level, failure)),
        _ => None,
    });
    let before = blockers.len();
    blockers.extend(failed.map(|(level, failure)| failed_level(run, level, failure)));
    blockers.extend(run.awaiting_approval().map(|(level, candidate)| unapproved_level(run, level, candidate)));
    if blockers.len() == before {
        blockers.extend(run.ended().and_then(|end| stopped_run(run, end)));
    }
    if run.is_paused() && run.ended().is_none() {
        let resume = format!("mahabharatha resume {}", run.feature());
        let (cause, resolution) = ("paused by `mahabharatha pause`", format!("`{resume}` lets it go on"));
        blockers.push(Blocker::new(RUN, "paused", cause, resolution).commands([resume]));
    }
    Blockers(blockers)
}

/// Returns the commands that answer the agent of a blocked task; none if it asks nothing.
pub fn answer_to(run: &Run, task: &TaskId) -> Option<String> {
    run.task(task)?.question()?;
    let needs = run.needs_of(task);
    let paths = argument_list(needs.iter().map(|need| need.path.as_str()));
    let feature = run.feature();
    let retry = format!("mahabharatha retry -f {feature} {task} --note \"…\"");
    Some(match paths.is_empty() {
        true => format!("answer it: `{retry}`"),
        false => format!("grant it: `mahabharatha task grant -f {feature} {task} {paths}`; refuse it: `{retry}`"),
    })
}

fn blocked_task(run: &Run, task: &TaskId, state: &TaskState, reason: &str) -> Blocker {
    let feature = run.feature();
    let cause = match summary(reason) {
        line if line.is_empty() => "no reason was given".to_string(),
        line => line,
    };
    let answer = answer_to(run, task);
    let asks = answer.is_some();
    let (way_out, failure_commands) = failure::way_out(run, task, state);
    let resolution = answer.unwrap_or(way_out);
    let resolution =
        format!("{resolution}; or go on without it: `mahabharatha skip -f {feature} {task} --reason TEXT`");
    let needs = run.needs_of(task);
    let paths = argument_list(needs.iter().map(|need| need.path.as_str()));
    let grant = (!paths.is_empty()).then(|| format!("mahabharatha task grant -f {feature} {task} {paths}"));
    let retry = format!("mahabharatha retry -f {feature} {task} --note \"…\"");
    let commands = if asks { grant.iter().cloned().chain([retry]).collect() } else { failure_commands };
    let skip = format!("mahabharatha skip -f {feature} {task} --reason \"…\"");
    let kind = match asks {
        true if grant.is_some() => "grant",
        true => "question",
        false => data::kind_of_failure(state),
    };
    Blocker::new(task.as_str(), kind, cause, resolution)
        .text(&told(run, task, state.attempts.last(), state.question().unwrap_or(reason)))
        .commands(commands.into_iter().chain([skip]))
        .of_task(run, task)
}

/// Returns what the user can do about what looks like a secret, if the latest attempt of a task failed because of it.
pub fn about_secrets(run: &Run, task: &TaskId) -> Option<String> {
    let state = run.task(task)?;
    let report = failure::last_report(state).filter(|report| !report.secrets.is_empty())?;
    Some(failure::about_secrets(run, task, state, report))
}

/// Returns the command that approves what waits in a level, and nothing else.
pub fn approval_command(run: &Run, level: Level, candidate: &Candidate) -> String {
    format!("mahabharatha merge --approve={} --level {level} -f {}", candidate.tree.short(), run.feature())
}

fn waiting_task(run: &Run, task: &TaskId) -> Blocker {
    let feature = run.feature();
    let claim = format!("mahabharatha task claim -f {feature} {task}");
    let resolution = format!(
        "do it in Claude Code with `/mahabharatha:worker {task}`, or by hand after `{claim}`; or go on \
         without it: `mahabharatha skip -f {feature} {task} --reason TEXT`"
    );
    let skip = format!("mahabharatha skip -f {feature} {task} --reason \"…\"");
    Blocker::new(task.as_str(), "person", "waits for a person", resolution).commands([claim, skip]).of_task(run, task)
}

fn held_task(run: &Run, job: &Job, session: &str) -> Blocker {
    let (feature, task) = (run.feature(), &job.task);
    let complete = format!("mahabharatha task complete -f {feature} {task}");
    let fail = format!("mahabharatha task fail -f {feature} {task} --reason");
    let cause = format!("held by session {session}, and the run waits for it");
    let resolution = format!("that session ends it with `{complete}`, or `{fail} TEXT`");
    let started = run.task(task).and_then(|state| state.attempts.last()).map(|attempt| Stamp(attempt.started_at));
    let blocker = Blocker::new(task.as_str(), "person", cause, resolution);
    let blocker = blocker.commands([complete, format!("{fail} \"…\"")]).of_task(run, task);
    Blocker { since: started, ..blocker }
}

fn failed_level(run: &Run, level: Level, failure: &LevelFailure) -> Blocker {
    let feature = run.feature();
    let again = format!("mahabharatha run {feature}");
    let what = format!("level {level}");
    let blocker = match failure {
        LevelFailure::Gate { failure, task, why } => {
            let (cause, resolution) = failed_gate(run, failure, task.as_ref(), why);
            let logs = format!("mahabharatha logs -f {feature} --gate {}", shell_word(&failure.gate));
            Blocker::new(what, "gate", cause, resolution).text(&failure.output).commands([logs, again])
        }
        LevelFailure::Obstacle(obstacle) => {
            let (kind, command) = match obstacle {
                Obstacle::Conflict { .. } => ("conflict", format!("mahabharatha merge --retry -f {feature}")),
                Obstacle::WorkLost { tasks } => ("lost_work", retry_all(tasks, feature.as_str())),
                Obstacle::Outdated { tasks } => ("obstacle", retry_all(tasks, feature.as_str())),
                _ => ("obstacle", again),
            };
            Blocker::new(what, kind, obstacle.to_string(), resolution_of(obstacle, feature.as_str()))
                .commands([command])
        }
    };
    blocker.of_level(run, level)
}

/// Returns the command that repeats these tasks.
pub(super) fn retry_all(tasks: &[TaskId], feature: &str) -> String {
    let tasks: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
    format!("mahabharatha retry -f {feature} {}", tasks.join(" "))
}

pub(super) fn unapproved_level(run: &Run, level: Level, candidate: &Candidate) -> Blocker {
    let (base, staging) = (candidate.base.short(), candidate.staging.short());
    let approve = approval_command(run, level, candidate);
    let resolution = format!(
        "`git diff {base}...{staging}` shows it; `{approve}` merges it, or `mahabharatha retry -f {} TASK` repeats a task",
        run.feature()
    );
    Blocker::new(format!("level {level}"), "approval", "waits for your approval", resolution)
        .commands([approve, format!("git diff {base}...{staging}")])
        .of_level(run, level)
}

fn failed_gate(run: &Run, failure: &GateFailure, task: Option<&TaskId>, why: &str) -> (String, String) {
    let mut cause = format!("gate {} failed", failure.gate);
    cause.extend(key_line(failure.output_and_end().0).map(|line| format!(": {line}")));
    cause.push_str(&format!("; {}", summary(why)));
    cause.extend(failure.cause.iter().map(|likely| format!(". Likely cause: {likely}")));
    let resolution = format!(
        "`mahabharatha run {0}` tries to fix it once more; before that, `mahabharatha retry -f {0} {1}` repeats a task, or \
         commit a fix in the staging worktree",
        run.feature(),
        task.map_or("TASK", TaskId::as_str)
    );
    (cause, resolution)
}

/// Returns what the user can do about an obstacle.
pub(super) fn resolution_of(obstacle: &Obstacle, feature: &str) -> String {
    let go_on = format!("`mahabharatha run {feature}`");
    match obstacle {
        Obstacle::BaseMoved => format!("{go_on} once the branch no longer moves"),
        Obstacle::BaseRewritten { was, now: None } => {
            let set = format!("git update-ref --no-deref refs/heads/NAME {}", was.short());
            format!("create it again (`{set}`) or rename it back, then {go_on}")
        }
        Obstacle::BaseRewritten { was, now: Some(_) } => format!(
            "nothing was brought back: if it was lost by mistake, `git merge {0}` into the base branch (or reset it to \
             {0}), then {go_on}",
            was.short()
        ),
        Obstacle::Conflict { worktree, .. } => {
            format!("resolve and commit in {worktree}, then `mahabharatha merge --retry -f {feature}`")
        }
        Obstacle::CheckoutLeftBehind { branch, worktree, was, now } => format!(
            "if you did not move it, move it back: `git update-ref {} {was}`; otherwise update the \
             files: `git -C {} read-tree -m -u {was} {now}`; then {go_on}",
            shell_word(&format!("refs/heads/{branch}")),
            shell_word(worktree)
        ),
        Obstacle::CheckoutInTheWay { .. } => format!("fix that, then {go_on}"),
        Obstacle::WorkLost { tasks } | Obstacle::Outdated { tasks } => {
            let tasks: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
            format!("`mahabharatha retry -f {feature} {}` rebuilds it, then {go_on}", tasks.join(" "))
        }
        Obstacle::Forged { .. } => format!(
            "an agent or a damaged disk changed them: `mahabharatha retry -f {feature} TASK` for the tasks of these files, \
             remove the named objects, then {go_on}"
        ),
        Obstacle::StagingLost => format!("check the disk and the repository (`git fsck`), then {go_on}"),
    }
}

/// Returns what stopped the run as a whole, if no level failed.
fn stopped_run(run: &Run, end: &End) -> Option<Blocker> {
    let go_on = format!("mahabharatha run {}", run.feature());
    let (kind, cause, resolution) = match end {
        // Since then the level was approved, or one of its tasks is repeated.
        End::Paused { cause: PauseCause::Approval, .. } => {
            let resolution = format!("continue with `{go_on}`");
            ("paused", "it stopped for an approval that is no longer needed".to_string(), resolution)
        }
        End::Paused { cause: PauseCause::OutOfSpace, why } => {
            ("paused", why.clone(), format!("free some space, then `{go_on}` goes on"))
        }
        End::Paused { why, .. } => (
            "paused",
            why.clone(),
            format!("change that, in .mahabharatha/config.yaml where it is a setting, then `{go_on}` goes on"),
        ),
        End::Failed { why } => ("failed", summary(why), format!("fix the cause, then `{go_on}` goes on")),
        End::SetupFailed { failure: failure @ SetupFailure::Other { .. } } => {
            ("failed", failure.summary(), format!("fix the cause, then `{go_on}` goes on; no attempt was used up"))
        }
        End::SetupFailed { failure } => (
            "setup",
            failure.summary(),
            format!(
                "try the command with `mahabharatha sandbox -- COMMAND`, correct it or worktrees.setup in \
                 .mahabharatha/config.yaml, then `{go_on}` goes on"
            ),
        ),
        End::RedBase { gates } => (
            "red_base",
            format!("gates fail on the base: {}", gates.join(", ")),
            format!("fix them and commit, or `{go_on} --allow-red-base`"),
        ),
        _ => return None,
    };
    let allow = (kind == "red_base").then(|| format!("{go_on} --allow-red-base"));
    let blocker = Blocker::new(RUN, kind, cause, resolution).commands([go_on].into_iter().chain(allow));
    Some(Blocker { since: run.ended_at().map(Stamp), ..blocker })
}
