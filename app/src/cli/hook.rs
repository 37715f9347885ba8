//! `hook`: what Claude Code's hooks call. The client takes exit code 2 for a no, and stderr for its reason.

use std::io::{self, Read};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Global;
use crate::claude::guard::{self, ToolUse, Verdict};
use crate::error::{Error, ExitCode, Result};
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
}

pub fn run(_global: &Global, ui: &Ui, args: &HookArgs) -> Result<ExitCode> {
    match args.event {
        Event::PreToolUse => pre_tool_use(ui),
    }
    .map_err(|error| error.with_exit(ExitCode::Usage))
}

fn pre_tool_use(ui: &Ui) -> Result<ExitCode> {
    let call: ToolUse = read_call()?;
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

fn read_call<T: DeserializeOwned>() -> Result<T> {
    let mut text = Vec::new();
    io::stdin()
        .take(LONGEST_CALL)
        .read_to_end(&mut text)
        .map_err(|error| Error::new(ExitCode::Usage, format!("cannot read what the client says: {error}")))?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::new(ExitCode::Usage, format!("cannot understand what the client says: {error}")))
}
