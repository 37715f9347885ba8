//! Carries out effects in the real world: each on a thread of its own, answered by an event.

pub mod cleanup;
mod clock;
mod close;
mod context;
pub mod integrate;
pub mod jobs;
mod slots;

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mahabharatha_core::ids::{Oid, Time, WorkerId};
use mahabharatha_core::run::effect::{Effect, EffectId, Job, Purpose};
use mahabharatha_core::run::event::{Command, Event, GateFailure, Note};
use mahabharatha_core::run::{Host, Run};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::signals;
use mahabharatha_sys::store::locks::IntegrationLock;
use mahabharatha_sys::store::spool::Spool;

use clock::Clock;
pub use context::Context;
use integrate::{Blame, GateCall, Gated, Integration, Outcome};

/// The world as it is.
pub struct LocalHost {
    context: Context,
    events: Sender<Event>,
    inbox: Receiver<Event>,
    spool: Spool,
    jobs: BTreeMap<EffectId, (Job, jobs::Control)>,
    /// One thing at a time in staging's worktree.
    staging: Arc<Mutex<()>>,
    /// The lock under which features integrate one after the other, from staging to landing.
    integration: Arc<Mutex<Option<IntegrationLock>>>,
    staging_prepared: bool,
    /// Each thread holds a sender as long as it is at work.
    threads: (Sender<()>, Receiver<()>),
    clock: Clock,
}

/// What threads that nobody waits for any more are given at the end.
const LAST_WORK: Duration = Duration::from_secs(20);

impl LocalHost {
    /// `last` is the latest time that the journal has.
    pub fn new(context: Context, last: Time) -> Result<LocalHost> {
        let (events, inbox) = mpsc::channel();
        let asked = events.clone();
        let spool = Spool::watch(context.paths.dir(), move |request, command| {
            let _ = asked.send(Event::Asked { request, command });
        })?;
        listen_for_signals(events.clone(), context.grace())?;
        Ok(LocalHost {
            context,
            events,
            inbox,
            spool,
            jobs: BTreeMap::new(),
            staging: Arc::default(),
            integration: Arc::default(),
            staging_prepared: false,
            threads: mpsc::channel(),
            clock: Clock::after(last),
        })
    }

    /// What has happened already.
    pub fn pending(&mut self) -> Option<Event> {
        self.inbox.try_recv().ok().inspect(|event| self.forget_ended(event))
    }

    fn forget_ended(&mut self, event: &Event) {
        if let Event::JobEnded { task, attempt, .. }
        | Event::Asked { command: Command::Finish { task, attempt, .. }, .. } = event
        {
            self.jobs.retain(|_, (job, _)| !(job.task == *task && job.attempt == *attempt));
        }
    }

    /// For those who have something to tell that no effect answers.
    pub fn sender(&self) -> Sender<Event> {
        self.events.clone()
    }

    fn started(&mut self, id: EffectId, job: &Job, control: Option<jobs::Control>) {
        self.jobs.extend(control.map(|control| (id, (job.clone(), control))));
    }

    /// Does the work of an effect on a thread, which sends the event that answers it.
    fn in_background(&self, id: EffectId, work: impl FnOnce(&Context) -> Result<Outcome<Event>> + Send + 'static) {
        let (context, events, at_work) = (self.context.clone(), self.events.clone(), self.threads.0.clone());
        thread::spawn(move || {
            let _at_work = at_work;
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

    /// As `in_background`, with the repository's integration lock held; `next` releases it when the run has no use for it.
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
                    // Another feature may hold it for as long as its gates take.
                    let dir = context.project.shared_dir();
                    match context.cancel.unless_cancelled(move || IntegrationLock::wait(&dir)) {
                        Some(lock) => lock?,
                        None => return Ok(Outcome::Cancelled),
                    }
                }
            };
            let outcome = work(context, &context.integration(tell(events))?, &lock)?;
            *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock);
            Ok(outcome)
        });
    }

    /// Checks staging out while agents work, so that little is left to do when a level is complete. Where that fails,
    /// the level's integration says why.
    fn prepare_staging(&mut self, base: &Oid) {
        if std::mem::replace(&mut self.staging_prepared, true) {
            return;
        }
        let (context, staging, base) = (self.context.clone(), Arc::clone(&self.staging), base.clone());
        let (events, at_work) = (self.events.clone(), self.threads.0.clone());
        thread::spawn(move || {
            let _at_work = at_work;
            let _one_at_a_time = staging.lock().unwrap_or_else(PoisonError::into_inner);
            context.integration(tell(events)).and_then(|integration| integration.prepare_staging_worktree(&base))
        });
    }

    /// Where nothing more can be noted down: ends what is under way, at once. It is done again when the run goes on.
    pub fn give_up(&mut self) {
        self.cancel(true, Duration::ZERO, None);
        for (job, _) in self.jobs.values().filter(|(_, control)| !matches!(control, jobs::Control::Held(_))) {
            let _ = jobs::wait_for_end(&self.context.paths, &job.task, job.attempt);
        }
    }

    /// Lets threads come to their end: a git that is killed in the middle leaves locks and half a worktree behind.
    pub fn finish(self) {
        let (running, ended) = self.threads;
        drop(running);
        // Nobody sends anything: this waits until the last of them is gone.
        let _ = ended.recv_timeout(LAST_WORK);
    }

    fn carry_out(&mut self, id: EffectId, effect: &Effect, run: &Run) {
        match effect.clone() {
            Effect::RunJob(job) => {
                let control = jobs::start(&self.context, &job, run, &self.events);
                self.started(id, &job, control);
                if job.purpose == Purpose::Build {
                    self.prepare_staging(&job.base);
                }
            }
            Effect::PrepareSlot { worker } => {
                self.in_background(id, move |context| {
                    slots::prepare(context, worker)?;
                    Ok(Outcome::Done(Event::SlotReady { effect: id, worker }))
                });
            }
            Effect::CheckBase { base } => {
                let (staging, events) = (Arc::clone(&self.staging), self.events.clone());
                self.in_background(id, move |context| {
                    let _one_at_a_time = staging.lock().unwrap_or_else(PoisonError::into_inner);
                    let checked = context.integration(tell(events))?.check_base(&base)?;
                    Ok(checked.map(|red| Event::BaseChecked { effect: id, red }))
                });
            }
            Effect::Stage { level, base, tasks } => self.integrate(id, move |_, integration, _| {
                let (staging, commits) = integration.stage(level, &base, &tasks)?;
                Ok(Outcome::Done(Event::Staged { effect: id, level, staging, commits }))
            }),
            Effect::Gate { level, base, staging, passed, verify_all, ignore } => {
                let verify = if verify_all { self.context.verifications(run) } else { Vec::new() };
                self.integrate(id, move |_, integration, lock| {
                    let (base, staging, passed, ignore, verify) = (&base, &staging, &passed, &ignore, &verify);
                    let call = GateCall { level, base, staging, passed, ignore, verify };
                    Ok(integration.gate(lock, call)?.map(|gated| match gated {
                        Gated::Passed { candidate, passed } => {
                            Event::GatesPassed { effect: id, level, candidate, passed }
                        }
                        Gated::Failed { failure, passed } => Event::GateFailed { effect: id, level, failure, passed },
                        Gated::Blocked(obstacle) => Event::NotLanded { effect: id, level, obstacle },
                    }))
                });
            }
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
                // Who asked has gone, or the disk is full: the run itself is none the worse for it.
                let _ = self.spool.answer(&request, &answer);
            }
        }
    }

    fn cancel(&mut self, force: bool, grace: Duration, only: Option<WorkerId>) {
        for (job, control) in self.jobs.values() {
            // A run that ends leaves to sessions what they hold.
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
        // Before it, nothing has happened since the append that led to it, or since the effect before.
        self.carry_out(id, effect, run);
        crash::point(|| format!("begun {}", label(effect)));
    }

    fn reconcile(&mut self, id: EffectId, effect: &Effect, run: &Run) {
        match effect {
            Effect::RunJob(job) => {
                let control = jobs::reconcile(&self.context, job, run, &self.events);
                self.started(id, job, control);
            }
            // Everything else finds out for itself what is done already, once nothing of it runs any more.
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
        let event = match run.next_wakeup() {
            None => self.inbox.recv().ok(),
            Some(until) => match self.clock.wait(&self.inbox, until) {
                Err(RecvTimeoutError::Timeout) => Some(Event::Woke),
                received => received.ok(),
            },
        }
        .expect("the host itself keeps a sender");
        self.forget_ended(&event);
        event
    }
}

/// Runs the gates on the commit that the run would start from, and takes away what that needed. Says which failed.
pub fn check_base(context: &Context) -> Result<Vec<GateFailure>> {
    let (cancel, grace) = (context.cancel.clone(), context.grace());
    listen(move |before, _| cancel.cancel(if before > 0 { Duration::ZERO } else { grace }))?;
    let checked = context.integration(|_| {}).and_then(|integration| integration.check_base(&context.start));
    let left = cleanup::leftovers(&context.project, &context.paths, None, false)?;
    let left: Vec<cleanup::What> = left.into_iter().map(|leftover| leftover.what).collect();
    cleanup::remove(&context.project, &context.paths, &left)?;
    match checked? {
        Outcome::Done(red) => Ok(red),
        Outcome::Cancelled => Err(Error::new(Kind::Stopped, "stopped before the gates had ended")),
    }
}

/// An effect by its kind and what it is about.
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

/// Passes on what a person should know.
fn tell(events: Sender<Event>) -> impl Fn(integrate::Note) + Send + Sync + 'static {
    move |note| {
        let (level, note) = match note {
            integrate::Note::OnlyReported { level, failure } => (level, Note::OnlyReported { failure }),
            integrate::Note::Kept { name } => (None, Note::StagingKept { name }),
            integrate::Note::Gained { level, branch, commits } => (Some(level), Note::Gained { branch, commits }),
            integrate::Note::PutBack { name } => (None, Note::RefPutBack { name }),
        };
        let _ = events.send(Event::Noted { level, note });
    }
}

/// The first signal stops in good order, the second at once. When the run is over, a signal ends the process: it may
/// be waiting for a reader of its last words who does not read.
fn listen_for_signals(events: Sender<Event>, grace: Duration) -> Result<()> {
    listen(move |before, signal| {
        let command = Command::Stop { force: before > 0, grace_ms: grace.as_millis() as u64, worker: None };
        let request = format!("signal-{signal}-{}-{before}", std::process::id());
        if events.send(Event::Asked { request, command }).is_err() {
            signals::terminate_by(signal);
        }
    })
}

fn listen(handle: impl FnMut(usize, i32) + Send + 'static) -> Result<()> {
    signals::listen(handle).map_err(Error::caused("cannot listen for signals"))
}
