//! Makes a slot's worktree ready before the agent starts: copies what is warm into a new one, runs `worktrees.setup` when it
//! is due.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mahabharatha_core::run::effect::Purpose;
use mahabharatha_core::run::event::SetupFailure;
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::Git;
use mahabharatha_sys::proc::{self, Cmd, Ended, bounded_text};

use super::guard::Guard;
use super::job_spec::JobSpec;
use super::log::{Log, Severity};
use super::sandbox::{self, GitLink};
use super::start::{Pristine, private_git, reset};
use super::verify::likely_cause;
use super::watch::CancelSignal;
use crate::confinement;
use crate::provision::warm::{self, Plan};
use crate::provision::{self, SETUP, SETUP_TIMEOUT, Setup};

/// Bytes kept from the beginning and the end of the command's output.
const OUTPUT_BYTES: (usize, usize) = (4 * 1024, 12 * 1024);

/// An attempt whose worktree is being set up.
pub struct Place<'a> {
    pub spec: &'a JobSpec,
    pub job_dir: &'a Path,
    pub cancel: &'a CancelSignal,
    pub log: &'a Log,
}

impl Place<'_> {
    /// Copies what the configuration names from the main checkout if the worktree is new; returns warnings for the user.
    /// The slot's index must hold the base, and the files must be as there.
    pub fn warm(&self, git: &Git) -> Result<Vec<String>> {
        let spec = self.spec;
        let Some(warm) = &spec.warm else { return Ok(Vec::new()) };
        let same_path = spec.confinement.isolation.maps_paths();
        let place = warm::Place { root: &spec.root, worktree: &spec.worktree, same_path };
        let planned = warm.fill(&place, git, &spec.job.base, &warm_record(spec))?;
        let (failed, taken): (Vec<_>, Vec<_>) = planned.iter().partition(|one| matches!(one.plan, Plan::Not(_)));
        taken.iter().for_each(|one| self.log.info("warmed", &one.to_string()));
        Ok(failed.iter().map(ToString::to_string).collect())
    }

    /// Runs the setup if it is due and returns warnings for the user. The slot's index must hold the base, and the files
    /// must be as there. A setup that fails is an error of kind `Preflight`; a cancelled one of kind `Stopped`.
    pub fn set_up(&self, git: &Git) -> Result<Vec<String>> {
        let Place { spec, log, .. } = self;
        let Some(setup) = &spec.setup else { return Ok(Vec::new()) };
        let Some(due) = setup.due(git, &spec.job.base, &spec.worktree, &record(spec))? else { return Ok(Vec::new()) };
        due.begin()?;
        crash::point(|| "with setup begun");
        log.info("setup_started", &setup.command);
        let index = spec.slot_file("index");
        let pristine = Pristine::read(&index)?;
        let guard = Guard::look(spec);
        let (ended, cause) = self.run(setup)?;
        let git = private_git(spec)?.index(&index);
        pristine.write(&index)?;
        let planted = guard.restore(&git, self.job_dir)?;
        if ended.cancelled {
            return Err(Error::new(Kind::Stopped, format!("cancelled during {SETUP}")));
        }
        let status = git.status()?;
        let mut warnings: Vec<String> =
            planted.strays.iter().map(|name| format!("{SETUP} changed {name}; it was restored")).collect();
        if let Some(strays) = provision::strays(&status) {
            warnings.push(strays);
            reset(spec, &git, &index)?;
        }
        if ended.success() {
            log.info("setup_ended", &format!("passed after {:.1} s", ended.duration.as_secs_f64()));
            due.done(&status)?;
            crash::point(|| "with setup done");
            return Ok(warnings);
        }
        let error = self.failure(setup, &ended, cause);
        log.write(Severity::Error, "setup_ended", error.message());
        if is_to_be_fixed(spec) {
            // What fails is what the agent is to repair.
            warnings.push(error.message().to_owned());
            return Ok(warnings);
        }
        Err(error)
    }

    /// Runs the command; returns also the likely cause if it fails.
    fn run(&self, setup: &Setup) -> Result<(Ended, Option<String>)> {
        let Place { spec, job_dir, cancel, log } = self;
        let failed = |error: std::io::Error| Error::caused(SETUP)(error);
        let git_link = GitLink { spec, job_dir };
        let sandbox = sandbox::for_agent(spec)?;
        let command = Cmd::shell(&setup.command)
            .envs(spec.environment(sandbox.workdir()))
            .merged()
            .keep(OUTPUT_BYTES.0, OUTPUT_BYTES.1)
            .copy_to(log.lines("setup_output"))
            .timeout(SETUP_TIMEOUT)
            .grace(spec.limits.grace());
        let running = sandbox.confine(command)?.spawn().map_err(failed)?;
        let ended = cancel.wait(running).map_err(failed)?;
        if !proc::end_descendants(Duration::ZERO) {
            return Err(Error::new(Kind::Failed, format!("{SETUP} left processes that cannot be ended")));
        }
        drop(git_link);
        let failed = !ended.success() && !ended.cancelled;
        let cause = failed.then(|| likely_cause(spec, &sandbox, &ended)).flatten();
        confinement::failure(&sandbox).map_or(Ok((ended, cause)), Err)
    }

    fn failure(&self, setup: &Setup, ended: &Ended, cause: Option<String>) -> Error {
        let how = match ended.timed_out {
            true => format!("did not end within {} s", SETUP_TIMEOUT.as_secs()),
            false => format!("failed with {}", ended.status),
        };
        let worker = self.spec.job.worker;
        let output = self.log.redactor().redacted(&bounded_text(&ended.stdout, OUTPUT_BYTES));
        let (what, command) = (format!("{SETUP} {how} in the worktree of worker {worker}"), setup.command.clone());
        let failure = SetupFailure::Command { what, command, output, cause };
        let hint = format!("Try it: {}", provision::try_it(&setup.command));
        Error::new(Kind::Preflight, failure.to_string()).hint(hint).source(failure)
    }
}

/// Returns the file that records that the slot's worktree was warmed.
pub fn warm_record(spec: &JobSpec) -> PathBuf {
    spec.slot_file("warm")
}

/// Returns the file that records what setup ran on in the slot.
pub fn record(spec: &JobSpec) -> PathBuf {
    spec.slot_file("setup")
}

/// Whether the attempt is to fix what keeps the setup from passing.
fn is_to_be_fixed(spec: &JobSpec) -> bool {
    matches!(&spec.job.purpose, Purpose::Fix { failure } if failure.gate == SETUP)
}
