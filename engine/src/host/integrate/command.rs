//! Runs one command (gate, verification, `merge.prepare` or `worktrees.setup`) in the staging worktree.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use mahabharatha_core::config::{Gate, Isolation};
use mahabharatha_core::ids::{Oid, TaskId};
pub(super) use mahabharatha_core::run::event::PREPARE;
use mahabharatha_core::run::event::{GateFailure, GatePass, verification_name};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Result};
use mahabharatha_sys::proc::{Cmd, Ended, end_orphans};

use super::findings::{FindingsFile, MAX_SARIF_BYTES, shown_output};
use super::gate_run::GateRun;
use super::worktree::{StagingSandbox, StagingWorktree};
use super::{Integration, Verification};
use crate::cause::{Places, hidden_variable};
use crate::confinement;
use crate::offline;
use crate::provision::{SETUP, SETUP_TIMEOUT};
use crate::report::running_gate::BASE;
use crate::worker::WORKTREE_VARIABLE;

/// Bytes of output kept for prompts, from its start and from its end.
pub(super) const OUTPUT_BYTES: (usize, usize) = (4 << 10, 12 << 10);
/// Time between SIGTERM and SIGKILL for a command that reached its time limit.
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// Time limit of `merge.prepare`, which the configuration cannot set.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(1800);

/// A command to run on a tree: a gate, a verification or `merge.prepare`.
#[derive(Debug, Clone)]
pub(super) struct Check {
    pub name: String,
    pub command: String,
    pub timeout: Duration,
    pub required: bool,
    pub task: Option<TaskId>,
    pub sarif: SarifSource,
}

/// Where a command leaves its findings as SARIF.
#[derive(Debug, Clone, Default)]
pub(super) enum SarifSource {
    #[default]
    None,
    /// On standard output, if that is SARIF.
    Output,
    /// In this file of the worktree.
    File(String),
}

pub(super) enum Ran {
    Passed,
    Failed(Failed),
    Cancelled,
}

/// What is known of a command that failed.
pub(super) struct Failed {
    /// Shortened, with how the command ended.
    pub output: String,
    pub likely_cause: Option<String>,
    /// Whether that is what the sandbox denied the command.
    pub denied: bool,
}

impl Check {
    pub fn prepare(command: &str) -> Self {
        let (name, command, sarif) = (PREPARE.into(), command.into(), SarifSource::None);
        Check { name, command, timeout: PREPARE_TIMEOUT, required: true, task: None, sarif }
    }

    pub fn setup(command: &str) -> Self {
        Check { name: SETUP.into(), timeout: SETUP_TIMEOUT, ..Check::prepare(command) }
    }

    /// Whether it may always use the network and is no test of the tree.
    fn is_preparation(&self) -> bool {
        [PREPARE, SETUP].contains(&self.name.as_str())
    }

    pub fn failure(&self, Failed { output, likely_cause: cause, denied }: Failed, staging: &Oid) -> GateFailure {
        let (gate, command, task) = (self.name.clone(), self.command.clone(), self.task.clone());
        GateFailure { gate, command, output, cause, denied, staging: staging.clone(), task, clean: false }
    }

    /// Says how the command ended.
    fn end(&self, ended: &Ended) -> String {
        match ended.timed_out {
            true => format!("ended after {} s, which is its time limit", self.timeout.as_secs_f64()),
            false => ended.status.to_string(),
        }
    }

    pub fn pass(&self, tree: &Oid, clean: bool) -> GatePass {
        GatePass { command: self.command.clone(), tree: tree.clone(), task: self.task.clone(), clean }
    }
}

impl From<&Gate> for Check {
    fn from(gate: &Gate) -> Self {
        let Gate { name, command, timeout, required, security, sarif } = gate.clone();
        let sarif = match sarif {
            Some(path) => SarifSource::File(path),
            None if security => SarifSource::Output,
            None => SarifSource::None,
        };
        Check { name, command, timeout, required, task: None, sarif }
    }
}

impl From<&Verification> for Check {
    fn from(verification: &Verification) -> Self {
        let Verification { task, command, timeout } = verification.clone();
        let (name, sarif) = (verification_name(&task), SarifSource::None);
        Check { name, command, timeout, required: true, task: Some(task), sarif }
    }
}

impl Integration {
    /// Runs the command in the worktree as it is now. No process of the command survives this call. `at` names the log.
    pub(super) fn run(&self, worktree: &StagingWorktree, at: &impl Display, check: &Check) -> Result<Ran> {
        // A container may have been killed, or its engine restarted.
        let mut may_be_lost = self.confinement.isolation == Isolation::Container;
        match self.run_once(worktree, at, check, &mut may_be_lost) {
            Err(_) if may_be_lost => {
                worktree.set_again()?;
                self.run_once(worktree, at, check, &mut may_be_lost)
            }
            ran => ran,
        }
    }

    /// Sets `may_be_lost` if an error may come from a series that has ended.
    fn run_once(
        &self,
        worktree: &StagingWorktree,
        at: &impl Display,
        check: &Check,
        may_be_lost: &mut bool,
    ) -> Result<Ran> {
        if self.cancel.is_cancelled() {
            return Ok(Ran::Cancelled);
        }
        let mut sandbox = worktree.sandbox(!check.is_preparation())?;
        *may_be_lost |= sandbox.is_in_series();
        let findings = FindingsFile::before(worktree, &check.sarif);
        let shown = GateRun::start(self, at, check);
        let cmd = self.command(check, sandbox.workdir()).copy_to(shown.output());
        let cannot = |error: std::io::Error| Error::caused(&check.name)(error);
        crash::point(|| format!("command {} of {at} before", check.name));
        let running = sandbox.confine(cmd)?.spawn().map_err(cannot)?;
        crash::point(|| format!("command {} of {at} begun", check.name));
        self.cancel.watch(running.canceller());
        let ended = running.wait();
        self.cancel.unwatch();
        if !ended.as_ref().is_ok_and(Ended::success) {
            // It may be the server that failed.
            sandbox.end_series();
        }
        if !sandbox.is_in_series() {
            end_orphans();
        }
        self.renew_git_dir()?;
        crash::point(|| format!("command {} of {at} ended", check.name));
        let ended = ended.map_err(cannot)?;
        worktree.restore_git_link()?;
        if let Some(error) = confinement::failure(&sandbox) {
            return Err(error);
        }
        shown.ended(&ended);
        if ended.cancelled {
            return Ok(Ran::Cancelled);
        }
        if ended.success() {
            worktree.keep(sandbox);
            return Ok(Ran::Passed);
        }
        let output = shown_output(&ended, &check.sarif, findings.as_ref(), &self.redactor);
        let output = format!("{output}\n[{}]", check.end(&ended));
        let places = self.places(worktree, sandbox.workdir());
        Ok(Ran::Failed(self.explain(&places, &sandbox, at, check, output)))
    }

    fn command(&self, check: &Check, workdir: &Path) -> Cmd {
        let mut cmd = Cmd::shell(&check.command).envs(self.env.clone()).env(WORKTREE_VARIABLE, workdir);
        if let Some(task) = &check.task {
            cmd = cmd.env("MAHABHARATHA_TASK_ID", task.as_str());
        }
        cmd = cmd.timeout(check.timeout).grace(GRACE_PERIOD);
        match check.sarif {
            // SARIF must come in one piece.
            SarifSource::Output => cmd.keep(MAX_SARIF_BYTES, OUTPUT_BYTES.1),
            _ => cmd.merged().keep(OUTPUT_BYTES.0, OUTPUT_BYTES.1),
        }
    }

    /// Says what the output shows of the reason for a failure.
    fn explain(
        &self,
        places: &Places<'_>,
        sandbox: &StagingSandbox,
        at: &impl Display,
        check: &Check,
        output: String,
    ) -> Failed {
        // A preparation always has the network.
        let failed_offline = || offline::cause(&self.confinement, &output).filter(|_| !check.is_preparation());
        let denial = sandbox.denial(&output).or_else(failed_offline);
        let denied = denial.is_some();
        let cause = match denial {
            // Only a hint: the gate has failed either way.
            None => hidden_variable(&output, &self.hidden_variables)
                .or_else(|| places.missing_ignored_file(&output).unwrap_or_default()),
            denial => denial,
        };
        // Gates usually pass on the base in the user's checkout, so the worktree's path is a plausible cause.
        let likely_cause = cause.or_else(|| places.unusual_path(&output).filter(|_| at.to_string() == BASE));
        Failed { output, likely_cause, denied }
    }

    fn places<'a>(&'a self, worktree: &'a StagingWorktree, workdir: &'a Path) -> Places<'a> {
        Places { root: self.project.root(), worktree: &worktree.path, workdir, git: &worktree.git, is_attempt: false }
    }
}
