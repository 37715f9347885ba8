//! What a session asks of a run: of one that it drives itself, or of any for one task.

use std::sync::Arc;

use mahabharatha_core::ids::Time;
use mahabharatha_core::run::effect::{Answer, Effect, EffectId, Job};
use mahabharatha_core::run::event::{Backoff, Command, Event, Intent, JobReport, Policy};
use mahabharatha_core::run::{Host, Phase, Run, happen, record, take_over};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::store::atomic::write_atomic;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::{FeatureLock, JobLock};
use mahabharatha_sys::store::spool::{self, Asked};
use mahabharatha_sys::ui::Ui;

use super::{Begun, Options, Recorder, Session, now, rebuild};
use crate::host::LocalHost;
use crate::lease::{self, Lease};
use crate::report::{Opening, files};
use crate::specs;
use crate::worker::{self, FENCE, subagents};

/// A session does each task twice at most, and fixes a level once.
const ATTEMPTS: u32 = 2;
const MAX_FIXES: u32 = 1;

/// As the configuration has it, within what a session may do; and it waits for nothing.
pub(super) fn policy(policy: Policy) -> Policy {
    Policy {
        max_attempts: policy.max_attempts.min(ATTEMPTS),
        remediation_attempts: policy.remediation_attempts.min(MAX_FIXES),
        backoff: Backoff { base_ms: 0, ..policy.backoff },
        ..policy
    }
}

/// How a session takes part in a run that it drives.
pub fn options(lease: &Lease, intent: Intent) -> Options {
    Options {
        workers: lease.workers,
        allow_red_base: lease.allow_red_base,
        lease: Some(lease.clone()),
        ..Options::new(intent)
    }
}

/// Has the run's process carry a command out, or does so itself where none is alive.
pub fn ask(project: &Project, paths: &FeaturePaths, ui: &Arc<Ui>, lease: &Lease, command: Command) -> Result<Answer> {
    if !matches!(command, Command::Finish { .. }) {
        super::refuse_another_session(paths, Some(lease))?;
    }
    match spool::ask(paths.dir(), &paths.holder_file(), &command)? {
        Asked::Answered(answer) => Ok(answer),
        Asked::TookLock { lock, request } => {
            let asked = Event::Asked { request: request.clone(), command };
            let run = apply(project, paths, ui, lease, &lock, Some(asked))?;
            Ok(run.answer(&request).cloned().unwrap_or_default())
        }
    }
}

/// The run as it is for the session: with what has expired given up, and the next level begun where it is time.
pub fn refresh(project: &Project, paths: &FeaturePaths, ui: &Arc<Ui>, lease: &Lease) -> Result<Run> {
    let lock = FeatureLock::wait(paths.dir(), &paths.holder_file())?;
    apply(project, paths, ui, lease, &lock, None)
}

fn apply(
    project: &Project,
    paths: &FeaturePaths,
    ui: &Arc<Ui>,
    lease: &Lease,
    lock: &FeatureLock,
    asked: Option<Event>,
) -> Result<Run> {
    // What somebody has done is taken whoever drives.
    if !matches!(asked, Some(Event::Asked { command: Command::Finish { .. }, .. })) {
        super::refuse_another_session(paths, Some(lease))?;
    }
    // It may have been ended before the lock was ours.
    let drives = Lease::of(paths.dir(), &lease.session).is_some_and(|lease| lease.drives);
    let lease = &Lease { drives, ..lease.clone() };
    let (mut journal, records) = Journal::open_for_append(lock, paths.feature())?;
    let mut run = rebuild(paths, &records)?.ok_or_else(|| {
        Error::new(Kind::Invalid, format!("there has been no run of {}", paths.feature()))
            .hint(format!("mahabharatha task start -f {}", paths.feature()))
    })?;
    drop(records);
    let options = options(lease, Intent::Session(None));
    let session = Session { project, paths, ui, options: &options, config: specs::load_config(project)? };
    if lease.drives && !is_open(&run) {
        let event = session.resumed(Intent::Session(None))?;
        record(&mut run, &mut journal, now(), &event)?;
    }
    let opening = Opening::of(&run);
    let (run, _) = session.carry_on(journal, Begun { run, opening }, Vec::new(), asked.into_iter().collect())?;
    Ok(run)
}

/// Gives up the attempts that sessions hold and that `is_meant` picks by job and session; whether there were any. What
/// was done stays in the worktree until the next worker there saves it.
pub fn give_up(
    project: &Project,
    paths: &FeaturePaths,
    lock: &FeatureLock,
    is_meant: impl Fn(&Job, &str) -> bool,
) -> Result<bool> {
    let (mut journal, records) = Journal::open_for_append(lock, paths.feature())?;
    let Some(mut run) = rebuild(paths, &records)? else { return Ok(false) };
    let meant = run.held().filter(|(job, session)| is_meant(job, session));
    let given_up: Vec<Job> = meant.map(|(job, _)| job.clone()).collect();
    for Job { effect, task, attempt, .. } in &given_up {
        let dir = paths.job(task, *attempt);
        let _gone = JobLock::wait(&dir)?;
        if matches!(worker::read_result(&dir), Ok(Some(_))) {
            // It has ended by itself, which whoever did it is about to tell.
            continue;
        }
        write_atomic(&dir.join(FENCE), b"")?;
        let report = JobReport { tokens: subagents::tokens(&dir), ..JobReport::cancelled() };
        let event = Event::JobEnded { effect: *effect, task: task.clone(), attempt: *attempt, report };
        record(&mut run, &mut journal, now(), &event)?;
    }
    if !given_up.is_empty() {
        files::write_all(project, paths, &run)?;
    }
    Ok(!given_up.is_empty())
}

/// Gives up what sessions hold that ended or have been silent for too long, so that status and task list show it. Does
/// nothing while another process drives the run: that one notices by itself.
pub fn release_ended(project: &Project, paths: &FeaturePaths) -> Result<()> {
    let Ok(lock) = FeatureLock::try_acquire(paths.dir(), &paths.holder_file())? else { return Ok(()) };
    // An attempt that is being verified or committed now is left alone.
    let is_idle = |job: &Job| !JobLock::is_held(&paths.job(&job.task, job.attempt));
    give_up(project, paths, &lock, |job, session| is_idle(job) && Lease::of(paths.dir(), session).is_none())?;
    lease::end_expired(paths.dir())
}

/// Whether tasks can be claimed as it is, or it is at its end.
fn is_open(run: &Run) -> bool {
    let open = run.intent() == Intent::Session(None) && matches!(run.phase(), Phase::Working);
    open || run.ended() == Some(&mahabharatha_core::run::End::Completed)
}

/// The world as a session meets it: where it does not drive the run, only what sessions hold is its business.
struct Part<'a> {
    host: &'a mut LocalHost,
    drives: bool,
}

impl Part<'_> {
    fn minds(&self, effect: &Effect) -> bool {
        self.drives || effect.is_held() || matches!(effect, Effect::Answer { .. } | Effect::Cancel { .. })
    }
}

impl Host for Part<'_> {
    fn now(&self) -> Time {
        self.host.now()
    }

    fn begin(&mut self, id: EffectId, effect: &Effect, run: &Run) {
        if self.minds(effect) {
            self.host.begin(id, effect, run);
        }
    }

    fn reconcile(&mut self, id: EffectId, effect: &Effect, run: &Run) {
        if self.minds(effect) {
            self.host.reconcile(id, effect, run);
        }
    }

    fn next(&mut self, run: &Run) -> Event {
        self.host.next(run)
    }
}

/// Has what was asked happen. A run that the session drives goes on until nothing but what sessions hold is awaited; one
/// that somebody else drives, or nobody, is carried no further.
pub(super) fn take_part(
    run: &mut Run,
    journal: &mut Recorder,
    host: &mut LocalHost,
    asked: Vec<Event>,
    drives: bool,
) -> Result<()> {
    let mut part = Part { host, drives };
    take_over(run, &mut part);
    // What is over is noted before anything new is asked for.
    while let Some(event) = part.host.pending() {
        happen(run, journal, &mut part, &event)?;
    }
    for event in &asked {
        happen(run, journal, &mut part, event)?;
    }
    loop {
        let event = match part.host.pending() {
            Some(event) => event,
            None if !drives || run.is_settled() => return Ok(()),
            None => part.next(run),
        };
        happen(run, journal, &mut part, &event)?;
    }
}
