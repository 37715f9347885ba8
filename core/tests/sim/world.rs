//! The simulated world: virtual time, workers and repository. It goes on when the orchestrator dies.

use std::collections::BTreeMap;
use std::rc::Rc;

use mahabharatha_core::ids::{Attempt, Level, TaskId, Time, WorkerId};
use mahabharatha_core::run::effect::{Job, Performer};
use mahabharatha_core::run::event::{Command, Event, JobEnd, JobReport, Note, SetupFailure};
use mahabharatha_core::run::{Effect, EffectId, Run};

use crate::faults::{Fault, Faults};
use crate::model::Model;
use crate::person;
use crate::repo::Repo;
use crate::rng::{Rng, oid};
use crate::workers::{Attempted, LONGEST, Odds, Outage, Workers, draw, draw_held};

#[derive(Debug)]
pub struct World {
    pub rng: Rng,
    pub faults: Faults,
    pub repo: Repo,
    workers: Workers,
    /// True time, and the difference of the clock that the host reads.
    time: i64,
    skew: i64,
    /// Coming events of the orchestrator's process; lost when it dies.
    queue: BTreeMap<(i64, u64), Happening>,
    sequence: u64,
    requests: u64,
    outage: Option<Outage>,
    /// Answers that were sent, some of which are repeated later.
    past: Vec<Event>,
    /// Whether the gates have passed in this process, so that the lock must be held until the level has landed.
    gated: bool,
    /// Whether the process is being killed, so that nothing it does counts.
    pub dying: bool,
}

#[derive(Debug)]
enum Happening {
    Told(Event),
    /// The orchestrator carries out this effect itself.
    Acted(EffectId, Effect),
}

impl World {
    pub fn new(mut rng: Rng, repo: Repo) -> World {
        World {
            faults: Faults::random(&mut rng),
            rng,
            repo,
            workers: Workers::default(),
            time: 1_000_000,
            skew: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            requests: 0,
            outage: None,
            past: Vec::new(),
            gated: false,
            dying: false,
        }
    }

    pub fn now(&self) -> Time {
        Time(self.time + self.skew)
    }

    pub fn strikes(&mut self, fault: Fault) -> bool {
        self.faults.strikes(fault, &mut self.rng)
    }

    fn put(&mut self, at: i64, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at.max(self.time), self.sequence), happening);
    }

    fn tell(&mut self, at: i64, event: Event) {
        let is_answer = event.answers().is_some();
        if is_answer {
            self.past.push(event.clone());
        }
        if (is_answer || matches!(event, Event::JobStarted { .. })) && self.strikes(Fault::EventRepeated) {
            let later = at + self.rng.one_of([0, 1, 500, 20_000]);
            self.put(later, Happening::Told(event.clone()));
        }
        self.put(at, Happening::Told(event));
    }

    pub fn begin(&mut self, id: EffectId, effect: &Effect) {
        let soon = self.time + self.rng.between(0, 300) as i64;
        match effect {
            Effect::Answer { .. } => {}
            Effect::Cancel { force, grace_ms, only } => self.cancel(*force, *grace_ms, *only),
            Effect::RunJob(job) if self.strikes(Fault::EffectFails) => {
                let error = format!("{} could not be launched: the disk is full", job.task);
                self.tell(soon, Event::EffectFailed { effect: id, error });
            }
            Effect::RunJob(job) if self.strikes(Fault::DiskFull) => {
                self.tell(soon, disk_full());
                self.tell(soon, ended(job, JobReport::cancelled()));
            }
            Effect::RunJob(job) => {
                let attempted = self.attempt(id, job);
                self.workers.begin(attempted);
                self.watch(job);
            }
            Effect::PrepareSlot { .. } if self.strikes(Fault::SlowSlot) => {
                self.put(soon + 30_000, Happening::Acted(id, effect.clone()));
            }
            _ => self.put(soon, Happening::Acted(id, effect.clone())),
        }
    }

    fn odds(&mut self) -> Odds<'_> {
        Odds { repo: &mut self.repo, faults: &mut self.faults, rng: &mut self.rng }
    }

    /// Draws the result of an attempt that begins now.
    fn attempt(&mut self, id: EffectId, job: &Job) -> Attempted {
        if matches!(job.performer, Performer::Session(_)) {
            return draw_held(id, job, self.time, self.odds());
        }
        if let Some(agent) = job.performer.agent()
            && self.strikes(Fault::Outage)
        {
            self.outage = Some(Outage::random(agent, self.time, &mut self.rng));
        }
        let mut attempted = draw(id, job, self.time, self.odds());
        if let Some(outage) = &self.outage
            && self.time < outage.until
            && job.performer.agent() == Some(&outage.agent)
        {
            let at = self.time + self.rng.between(10, 3_000) as i64;
            let until = outage.told.then_some(Time(outage.until + self.skew));
            attempted.cut_short(at, JobEnd::Unserved { why: "overloaded".to_string(), until }, &mut self.rng);
        }
        if job.performer.is_agent() && self.strikes(Fault::SetupFails) {
            let at = self.time + self.rng.between(10, 3_000) as i64;
            attempted.cut_short(
                at,
                JobEnd::SetupFailed { failure: SetupFailure::Other { why: "npm ci".to_string() } },
                &mut self.rng,
            );
        }
        attempted
    }

    pub fn end_outage(&mut self) {
        self.outage = None;
    }

    /// Schedules the events of a job that was begun.
    fn watch(&mut self, job: &Job) {
        let now = self.time;
        let attempted = self.workers.get_mut(job).expect("a job that was begun");
        attempted.end_if_frozen(now, &mut self.rng);
        let attempted = attempted.clone();
        if attempted.is_held() {
            self.watch_held(attempted);
            return;
        }
        let longest = attempted.started_at.max(now) + LONGEST;
        assert!(attempted.ends_at <= longest, "nobody ends {:?}, which hangs", attempted.job);
        if attempted.alive && !attempted.is_over(self.time) {
            let pid = 1_000 + self.sequence as u32;
            self.tell(attempted.started_at + 5, started(job, pid));
        }
        let delay = self.rng.one_of([0, 0, 10, 3_000]);
        self.tell(attempted.ends_at + delay, ended(job, attempted.report));
    }

    /// Schedules the end of a session's attempt, reported by the session or found out by the host.
    fn watch_held(&mut self, attempted: Attempted) {
        let Attempted { job, report, ends_at, .. } = attempted;
        let says = report.end != JobEnd::Cancelled && self.rng.chance(70);
        let event = if says {
            self.requests += 1;
            let command =
                Command::Finish { effect: job.effect, task: job.task, attempt: job.attempt, report: Box::new(report) };
            Event::Asked { request: format!("f{}", self.requests), command }
        } else {
            ended(&job, report)
        };
        self.tell(ends_at, event);
    }

    pub fn reconcile(&mut self, id: EffectId, effect: &Effect) {
        match effect {
            Effect::RunJob(job) if self.workers.get_mut(job).is_some() => self.watch(job),
            Effect::Land { level, candidate } => match self.repo.landed(*level, candidate) {
                Some(commit) => self.tell(self.time, Event::Landed { effect: id, level: *level, commit }),
                None => self.begin(id, effect),
            },
            _ => self.begin(id, effect),
        }
    }

    fn cancel(&mut self, force: bool, grace_ms: u64, only: Option<WorkerId>) {
        let waiting = std::mem::take(&mut self.queue);
        let mut cut: Vec<(EffectId, Job)> = Vec::new();
        for ((at, sequence), happening) in waiting {
            if let Happening::Told(Event::JobEnded { task, attempt, .. }) = &happening
                && cut.iter().any(|(_, job)| job.task == *task && job.attempt == *attempt)
            {
                // A repetition of an event that was replaced.
                continue;
            }
            let grace = if force { 0 } else { self.rng.between(0, grace_ms) as i64 };
            let stopped_at = self.time + grace;
            let cancelled = match &happening {
                Happening::Acted(id, effect) => {
                    let hit = only.is_none() && self.rng.chance(70);
                    if hit && effect.is_integration() {
                        self.let_go_of_integration();
                    }
                    hit.then_some(*id)
                }
                Happening::Told(Event::JobEnded { task, attempt, .. }) => {
                    let hit = self.cut_short(task, *attempt, stopped_at, only);
                    if let Some(job) = hit {
                        cut.push(job);
                        continue;
                    }
                    None
                }
                Happening::Told(_) => None,
            };
            match cancelled {
                Some(effect) => self.put(stopped_at, Happening::Told(Event::Cancelled { effect })),
                None => {
                    self.queue.insert((at, sequence), happening);
                }
            }
        }
        for (effect, job) in cut {
            if self.strikes(Fault::JobCalledOff) {
                let at = self.workers.get_mut(&job).expect("a job that was cut short").ends_at;
                self.tell(at, Event::Cancelled { effect });
            } else {
                self.watch(&job);
            }
        }
    }

    /// Ends a running job early, if it is to be interrupted.
    fn cut_short(
        &mut self,
        task: &TaskId,
        attempt: Attempt,
        at: i64,
        only: Option<WorkerId>,
    ) -> Option<(EffectId, Job)> {
        let attempted = self.workers.attempts.get_mut(&(task.clone(), attempt.0))?;
        let meant = only.map_or(!attempted.is_held(), |worker| attempted.job.worker == worker);
        if attempted.is_over(self.time) || !meant {
            return None;
        }
        attempted.cut_short(at, JobEnd::Cancelled, &mut self.rng);
        Some((attempted.effect, attempted.job.clone()))
    }

    /// Kills the process: its coming events are lost.
    pub fn orchestrator_died(&mut self) {
        self.dying = false;
        self.let_go();
        for attempted in self.workers.attempts.values_mut() {
            attempted.is_left_alone(self.time);
        }
        if self.strikes(Fault::JobsDieToo) {
            for attempted in self.workers.attempts.values_mut().filter(|attempted| !attempted.is_held()) {
                let end = if self.rng.chance(50) { JobEnd::Died { started: true } } else { JobEnd::Cancelled };
                attempted.cut_short(self.time, end, &mut self.rng);
            }
        }
        self.time += self.rng.one_of([0, 10, 2_000, 100_000]);
    }

    /// Ends the process; checks that no worker is left.
    pub fn orchestrator_ended(&mut self) {
        for attempted in self.workers.attempts.values().filter(|attempted| !attempted.is_held()) {
            assert!(attempted.is_over(self.time), "ended, but {:?} still runs", attempted.job);
        }
        self.let_go();
        self.time += self.rng.one_of([0, 10, 100_000]);
    }

    fn let_go(&mut self) {
        self.queue.clear();
        self.let_go_of_integration();
    }

    pub fn let_go_of_integration(&mut self) {
        self.gated = false;
        self.unlock();
    }

    pub fn unlock(&mut self) {
        self.repo.trunk.borrow_mut().unlock(self.repo.feature);
    }

    /// Returns the true time of the next event.
    pub fn due(&self, until: Option<Time>) -> i64 {
        let next = self.queue.first_key_value().map(|((at, _), _)| *at);
        let wake = until.map(|until| until.0 - self.skew);
        next.into_iter().chain(wake).min().unwrap_or(self.time).max(self.time)
    }

    /// Returns the next event for the orchestrator.
    pub fn next(&mut self, until: Option<Time>, model: &Model, run: &Run) -> Event {
        if self.strikes(Fault::ClockGoesBack) {
            self.skew -= self.rng.between(1, 10_000) as i64;
        }
        if self.strikes(Fault::SpuriousWake) {
            return Event::Woke;
        }
        if self.strikes(Fault::StrayEvent)
            && let Some(event) = self.stray(model)
        {
            return event;
        }
        if self.strikes(Fault::LateAnswer) {
            let over = |event: &&Event| event.answers().is_some_and(|id| !model.outstanding.contains_key(&id));
            let over: Vec<&Event> = self.past.iter().filter(over).collect();
            if let Some(&event) = self.rng.pick(&over) {
                return event.clone();
            }
        }
        if self.strikes(Fault::PersonAsks) {
            return self.asks(run);
        }
        if self.strikes(Fault::SessionAsks) {
            return self.session_asks(run);
        }
        let wake_at = until.map(|until| until.0 - self.skew);
        loop {
            let next_at = self.queue.first_key_value().map(|((at, _), _)| *at);
            match (wake_at, next_at) {
                (Some(wake), next) if next.is_none_or(|next| wake <= next) => {
                    self.time = self.time.max(wake);
                    return Event::Woke;
                }
                (_, Some(at)) => self.time = self.time.max(at),
                _ if run.is_paused() => return self.lifts_pause(),
                _ => panic!("deadlock: nothing is under way, nothing is waited for, and the run has not ended"),
            }
            match self.queue.pop_first() {
                Some((_, Happening::Told(event))) => return event,
                Some((_, Happening::Acted(id, effect))) => {
                    if !self.act(id, &effect, model) {
                        // Let the other feature go on.
                        self.put(self.time + 2_000, Happening::Acted(id, effect));
                        return Event::Woke;
                    }
                }
                None => unreachable!("the queue is not empty"),
            }
        }
    }

    /// Carries out an effect; returns false if the other feature holds the integration lock.
    fn act(&mut self, id: EffectId, effect: &Effect, model: &Model) -> bool {
        if effect.is_integration() {
            let (trunk, feature) = (Rc::clone(&self.repo.trunk), self.repo.feature);
            let kept = trunk.borrow().is_locked_by(feature);
            let lands = matches!(effect, Effect::Land { .. });
            assert!(kept || !lands || !self.gated, "the lock was let go between the gates and landing");
            if !trunk.borrow_mut().try_lock(feature) {
                return false;
            }
        }
        let event = self.answer(id, effect, model);
        if effect.is_integration() {
            self.gated = matches!(event, Event::GatesPassed { .. });
        }
        let delay = self.rng.one_of([0, 0, 20, 1_000]);
        self.tell(self.time + delay, event);
        true
    }

    fn answer(&mut self, id: EffectId, effect: &Effect, model: &Model) -> Event {
        if self.strikes(Fault::EffectFails) {
            let error = "the disk is full".to_string();
            return Event::EffectFailed { effect: id, error };
        }
        if self.strikes(Fault::DiskFull) {
            self.tell(self.time, disk_full());
            return Event::Cancelled { effect: id };
        }
        match effect {
            Effect::CheckBase { .. } => Event::BaseChecked { effect: id, red: self.repo.red_gates() },
            Effect::PrepareSlot { worker } => Event::SlotReady { effect: id, worker: *worker },
            Effect::Stage { level, base, tasks } => {
                let level = *level;
                match self.repo.stage(level, base, tasks, &mut self.faults, &mut self.rng) {
                    Ok((staging, commits)) => Event::Staged { effect: id, level, staging, commits },
                    Err(obstacle) => Event::NotLanded { effect: id, level, obstacle },
                }
            }
            Effect::Gate { .. } => self.repo.gate(id, effect, &mut self.faults, &mut self.rng),
            Effect::Blame { level, failure, .. } => {
                let task = self.repo.blame(failure, &mut self.faults, &mut self.rng);
                Event::Blamed { effect: id, level: *level, task, why: "its files are named in the output".to_string() }
            }
            Effect::Land { level, candidate } => {
                match self.repo.land(*level, candidate, model, &mut self.faults, &mut self.rng) {
                    Ok(commit) => Event::Landed { effect: id, level: *level, commit },
                    Err(obstacle) => Event::NotLanded { effect: id, level: *level, obstacle },
                }
            }
            Effect::Close => Event::Closed { effect: id },
            Effect::RunJob(_) | Effect::Cancel { .. } | Effect::Answer { .. } => unreachable!("not done by itself"),
        }
    }

    pub fn asks(&mut self, run: &Run) -> Event {
        // Sometimes repeat a request, as a client does after a crash.
        self.requests += u64::from(self.requests == 0 || self.rng.chance(90));
        let command = person::random_command(&mut self.rng, run);
        Event::Asked { request: format!("r{}", self.requests), command }
    }

    /// A person lets a paused run go on, or stops it.
    fn lifts_pause(&mut self) -> Event {
        self.requests += 1;
        let stop = Command::Stop { force: false, grace_ms: 100, worker: None };
        let command = if self.rng.chance(80) { Command::Resume } else { stop };
        Event::Asked { request: format!("p{}", self.requests), command }
    }

    pub fn session_asks(&mut self, run: &Run) -> Event {
        self.requests += 1;
        let command = person::session_command(&mut self.rng, run);
        Event::Asked { request: format!("s{}", self.requests), command }
    }

    /// An event that answers nothing: an ended attempt, an effect that is not outstanding, or an outstanding one in a way that
    /// makes no sense.
    fn stray(&mut self, model: &Model) -> Option<Event> {
        let outstanding: Vec<EffectId> = model.outstanding.keys().copied().collect();
        let effect = self.rng.pick(&outstanding).copied().unwrap_or(EffectId(999_999));
        match self.rng.between(0, 8) {
            0 | 1 => {
                let over: Vec<_> = self
                    .workers
                    .attempts
                    .values()
                    .filter(|attempted| !model.outstanding.contains_key(&attempted.effect))
                    .collect();
                let attempted = *self.rng.pick(&over)?;
                let (job, report) = (attempted.job.clone(), attempted.report.clone());
                Some(if self.rng.chance(20) { started(&job, 1) } else { ended(&job, report) })
            }
            2 => {
                let effect = EffectId(self.rng.between(0, 40));
                (!model.outstanding.contains_key(&effect)).then_some(Event::Cancelled { effect })
            }
            3 => {
                let effect = EffectId(self.rng.between(0, 40));
                let error = "too late".to_string();
                (!model.outstanding.contains_key(&effect)).then_some(Event::EffectFailed { effect, error })
            }
            4 => {
                let (task, report) = (TaskId::new("nobody").expect("a good id"), JobReport::cancelled());
                Some(Event::JobEnded { effect, task, attempt: Attempt(1), report })
            }
            5 => Some(Event::SlotReady { effect, worker: WorkerId(99) }),
            6 => Some(Event::Noted { level: None, note: Note::StagingKept { name: "refs/kept".to_string() } }),
            7 => Some(Event::Landed { effect, level: Level(77), commit: oid("nothing") }),
            _ => {
                let staging = oid("nothing");
                Some(Event::Staged { effect, level: Level(77), staging, commits: Vec::new() })
            }
        }
    }
}

fn started(job: &Job, pid: u32) -> Event {
    Event::JobStarted { effect: job.effect, task: job.task.clone(), attempt: job.attempt, pid }
}

fn ended(job: &Job, report: JobReport) -> Event {
    Event::JobEnded { effect: job.effect, task: job.task.clone(), attempt: job.attempt, report }
}

fn disk_full() -> Event {
    Event::OutOfSpace { why: "the disk is full".to_string() }
}
