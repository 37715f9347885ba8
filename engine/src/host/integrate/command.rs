//! Runs one command (gate, verification or `merge.prepare`) in the staging worktree.

use std::fmt::Display;
use std::time::Duration;

use mahabharatha_core::config::Gate;
use mahabharatha_core::ids::{Oid, TaskId};
use mahabharatha_core::run::event::GateFailure;
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Result};
use mahabharatha_sys::proc::{Cmd, end_orphans};

use super::gate_run::GateRun;
use super::worktree::StagingWorktree;
use super::{Integration, Verification};

/// Bytes of output kept for prompts, from its start and from its end.
const OUTPUT_BYTES: (usize, usize) = (4 << 10, 12 << 10);
/// Time between SIGTERM and SIGKILL for a command that reached its time limit.
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// Time limit of `merge.prepare`, which the configuration cannot set.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(1800);
pub(super) const PREPARE: &str = "merge.prepare";

/// A command to run on a tree: a gate, a verification or `merge.prepare`.
#[derive(Debug, Clone)]
pub(super) struct Check {
    pub name: String,
    pub command: String,
    pub timeout: Duration,
    pub required: bool,
    pub task: Option<TaskId>,
}

pub(super) enum Ran {
    Passed,
    /// With its output, shortened.
    Failed(String),
    Cancelled,
}

impl Check {
    pub fn prepare(command: &str) -> Self {
        Check { name: PREPARE.into(), command: command.into(), timeout: PREPARE_TIMEOUT, required: true, task: None }
    }

    pub fn failure(&self, output: String, staging: &Oid) -> GateFailure {
        let (gate, command, task) = (self.name.clone(), self.command.clone(), self.task.clone());
        GateFailure { gate, command, output, staging: staging.clone(), task }
    }
}

impl From<&Gate> for Check {
    fn from(gate: &Gate) -> Self {
        let Gate { name, command, timeout, required } = gate.clone();
        Check { name, command, timeout, required, task: None }
    }
}

impl From<&Verification> for Check {
    fn from(verification: &Verification) -> Self {
        let Verification { task, command, timeout } = verification.clone();
        Check { name: format!("verify {task}"), command, timeout, required: true, task: Some(task) }
    }
}

impl Integration {
    /// Runs the command in the worktree as it is now. No process of the command survives this call. `at` names the log.
    pub(super) fn run(&self, worktree: &StagingWorktree, at: &impl Display, check: &Check) -> Result<Ran> {
        if self.cancel.is_cancelled() {
            return Ok(Ran::Cancelled);
        }
        let mut cmd = Cmd::shell(&check.command).cwd(&worktree.path).envs(self.env.clone()).merged();
        if let Some(task) = &check.task {
            cmd = cmd.env("MAHABHARATHA_TASK_ID", task.as_str());
        }
        cmd = cmd.timeout(check.timeout).grace(GRACE_PERIOD).keep(OUTPUT_BYTES.0, OUTPUT_BYTES.1);
        let shown = GateRun::start(&self.paths, at, check);
        cmd = cmd.copy_to(shown.output());
        let cannot = |error: std::io::Error| Error::caused(&check.name)(error);
        crash::point(|| format!("command {} of {at} before", check.name));
        let running = cmd.spawn().map_err(cannot)?;
        crash::point(|| format!("command {} of {at} begun", check.name));
        self.cancel.watch(running.canceller());
        let ended = running.wait();
        self.cancel.unwatch();
        end_orphans();
        self.check_git_dir()?;
        crash::point(|| format!("command {} of {at} ended", check.name));
        let ended = ended.map_err(cannot)?;
        shown.ended(&ended);
        if ended.cancelled {
            return Ok(Ran::Cancelled);
        }
        let mut output = String::from_utf8_lossy(&ended.stdout).into_owned();
        if ended.timed_out {
            output += &format!("\n[ended after {} s, which is its time limit]", check.timeout.as_secs_f64());
        } else if !ended.success() {
            output += &format!("\n[{}]", ended.status);
        }
        Ok(if ended.success() { Ran::Passed } else { Ran::Failed(output) })
    }
}
