//! A command that the user tries on what a task's last attempt left, run as the task's verification would run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mahabharatha_core::config::Isolation;
use mahabharatha_core::ids::Oid;
use mahabharatha_core::run::event::JobEnd;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::git::Git;
use mahabharatha_sys::proc::{self, Cmd, Ended, MARKER, ProcessId};
use mahabharatha_sys::sandbox::Sandbox;
use mahabharatha_sys::store::locks::{JobLock, TrialLock};
use rustix::process::Signal;
use tempfile::TempDir;

use super::job_spec::JobSpec;
use super::sandbox::{self, GitLink};
use super::start::{self, private_git};
use super::verify::likely_cause;
use super::watch::CancelSignal;
use super::{GRACE, include, ownership, read_result};
use crate::confinement::{self, Confinement};

/// Where the command runs, and with which settings.
pub struct Trial {
    spec: JobSpec,
    job_dir: PathBuf,
    place: Place,
    /// In the slot: keeps the session that holds the task from ending the attempt, and a run from starting.
    _lock: Option<TrialLock>,
}

enum Place {
    /// The attempt's own worktree, which has work that is saved nowhere else.
    Slot,
    /// A copy, removed after the command.
    Copy { dir: TempDir, commit: Oid },
}

/// Settings of the next attempt, which the current configuration gives.
pub struct Settings {
    pub confinement: Confinement,
    pub env_pass: Vec<String>,
    pub hidden_variables: Vec<String>,
    pub ports: Vec<u16>,
}

/// What Ctrl-C means for a command in the terminal.
pub struct Interrupts {
    /// Whether it is a shell, which Ctrl-C never ends.
    is_shell: bool,
    /// Whether the programs run below this process, so that a signal reaches them.
    can_pass_on: bool,
    passed_on: bool,
}

impl Interrupts {
    pub fn new(is_shell: bool, isolation: Isolation) -> Interrupts {
        Interrupts { is_shell, can_pass_on: isolation != Isolation::Container, passed_on: false }
    }

    /// Passes Ctrl-C on to the programs, as a terminal would: once, to a shell each time. Returns whether it did.
    pub fn passes_on(&mut self, signal: i32) -> bool {
        if signal != Signal::INT.as_raw() || !self.can_pass_on || (self.passed_on && !self.is_shell) {
            return false;
        }
        self.passed_on = true;
        proc::interrupt_descendants();
        true
    }
}

impl Trial {
    /// Finds the attempt's work: in its worktree, with the settings that its verification gets, if a session holds the
    /// task or its worker was killed; else in a new copy of what it committed or saved.
    pub fn open(job_dir: &Path, settings: Settings) -> Result<Trial> {
        let Settings { confinement, env_pass, hidden_variables, ports } = settings;
        let mut spec = JobSpec { ports, hidden_variables, ..JobSpec::read(job_dir)? };
        let lock = TrialLock::try_acquire(job_dir)?;
        let Some(_idle) = JobLock::try_acquire(job_dir)? else {
            let name = job_dir.file_name().unwrap_or_default().display();
            return Err(Error::new(Kind::Held, format!("a worker is busy with this attempt: {name}"))
                .hint("Try again when the attempt has ended; `mahabharatha status` shows it."));
        };
        let place = match start::occupied(&spec)?.filter(|_| spec.worktree.is_dir()) {
            Some((pristine, _)) => {
                if lock.is_none() {
                    refuse_open(job_dir)?;
                    let text = "another trial of this attempt has ended just now";
                    return Err(Error::new(Kind::Held, text).hint("Try again."));
                }
                end_killed(job_dir);
                let index = spec.slot_file("scratch");
                pristine.write(&index)?;
                let git = private_git(&spec)?.index(&index);
                ownership::stage(&git, &spec.worktree, &ownership::look(&git, &spec)?.owned)?;
                Place::Slot
            }
            None => {
                (spec.confinement, spec.env_pass) = (confinement, env_pass);
                let commit = left(&spec, job_dir)?;
                let dir = copy(&mut spec, &commit)?;
                Place::Copy { dir, commit }
            }
        };
        let lock = lock.filter(|_| matches!(place, Place::Slot));
        Ok(Trial { spec, job_dir: job_dir.to_owned(), place, _lock: lock })
    }

    /// Says in which files the command runs.
    pub fn place(&self) -> String {
        let (task, attempt) = (&self.spec.job.task, self.spec.job.attempt);
        match &self.place {
            Place::Slot => format!("in the worktree of {task} attempt {attempt}; what the command writes stays there"),
            Place::Copy { commit, .. } if *commit == self.spec.job.base => {
                format!("in a copy of {}, since {task} attempt {attempt} left nothing", commit.short())
            }
            Place::Copy { commit, .. } => {
                format!("in a copy of {}, which {task} attempt {attempt} left", commit.short())
            }
        }
    }

    /// Tells whether what the command writes is removed after it.
    pub fn is_copy(&self) -> bool {
        matches!(self.place, Place::Copy { .. })
    }

    pub fn isolation(&self) -> Isolation {
        self.spec.confinement.isolation
    }

    /// Runs the command and waits until every process that it started has ended. Returns also the likely cause if it fails
    /// and its errors are read.
    pub fn run(&self, command: Cmd, mut interrupts: Interrupts) -> Result<(Ended, Option<String>)> {
        let Trial { spec, job_dir, .. } = self;
        proc::become_subreaper().map_err(Error::caused("cannot become the parent of orphans"))?;
        let handled = move |signal| interrupts.passes_on(signal);
        let cancel = CancelSignal::listen_unless(spec.limits.grace(), job_dir.join(GRACE), handled)?;
        let git_link = matches!(self.place, Place::Slot).then_some(GitLink { spec, job_dir });
        let sandbox = self.sandbox()?;
        let mut env = spec.environment(sandbox.workdir());
        env.insert(MARKER.into(), mark(job_dir).into());
        let failed = |error: std::io::Error| Error::caused("cannot run the command")(error);
        let running = sandbox.confine(command.envs(env))?.spawn().map_err(failed)?;
        let ended = cancel.wait(running).map_err(failed)?;
        proc::end_descendants(Duration::ZERO);
        drop(git_link);
        let failed = !ended.success() && !ended.cancelled;
        let cause = failed.then(|| likely_cause(spec, &sandbox, &ended)).flatten();
        confinement::failure(&sandbox).map_or(Ok((ended, cause)), Err)
    }

    fn sandbox(&self) -> Result<Sandbox> {
        match &self.place {
            Place::Slot => sandbox::for_verification(&self.spec),
            Place::Copy { dir, .. } => {
                sandbox::for_copy(&self.spec, dir.path().join("sandbox"), &dir.path().join("index"))
            }
        }
    }
}

/// Returns the mark of the processes of an attempt's trials. It is below the attempt's own.
fn mark(job_dir: &Path) -> PathBuf {
    job_dir.join("trial")
}

/// Fails if a trial is open in the attempt's worktree.
pub fn refuse_open(job_dir: &Path) -> Result<()> {
    let Some(holder) = TrialLock::holder(job_dir)? else { return Ok(()) };
    let name = job_dir.file_name().unwrap_or_default().to_string_lossy();
    let task = name.rsplit_once('.').map_or(&*name, |(task, _)| task);
    Err(Error::new(
        Kind::Held,
        format!("`mahabharatha sandbox --task {task}` is open in the task's worktree ({holder})"),
    )
    .hint("End that command first; `mahabharatha stop` does it too."))
}

/// Ends what a killed trial left running in the attempt's worktree. No trial may be open there.
pub fn end_killed(job_dir: &Path) {
    if TrialLock::file(job_dir).exists() {
        for process in proc::find_marked(MARKER, mark(job_dir)) {
            proc::end_process(process);
        }
    }
}

/// Ends an open trial; returns whether there was one.
pub fn end_open(job_dir: &Path, grace: Duration) -> Result<bool> {
    let Some(holder) = TrialLock::holder(job_dir)? else { return Ok(false) };
    // An agent without a sandbox may have written any number there.
    let process = holder.pid.and_then(ProcessId::of).filter(|process| process.has_open(&TrialLock::file(job_dir)));
    if let Some(process) = process {
        proc::end_process_within(process, grace);
        TrialLock::wait_until_free(job_dir)?;
    }
    end_killed(job_dir);
    Ok(true)
}

/// Returns the commit with the attempt's work: verified, or else saved; the base if there is none.
fn left(spec: &JobSpec, job_dir: &Path) -> Result<Oid> {
    let report = read_result(job_dir)?;
    let left = report.and_then(|report| match report.end {
        JobEnd::Done { commit } => Some(commit),
        _ => report.wip,
    });
    Ok(left.unwrap_or_else(|| spec.job.base.clone()))
}

/// Checks the commit out in a temporary directory, which becomes the worktree of `spec`.
fn copy(spec: &mut JobSpec, commit: &Oid) -> Result<TempDir> {
    let failed = Error::caused("cannot create a temporary directory");
    let dir = tempfile::Builder::new().prefix("mahabharatha-sandbox-").tempdir().map_err(failed)?;
    spec.worktree = dir.path().join("tree");
    fs::create_dir(&spec.worktree).map_err(io("make", &spec.worktree))?;
    let git = Git::objects(&dir.path().join("git"), &spec.common_dir, &spec.pinned)?;
    git.detach_head(&spec.job.base)?;
    let git = git.work_tree(&spec.worktree).index(dir.path().join("index"));
    git.run(["read-tree", "--reset", "-u", commit.as_str()])?;
    include::include(spec, &git)?;
    Ok(dir)
}
