//! `hook`: what Claude Code's hooks call. The client takes exit code 2 for a no, and stderr for its reason.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use mahabharatha_core::run::TaskStatus;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::place::Place;
use super::{Global, steer, task};
use crate::claude::guard::{self, ToolUse, Verdict};
use crate::claude::tasks::{Listed, TaskCompleted};
use crate::error::{Error, ExitCode, Result};
use crate::project::Project;
use crate::ui::Ui;

/// More than a client sends for any file that an agent writes.
const LONGEST_CALL: u64 = 256 << 20;

#[derive(Debug, Args)]
pub struct HookArgs {
    #[command(subcommand)]
    event: Event,
}

#[derive(Debug, Subcommand)]
enum Event {
    /// Before a tool is used: refuses writes outside of the files of the task
    PreToolUse,
    /// Before a task of the client's list is called completed: refuses what does not hold
    TaskCompleted,
}

pub fn run(_global: &Global, ui: &Ui, args: &HookArgs) -> Result<ExitCode> {
    match args.event {
        Event::PreToolUse => pre_tool_use(ui),
        Event::TaskCompleted => task_completed(ui),
    }
    .map_err(|error| error.with_exit(ExitCode::Usage))
}

fn pre_tool_use(ui: &Ui) -> Result<ExitCode> {
    let call: ToolUse = read_call(ui)?;
    let job_worktree = std::env::var_os("MAHABHARATHA_WORKTREE").map(PathBuf::from);
    match guard::judge(&call, job_worktree.as_deref())? {
        Verdict::Pass => {}
        Verdict::Allow(reason) => {
            let decision = json!({ "hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": "allow", "permissionDecisionReason": reason,
            } });
            ui.data(&decision.to_string());
        }
        Verdict::Deny(reason) => return Err(Error::new(ExitCode::Usage, reason)),
    }
    Ok(ExitCode::Done)
}

fn task_completed(ui: &Ui) -> Result<ExitCode> {
    let call: TaskCompleted = read_call(ui)?;
    let Some(Listed { project, feature, task }) = call.ours()? else { return Ok(ExitCode::Done) };
    let project = Project::find(&project)?;
    let place = Place { paths: project.feature(&feature), project, feature };
    let run = steer::read_run(&place)?;
    let refused = |why: &str| Err(Error::new(ExitCode::Usage, format!("{task} is not completed: {why}")));
    if let Some((job, session)) = run.held().find(|(job, _)| job.task == task) {
        if session != call.session_id {
            return refused(&format!("another session ({session}) is at it"));
        }
        let check = task::check(&place, &place.paths.job(&task, job.attempt))?;
        return match check.passed() {
            true => Ok(ExitCode::Done),
            false => refused(&task::objections(&check).join("\n")),
        };
    }
    match run.task(&task).map(|task| &task.status) {
        Some(TaskStatus::InProgress { .. }) => refused("a worker is at it"),
        // Where nobody is at it, it is a claim, which the run checks before it takes it.
        _ => Ok(ExitCode::Done),
    }
}

fn read_call<T: DeserializeOwned>(ui: &Ui) -> Result<T> {
    let text = ui
        .input(LONGEST_CALL)
        .map_err(|error| Error::new(ExitCode::Usage, format!("cannot read what the client says: {error}")))?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::new(ExitCode::Usage, format!("cannot understand what the client says: {error}")))
}
