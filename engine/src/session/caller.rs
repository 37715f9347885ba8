//! The steps of a session that works on tasks itself: open the run, claim tasks, verify, complete.
//!
//! Called by the `task` commands and by the hooks. Prints nothing but warnings and never merges.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mahabharatha_core::ids::{Attempt, TaskId};
use mahabharatha_core::run::effect::{EffectId, Job, Performer, Refusal};
use mahabharatha_core::run::event::{Command, Intent, JobEnd, JobReport};
use mahabharatha_core::run::{End, Run, TaskStatus};
use mahabharatha_core::view::{Next, Step};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::Ui;

use super::claims::{self, Participant};
use super::undo::refuse_undone;
use super::{Options, Outcome, control};
use crate::host::jobs;
use crate::lease::{self, IDLE_LEASE, Lease};
use crate::specs;
use crate::worker::held::{self, Check, Claimed};
use crate::worker::{JobSpec, subagents};

/// Most tasks that a session may work on at once.
const MAX_WORKERS: u32 = 10;

/// Returns the name of the calling session: the given name, the Claude Code session, or the login session.
pub fn session_name(asked: Option<&str>) -> String {
    let of_login = || format!("login-{}", proc::login_session());
    asked.map(str::to_owned).or_else(lease::client_session).unwrap_or_else(of_login)
}

/// The calling session and its place.
pub struct Caller<'a> {
    place: &'a Place,
    ui: &'a Arc<Ui>,
    name: String,
}

/// An attempt that the calling session holds.
pub struct Held {
    pub task: TaskId,
    pub attempt: Attempt,
    pub dir: PathBuf,
    effect: EffectId,
}

/// The claimed tasks with their worktrees, and the refused ones.
pub struct Claims {
    pub claimed: Vec<JobSpec>,
    pub refused: Vec<Refusal>,
}

/// How an attempt ended.
pub struct Finished {
    pub run: Run,
    pub task: TaskId,
    pub attempt: Attempt,
    pub report: JobReport,
    /// Why the run did not take the commit.
    pub rejected: Option<String>,
}

impl<'a> Caller<'a> {
    /// Identifies the calling session and renews its lease.
    pub fn new(place: &'a Place, ui: &'a Arc<Ui>, session: Option<&str>) -> Result<Caller<'a>> {
        let name = session_name(session);
        lease::check_name(&name)?;
        lease::renew(place.paths.dir(), &name);
        Ok(Caller { place, ui, name })
    }

    /// Opens the run for this session, which drives it from now on. Returns how the run ended if it could not be
    /// opened.
    pub fn start(&self, workers: Option<u32>, allow_red_base: bool, accept_config: bool) -> Result<Option<End>> {
        let Caller { place, ui, .. } = self;
        let config = specs::load_config(&place.project)?;
        let workers = Some(workers.unwrap_or(config.workers.count).min(MAX_WORKERS));
        let lease = Lease::new(self.name.clone(), config.workers.timeout);
        let lease = Lease { drives: true, workers, allow_red_base, ..lease };
        let options = Options { accept_config, ..claims::options(&lease, Intent::Session(None)) };
        match super::run(&place.project, &place.paths, ui, &options)? {
            Outcome::AlreadyCompleted | Outcome::Open => Ok(None),
            Outcome::Ended(end) => {
                self.end_lease_unless(|lease, holds| holds && lease.drives)?;
                Ok(Some(end))
            }
        }
    }

    /// Returns the session's lease, or a new one for the tasks that it is about to claim.
    fn lease(&self) -> Lease {
        let lease = Lease::of(self.place.paths.dir(), &self.name);
        lease.unwrap_or_else(|| Lease::new(self.name.clone(), IDLE_LEASE))
    }

    /// Returns the session's next step, and the run.
    pub fn next(&self) -> Result<(Next, Run)> {
        let Caller { place, ui, .. } = self;
        let lease = self.lease();
        let run =
            if lease.drives { Participant { place, ui, lease: &lease }.refresh()? } else { control::read_run(place)? };
        refuse_undone(&place.paths, &run)?;
        let next = Next::of(&run);
        if next.step == Step::Completed && lease.drives {
            // The session still has to report on the run, without permission prompts.
            Lease { drives: false, ..lease }.write(place.paths.dir())?;
        }
        Ok((next, run))
    }

    /// Claims tasks and prepares a worktree for each.
    pub fn claim(&self, tasks: Vec<TaskId>) -> Result<Claims> {
        let Caller { place, ui, name } = self;
        control::read_run(place)?;
        let lease = self.lease();
        if Lease::of(place.paths.dir(), name).is_none() {
            lease.write(place.paths.dir())?;
        }
        let command = Command::Claim { tasks, session: name.clone() };
        let answer = Participant { place, ui, lease: &lease }.ask(command);
        self.drop_idle_lease()?;
        let answer = answer?;
        let run = control::read_run(place)?;
        let (mut claimed, mut refused) = (Vec::new(), answer.refused);
        for task in answer.accepted {
            let ready = held_by(&run, name, &task).map_err(|error| why_not_started(&run, &task).unwrap_or(error));
            let ready = ready.and_then(|job| {
                let dir = place.paths.job(&task, job.attempt);
                for warning in held::make_ready(&dir)? {
                    ui.warn(&warning);
                }
                JobSpec::read(&dir)
            });
            match ready {
                Ok(spec) => claimed.push(spec),
                Err(error) => refused.push(Refusal { task, why: error.to_string() }),
            }
        }
        Ok(Claims { claimed, refused })
    }

    /// Returns the attempt that this session holds at a task.
    pub fn attempt_at(&self, task: &str) -> Result<Held> {
        let task = TaskId::new(task.to_string()).map_err(|bad| Error::new(Kind::Usage, bad.to_string()))?;
        let run = control::read_run(self.place)?;
        // One that the graph no longer has may be held all the same.
        let held = held_by(&run, &self.name, &task);
        let no_such_task =
            |error| run.task(&task).map_or_else(|| control::no_such_task(&run, task.as_str()), |_| error);
        let &Job { effect, attempt, .. } = held.map_err(no_such_task)?;
        let dir = self.place.paths.job(&task, attempt);
        Ok(Held { task, attempt, dir, effect })
    }

    /// Ends the attempt at a task: checks, verifies and commits the work, or saves it as wip.
    pub fn end(&self, task: &str, claimed: Claimed, decisions: Vec<String>) -> Result<Finished> {
        let Caller { place, ui, .. } = self;
        let wants_done = matches!(claimed, Claimed::Done);
        let Held { task, attempt, dir, effect } = match self.attempt_at(task) {
            Err(error) if error.kind() == Kind::Invalid && wants_done => {
                return self.finished_before(task)?.ok_or(error);
            }
            held => held?,
        };
        if wants_done {
            refuse_while_working(&task, &dir)?;
        }
        let report = with_ports(place, &dir, |ports| held::end(&dir, claimed, ports, decisions))?;
        let command = Command::Finish { effect, task: task.clone(), attempt, report: Box::new(report.clone()) };
        let answer = Participant { place, ui, lease: &self.lease() }.ask(command)?;
        if let Some(refusal) = answer.refused.first() {
            return Err(Error::new(Kind::Held, format!("{task}: {}", refusal.why)));
        }
        self.drop_idle_lease()?;
        Ok(Finished { run: control::read_run(place)?, task, attempt, report, rejected: answer.message })
    }

    /// Returns how this session completed the task earlier: a repeated call may have reached the run the first time.
    fn finished_before(&self, task: &str) -> Result<Option<Finished>> {
        let run = control::read_run(self.place)?;
        let tasks = run.graph().tasks().iter().zip(run.tasks());
        let mut completed = tasks.filter(|(_, state)| matches!(state.status, TaskStatus::Completed { .. }));
        let Some((of, state)) = completed.find(|(of, _)| of.id.as_str() == task) else { return Ok(None) };
        let Some(last) = state.attempts.last() else { return Ok(None) };
        let spec = JobSpec::read(&self.place.paths.job(&of.id, last.attempt));
        let is_ours = spec.is_ok_and(|spec| spec.job.performer == Performer::Session(self.name.clone()));
        let report = last.ended.as_ref().map(|(_, report)| report);
        let Some(report) = report.filter(|report| is_ours && matches!(report.end, JobEnd::Done { .. })) else {
            return Ok(None);
        };
        let (task, attempt, report) = (of.id.clone(), last.attempt, report.clone());
        Ok(Some(Finished { run, task, attempt, report, rejected: None }))
    }

    /// Ends the lease of a session that neither drives the run nor holds a task.
    fn drop_idle_lease(&self) -> Result<()> {
        self.end_lease_unless(|lease, holds| holds || lease.drives)
    }

    fn end_lease_unless(&self, needed: impl Fn(&Lease, bool) -> bool) -> Result<()> {
        let dir = self.place.paths.dir();
        let holds = || -> Result<bool> { Ok(control::read_run(self.place)?.held().any(|(_, by)| by == self.name)) };
        let Some(lease) = Lease::of(dir, &self.name) else { return Ok(()) };
        if needed(&lease, holds()?) {
            return Ok(());
        }
        lease::end(dir, &self.name)?;
        // Another call of the same session may have claimed something in between.
        if holds()? { lease.write(dir) } else { Ok(()) }
    }
}

/// Leases ports while a verification of the attempt runs.
fn with_ports<T>(place: &Place, job_dir: &Path, act: impl FnOnce(Vec<u16>) -> Result<T>) -> Result<T> {
    let config = specs::load_config(&place.project)?;
    let leases = place.project.lease_ports(&config.ports, 1)?;
    let done = act(leases.iter().flat_map(|lease| lease.ports.clone()).collect());
    jobs::remove_container_of(job_dir);
    done
}

/// Checks ownership and verification of an attempt that a session holds.
pub fn check(place: &Place, job_dir: &Path) -> Result<Check> {
    with_ports(place, job_dir, |ports| held::check(job_dir, ports))
}

/// Refuses a completion while the task's subagent still works, before anything is checked, so that it costs no attempt.
fn refuse_while_working(task: &TaskId, job_dir: &Path) -> Result<()> {
    let working = subagents::working(job_dir);
    if working.is_empty() {
        return Ok(());
    }
    let message = format!("{task} cannot be completed yet: its subagent ({}) is still working", working.join(", "));
    Err(Error::new(Kind::Held, message).hint(
        format!(
            "End your turn now and complete the task when you are notified that the subagent has finished; nothing was checked, \
             and no attempt was used up. If the subagent is gone: mahabharatha task fail {task} --reason 'it was stopped'."
        ),
    ))
}

/// Returns why an attempt ended immediately.
fn why_not_started(run: &Run, task: &TaskId) -> Option<Error> {
    let (_, report) = run.task(task)?.attempts.last()?.ended.as_ref()?;
    let why = report.warnings.first().filter(|_| matches!(report.end, JobEnd::Died { .. } | JobEnd::Cancelled))?;
    Some(Error::new(Kind::Failed, why.clone()))
}

fn held_by<'r>(run: &'r Run, session: &str, task: &TaskId) -> Result<&'r Job> {
    match run.held().find(|(job, _)| job.task == *task) {
        Some((job, by)) if by == session => Ok(job),
        Some((_, by)) => Err(Error::new(Kind::Held, format!("{task} is held by another session ({by})"))
            .hint("`mahabharatha task list` shows who holds what.")),
        None if run.task(task).is_none() => Err(control::no_such_task(run, task.as_str())),
        None => Err(Error::new(Kind::Invalid, format!("{task} is not held by this session ({session})"))
            .hint(format!("mahabharatha task claim {task}"))),
    }
}
