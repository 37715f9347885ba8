//! Carries out a run's effects on this machine, each on its own thread, and answers each with an event.
//!
//! Driven by `session`. The run decides what happens next; nothing here may decide it.

pub mod cleanup;
mod clock;
mod close;
mod context;
mod inbox;
pub mod integrate;
pub mod jobs;
mod slots;

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mahabharatha_core::ids::{Oid, Time, WorkerId};
use mahabharatha_core::run::effect::{Effect, EffectId, GRACE_PERIOD, Job, Purpose};
use mahabharatha_core::run::event::{Command, Event, GateFailure, Note};
use mahabharatha_core::run::{Host, Run};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::interrupt;
use mahabharatha_sys::signals;
use mahabharatha_sys::store::locks::IntegrationLock;
use mahabharatha_sys::store::spool::Spool;

use crate::agent;
use crate::worker;
use clock::Clock;
pub use context::{Context, Settings};
use inbox::Inbox;
use integrate::{Blame, GateCall, Gated, Integration, Outcome};

/// The host of a run on this machine.
pub struct LocalHost {
    context: Context,
    events: Sender<Event>,
    inbox: Inbox,
    spool: Spool,
    jobs: BTreeMap<EffectId, (Job, jobs::Control)>,
    /// Held by the one thread that may use the staging worktree.
    staging: Arc<Mutex<()>>,
    /// Repository-wide lock that serializes the integration of features, kept from staging to landing.
    integration: Arc<Mutex<Option<IntegrationLock>>>,
    staging_prepared: bool,
    /// Each thread holds a clone of the sender until it ends.
    threads: (Sender<()>, Receiver<()>),
    clock: Clock,
}

/// How long `finish` waits for the remaining threads.
const THREAD_EXIT_TIMEOUT: Duration = Duration::from_secs(20);

impl LocalHost {
    /// Creates the host. `last` is the latest time in the journal.
    pub fn new(context: Context, last: Time) -> Result<LocalHost> {
        let (events, arriving) = mpsc::channel();
        let asked = events.clone();
        let spool = Spool::watch(context.paths.dir(), move |request, command| {
            let _ = asked.send(Event::Asked { request, command });
        })?;
        listen_for_signals(events.clone())?;
        Ok(LocalHost {
            context,
            events,
            inbox: Inbox::new(arriving),
            spool,
            jobs: BTreeMap::new(),
            staging: Arc::default(),
            integration: Arc::default(),
            staging_prepared: false,
            threads: mpsc::channel(),
            clock: Clock::after(last),
        })
    }

    /// Returns the next event that has already arrived, without waiting.
    pub fn pending(&mut self) -> Option<Event> {
        self.inbox.take().inspect(|event| self.forget_ended(event))
    }

    fn forget_ended(&mut self, event: &Event) {
        if let Event::JobEnded { effect, .. } | Event::Asked { command: Command::Finish { effect, .. }, .. } = event {
            self.jobs.remove(effect);
        }
    }

    /// Returns a sender for events that answer no effect.
    pub fn sender(&self) -> Sender<Event> {
        self.events.clone()
    }

    fn started(&mut self, id: EffectId, job: &Job, control: Option<jobs::Control>) {
        self.jobs.extend(control.map(|control| (id, (job.clone(), control))));
    }

    /// Runs the work of an effect on a thread and sends the event that answers the effect.
    fn in_background(&self, id: EffectId, work: impl FnOnce(&Context) -> Result<Outcome<Event>> + Send + 'static) {
        let (context, events, running) = (self.context.clone(), self.events.clone(), self.threads.0.clone());
        thread::spawn(move || {
            let _running = running;
            let event = match work(&context) {
                Ok(Outcome::Done(event)) => event,
                Ok(Outcome::Cancelled) => Event::Cancelled { effect: id },
                Err(error) if error.kind() == Kind::OutOfSpace => {
                    let _ = events.send(Event::OutOfSpace { why: error.message().to_owned() });
                    Event::Cancelled { effect: id }
                }
                Err(error) => Event::EffectFailed { effect: id, error: error.to_string() },
            };
            let _ = events.send(event);
        });
    }

    /// Like `in_background`, but holds the repository's integration lock, which `next` releases once the run is no
    /// longer integrating.
    fn integrate(
        &self,
        id: EffectId,
        work: impl FnOnce(&Context, &Integration, &IntegrationLock) -> Result<Outcome<Event>> + Send + 'static,
    ) {
        let (staging, held, events) = (Arc::clone(&self.staging), Arc::clone(&self.integration), self.events.clone());
        self.in_background(id, move |context| {
            let _one_at_a_time = staging.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = held.lock().unwrap_or_else(PoisonError::into_inner).take();
            let lock = match kept {
                Some(lock) => lock,
                None => {
                    // Another feature may hold the lock for as long as its gates run.
                    let dir = context.project.shared_dir();
                    match context.cancel.unless_cancelled(move || IntegrationLock::wait(&dir)) {
                        Some(lock) => lock?,
                        None => return Ok(Outcome::Cancelled),
                    }
                }
            };
            let outcome = work(context, &context.integration(forward_notes(events))?, &lock)?;
            *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock);
            Ok(outcome)
        });
    }

    /// Checks out staging while agents work, so that a completed level integrates faster. Errors are ignored here; the
    /// level's integration reports them.
    fn prepare_staging(&mut self, base: &Oid, clean: bool) {
        if std::mem::replace(&mut self.staging_prepared, true) {
            return;
        }
        let (context, staging, base) = (self.context.clone(), Arc::clone(&self.staging), base.clone());
        let (events, running) = (self.events.clone(), self.threads.0.clone());
        thread::spawn(move || {
            let _running = running;
            let _one_at_a_time = staging.lock().unwrap_or_else(PoisonError::into_inner);
            context
                .integration(forward_notes(events))
                .and_then(|integration| integration.prepare_staging_worktree(&base, clean))
        });
    }

    /// Kills everything in progress at once, for when the journal cannot be written. A resumed run repeats that work.
    pub fn cancel_all(&mut self) {
        self.cancel(true, Duration::ZERO, None);
        for (job, _) in self.jobs.values().filter(|(_, control)| !matches!(control, jobs::Control::Held(_))) {
            let _ = jobs::wait_for_end(&self.context.paths, &job.task, job.attempt);
        }
    }

    /// Waits for the threads to end, because a git process killed midway leaves locks and half-created worktrees
    /// behind.
    pub fn finish(self) {
        let LocalHost { context, threads: (running, ended), .. } = self;
        drop(running);
        // Nothing is ever sent: the channel disconnects when the last thread drops its sender.
        let _ = ended.recv_timeout(THREAD_EXIT_TIMEOUT);
        agent::forget_logins(&worker::slots_dir(context.paths.dir()));
    }

    fn carry_out(&mut self, id: EffectId, effect: &Effect, run: &Run) {
        self.context.update_graph(run);
        match effect.clone() {
            Effect::RunJob(job) => {
                let control = jobs::start(&self.context, &job, run, &self.events);
                self.started(id, &job, control);
                if job.purpose == Purpose::Build {
                    self.prepare_staging(&job.base, run.is_next_gated_clean());
                }
            }
            Effect::PrepareSlot { worker } => {
                self.in_background(id, move |context| {
                    context.lease_ports_for(worker)?;
                    slots::prepare(context, worker)?;
                    Ok(Outcome::Done(Event::SlotReady { effect: id, worker }))
                });
            }
            Effect::CheckBase { base } => {
                let (staging, events) = (Arc::clone(&self.staging), self.events.clone());
                self.in_background(id, move |context| {
                    let _one_at_a_time = staging.lock().unwrap_or_else(PoisonError::into_inner);
                    let checked = context.integration(forward_notes(events))?.check_base(&base)?;
                    Ok(checked.map(|red| Event::BaseChecked { effect: id, red }))
                });
            }
            Effect::Stage { level, base, tasks } => self.integrate(id, move |_, integration, _| {
                Ok(Outcome::Done(match integration.stage(level, &base, &tasks)? {
                    Ok((staging, commits)) => Event::Staged { effect: id, level, staging, commits },
                    Err(obstacle) => Event::NotLanded { effect: id, level, obstacle },
                }))
            }),
            effect @ Effect::Gate { .. } => self.gate(id, effect, run),
            Effect::Blame { level, base, failure, commits } => {
                self.integrate(id, move |_, integration, _| {
                    let blamed = integration.blame(&base, &failure, &commits)?;
                    Ok(blamed.map(|Blame { task, why }| Event::Blamed { effect: id, level, task, why }))
                });
            }
            Effect::Land { level, candidate } => self.integrate(id, move |_, integration, lock| {
                Ok(Outcome::Done(match integration.land(lock, level, &candidate)? {
                    Ok(commit) => Event::Landed { effect: id, level, commit },
                    Err(obstacle) => Event::NotLanded { effect: id, level, obstacle },
                }))
            }),
            Effect::Close => {
                let run = run.clone();
                self.in_background(id, move |context| {
                    close::close(context, &run)?;
                    Ok(Outcome::Done(Event::Closed { effect: id }))
                });
            }
            Effect::Cancel { force, grace_ms, only } => self.cancel(force, Duration::from_millis(grace_ms), only),
            Effect::Answer { request, answer } => {
                // Fails if the client is gone or the disk is full; neither affects the run.
                let _ = self.spool.answer(&request, &answer);
            }
        }
    }

    /// Runs the gates of a level.
    fn gate(&mut self, id: EffectId, effect: Effect, run: &Run) {
        let Effect::Gate { level, base, staging, passed, verify, clean, ignore } = effect else { return };
        let verify = self.context.verifications(run, &verify);
        self.integrate(id, move |_, integration, lock| {
            let (base, staging, passed, ignore, verify) = (&base, &staging, &passed, &ignore, &verify);
            let call = GateCall { level, base, staging, passed, ignore, verify, clean };
            Ok(integration.gate(lock, call)?.map(|gated| match gated {
                Gated::Passed { candidate, passed } => Event::GatesPassed { effect: id, level, candidate, passed },
                Gated::Failed { failure, passed } => Event::GateFailed { effect: id, level, failure, passed },
                Gated::Blocked(obstacle) => Event::NotLanded { effect: id, level, obstacle },
            }))
        });
    }

    fn cancel(&mut self, force: bool, grace: Duration, only: Option<WorkerId>) {
        for (job, control) in self.jobs.values() {
            // When the run ends, sessions keep the tasks that they hold.
            let meant = only.map_or(!matches!(control, jobs::Control::Held(_)), |worker| worker == job.worker);
            if meant {
                let dir = self.context.paths.job(&job.task, job.attempt);
                control.cancel(&dir, force, grace);
            }
        }
        if only.is_none() {
            self.context.cancel.cancel(if force { Duration::ZERO } else { grace });
        }
    }
}

impl Host for LocalHost {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn begin(&mut self, id: EffectId, effect: &Effect, run: &Run) {
        // No crash point before it: the one after the journal append or the previous effect covers that state.
        self.carry_out(id, effect, run);
        crash::point(|| format!("begun {}", label(effect)));
    }

    fn reconcile(&mut self, id: EffectId, effect: &Effect, run: &Run) {
        match effect {
            Effect::RunJob(job) => {
                let control = jobs::reconcile(&self.context, job, run, &self.events);
                self.started(id, job, control);
            }
            // Every other effect detects what is already done, once its leftover processes are killed.
            other => {
                jobs::end_escaped(&self.context.integration_dir());
                if jobs::runs_commands_in_staging(other) {
                    jobs::end_working_in(&self.context.paths.staging_worktree());
                }
                self.begin(id, other, run);
            }
        }
    }

    fn next(&mut self, run: &Run) -> Event {
        if !run.is_integrating() {
            self.integration.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        let event = self.inbox.wait(&self.clock, run.next_wakeup()).unwrap_or(Event::Woke);
        self.forget_ended(&event);
        event
    }
}

/// Gates that failed on the base.
#[derive(Debug)]
pub struct RedGates {
    pub required: Vec<GateFailure>,
    /// Those that are not required, so that a run only reports them.
    pub optional: Vec<GateFailure>,
}

/// Runs the gates on the commit that the run would start from and removes the worktree and refs that this created.
pub fn check_base(context: &Context) -> Result<RedGates> {
    let cancel = context.cancel.clone();
    signals::listen(move |before, _| cancel.cancel(if before > 0 { Duration::ZERO } else { GRACE_PERIOD }))?;
    let found = || -> Result<Vec<cleanup::What>> {
        let found = cleanup::leftovers(&context.project, &context.paths, None, false)?;
        Ok(found.into_iter().map(|leftover| leftover.what).collect())
    };
    // What is there already may be work of a run whose journal is lost.
    let before = found()?;
    let (sender, optional) = mpsc::channel();
    let note = move |note| {
        if let integrate::Note::OnlyReported { failure, .. } = note {
            let _ = sender.send(failure);
        }
    };
    let checked = context.integration(note).and_then(|integration| integration.check_base(&context.start));
    let created: Vec<cleanup::What> = found()?.into_iter().filter(|what| !before.contains(what)).collect();
    cleanup::remove(&context.project, &context.paths, &created)?;
    match checked? {
        Outcome::Done(required) => Ok(RedGates { required, optional: optional.try_iter().collect() }),
        Outcome::Cancelled => Err(Error::new(Kind::Stopped, "stopped before the gates had ended")),
    }
}

/// Names an effect in crash points, by its kind and subject.
fn label(effect: &Effect) -> String {
    match effect {
        Effect::CheckBase { .. } => "check_base".to_string(),
        Effect::PrepareSlot { worker } => format!("prepare_slot {worker}"),
        Effect::RunJob(job) => format!("run_job {} {}", job.task, job.attempt),
        Effect::Stage { level, .. } => format!("stage {level}"),
        Effect::Gate { level, .. } => format!("gate {level}"),
        Effect::Blame { level, .. } => format!("blame {level}"),
        Effect::Land { level, .. } => format!("land {level}"),
        Effect::Close => "close".to_string(),
        Effect::Cancel { .. } => "cancel".to_string(),
        Effect::Answer { .. } => "answer".to_string(),
    }
}

/// Returns a callback that turns integration notes into events for the user.
fn forward_notes(events: Sender<Event>) -> impl Fn(integrate::Note) + Send + Sync + 'static {
    move |note| {
        let (level, note) = match note {
            integrate::Note::OnlyReported { level, failure } => (level, Note::OnlyReported { failure }),
            integrate::Note::Kept { name } => (None, Note::StagingKept { name }),
            integrate::Note::Gained { level, branch, commits } => (Some(level), Note::Gained { branch, commits }),
            integrate::Note::LockFilesLeftOut { level, files } => (Some(level), Note::LockFilesLeftOut { files }),
            integrate::Note::LockFilesDeleted { level, files } => (Some(level), Note::LockFilesDeleted { files }),
            integrate::Note::PutBack { name } => (None, Note::RefPutBack { name }),
        };
        let _ = events.send(Event::Noted { level, note });
    }
}

/// Stops the run gracefully on the first signal and by force on the second. After the run, a signal terminates the
/// process, which may be blocked on output that the reader does not read, unless the command goes on and handles it.
fn listen_for_signals(events: Sender<Event>) -> Result<()> {
    signals::listen(move |before, signal| {
        let command = Command::Stop { force: before > 0, grace_ms: GRACE_PERIOD.as_millis() as u64, worker: None };
        let request = format!("signal-{signal}-{}-{before}", std::process::id());
        if events.send(Event::Asked { request, command }).is_err() && !interrupt::listens() {
            signals::terminate_by(signal);
        }
    })
}
