//! Applies the requests of a session to a run: one that it drives, or one of which it only claims single tasks.
//!
//! A session that does not drive the run carries out no effects but those of held tasks, answers and cancellations.

use std::sync::Arc;

use mahabharatha_core::ids::Time;
use mahabharatha_core::run::effect::{Answer, Effect, EffectId, Job};
use mahabharatha_core::run::event::{Backoff, Command, Event, Intent, JobReport, Policy};
use mahabharatha_core::run::{Host, Phase, Run, happen, record, take_over};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::{FeaturePaths, Place, Project};
use mahabharatha_sys::store::atomic::write_atomic;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::{FeatureLock, JobLock};
use mahabharatha_sys::store::spool::{self, Asked};
use mahabharatha_sys::ui::Ui;

use super::{Begun, Options, Recorder, Session, changed_config, now, prepare_containers, rebuild};
use crate::host::LocalHost;
use crate::lease::{self, Lease};
use crate::report::{Display, Opening, files};
use crate::specs;
use crate::worker::{self, FENCE, subagents, trial};

/// Most attempts at a task in a run that a session drives.
const MAX_ATTEMPTS: u32 = 2;
/// Most fixes of a level in a run that a session drives.
const MAX_FIXES: u32 = 1;

/// Limits the configured policy to what a session may do, without backoff.
pub(super) fn policy(policy: Policy) -> Policy {
    Policy {
        max_attempts: policy.max_attempts.min(MAX_ATTEMPTS),
        remediation_attempts: policy.remediation_attempts.min(MAX_FIXES),
        backoff: Backoff { base_ms: 0, ..policy.backoff },
        ..policy
    }
}

/// Returns the options of a session with this lease.
pub fn options(lease: &Lease, intent: Intent) -> Options {
    Options {
        workers: lease.workers,
        allow_red_base: lease.allow_red_base,
        lease: Some(lease.clone()),
        ..Options::new(intent)
    }
}

/// A session that takes part in a run.
pub struct Participant<'a> {
    pub place: &'a Place,
    pub ui: &'a Arc<Ui>,
    pub lease: &'a Lease,
}

impl Participant<'_> {
    /// Sends a command to the process that drives the run, or applies it here if there is none.
    pub fn ask(&self, command: Command) -> Result<Answer> {
        let paths = &self.place.paths;
        if !matches!(command, Command::Finish { .. }) {
            super::refuse_another_session(paths, Some(self.lease))?;
        }
        match spool::ask(paths.dir(), &paths.holder_file(), &command)? {
            Asked::Answered(answer) => Ok(answer),
            Asked::TookLock { lock, request } => {
                let asked = Event::Asked { request: request.clone(), command };
                let run = self.apply(&lock, Some(asked))?;
                Ok(run.answer(&request).cloned().unwrap_or_default())
            }
        }
    }

    /// Brings the run up to date for the session: ends expired attempts and starts the next level if it is due.
    pub fn refresh(&self) -> Result<Run> {
        let lock = FeatureLock::wait(self.place.paths.dir(), &self.place.paths.holder_file())?;
        self.apply(&lock, None)
    }

    fn apply(&self, lock: &FeatureLock, asked: Option<Event>) -> Result<Run> {
        let Participant { place: Place { project, paths, .. }, ui, lease } = *self;
        // Finished work is accepted whichever session drives the run.
        let is_finished = matches!(asked, Some(Event::Asked { command: Command::Finish { .. }, .. }));
        if !is_finished {
            super::refuse_another_session(paths, Some(lease))?;
        }
        // The lease may have ended before this process took the lock.
        let drives = Lease::of(paths.dir(), &lease.session).is_some_and(|lease| lease.drives);
        let lease = &Lease { drives, ..lease.clone() };
        let (mut journal, records) = Journal::open_for_append(lock, paths.feature())?;
        let mut run = rebuild(paths, &records)?.ok_or_else(|| {
            Error::new(Kind::Invalid, format!("there has been no run of {}", paths.feature()))
                .hint(format!("mahabharatha task start -f {}", paths.feature()))
        })?;
        drop(records);
        super::undo::refuse_undone(paths, &run)?;
        let options = options(lease, Intent::Session(None));
        let (display, config) = (Display::start(ui, options.streams), specs::load_config(project)?);
        let isolation = run.policy().isolation;
        let containers = prepare_containers(project, paths, &config, isolation, ui)?;
        let session = Session { project, paths, ui, display, options: &options, config, isolation, containers };
        if !is_finished {
            changed_config::check(&run, &session.config, false, &session.display)?;
        }
        // An ended run resumes with the configuration of today, so only with one that was accepted.
        let is_accepted = run.unaccepted(&session.config.accepted()).is_empty();
        if lease.drives && !is_open(&run) && is_accepted {
            let event = session.resumed(Intent::Session(None), Some(&run), run.graph())?;
            record(&mut run, &mut journal, now(), &event)?;
        }
        let opening = Opening::of(&run);
        let (run, _) = session.drive(journal, Begun { run, opening }, Vec::new(), asked.into_iter().collect())?;
        Ok(run)
    }
}

/// Cancels the attempts held by sessions that `is_meant` selects. Returns whether there were any. Their work stays in
/// the worktree until the next worker there saves it.
pub fn cancel_held(
    project: &Project,
    paths: &FeaturePaths,
    lock: &FeatureLock,
    is_meant: impl Fn(&Job, &str) -> bool,
) -> Result<bool> {
    let (mut journal, records) = Journal::open_for_append(lock, paths.feature())?;
    let Some(mut run) = rebuild(paths, &records)? else { return Ok(false) };
    let meant = run.held().filter(|(job, session)| is_meant(job, session));
    let cancelled: Vec<Job> = meant.map(|(job, _)| job.clone()).collect();
    for Job { effect, task, attempt, .. } in &cancelled {
        let dir = paths.job(task, *attempt);
        let _gone = JobLock::wait(&dir)?;
        if matches!(worker::read_result(&dir), Ok(Some(_))) {
            // The attempt has ended by itself; its session is about to report it.
            continue;
        }
        write_atomic(&dir.join(FENCE), b"")?;
        let report = JobReport { tokens: subagents::tokens(&dir), ..JobReport::cancelled() };
        let event = Event::JobEnded { effect: *effect, task: task.clone(), attempt: *attempt, report };
        record(&mut run, &mut journal, now(), &event)?;
    }
    if !cancelled.is_empty() {
        files::write_all(project, paths, &run)?;
    }
    Ok(!cancelled.is_empty())
}

/// Cancels the attempts of sessions whose lease ended or expired, so that status and task list show it. Does nothing
/// while another process drives the run: that process notices by itself.
pub fn release_ended(project: &Project, paths: &FeaturePaths) -> Result<()> {
    let Ok(lock) = FeatureLock::try_acquire(paths.dir(), &paths.holder_file())? else { return Ok(()) };
    // An attempt that is being verified, committed or tried now is left alone.
    let is_idle = |job: &Job| {
        let dir = paths.job(&job.task, job.attempt);
        !JobLock::is_held(&dir) && trial::refuse_open(&dir).is_ok()
    };
    cancel_held(project, paths, &lock, |job, session| is_idle(job) && Lease::of(paths.dir(), session).is_none())?;
    lease::end_expired(paths.dir())
}

/// Returns whether tasks can be claimed without resuming the run, or the run is completed.
fn is_open(run: &Run) -> bool {
    let open = run.intent() == Intent::Session(None) && matches!(run.phase(), Phase::Working);
    open || run.ended() == Some(&mahabharatha_core::run::End::Completed)
}

/// The host of a session. If the session does not drive the run, ignores effects other than those of held tasks,
/// answers and cancellations.
struct SessionHost<'a> {
    inner: &'a mut LocalHost,
    drives: bool,
}

impl SessionHost<'_> {
    fn handles(&self, effect: &Effect) -> bool {
        self.drives || effect.is_held() || matches!(effect, Effect::Answer { .. } | Effect::Cancel { .. })
    }
}

impl Host for SessionHost<'_> {
    fn now(&self) -> Time {
        self.inner.now()
    }

    fn begin(&mut self, id: EffectId, effect: &Effect, run: &Run) {
        if self.handles(effect) {
            self.inner.begin(id, effect, run);
        }
    }

    fn reconcile(&mut self, id: EffectId, effect: &Effect, run: &Run) {
        if self.handles(effect) {
            self.inner.reconcile(id, effect, run);
        }
    }

    fn next(&mut self, run: &Run) -> Event {
        self.inner.next(run)
    }
}

/// Applies the requested events. If the session drives the run, continues until nothing but held tasks is awaited;
/// otherwise the run does not advance further.
pub(super) fn take_part(
    run: &mut Run,
    journal: &mut Recorder,
    host: &mut LocalHost,
    asked: Vec<Event>,
    drives: bool,
) -> Result<()> {
    let mut host = SessionHost { inner: host, drives };
    take_over(run, &mut host);
    // Record what has already happened before applying new requests.
    while let Some(event) = host.inner.pending() {
        happen(run, journal, &mut host, &event)?;
    }
    for event in &asked {
        happen(run, journal, &mut host, event)?;
    }
    loop {
        let event = match host.inner.pending() {
            Some(event) => event,
            None if !drives || run.is_settled() => return Ok(()),
            None => host.next(run),
        };
        happen(run, journal, &mut host, &event)?;
    }
}
