//! The simulated host: virtual time, and a world that goes on when the orchestrator dies.

use std::collections::BTreeMap;

use mahabharatha_core::ids::{Attempt, Level, TaskId, Time, WorkerId};
use mahabharatha_core::run::effect::Job;
use mahabharatha_core::run::event::{Event, JobEnd, Note};
use mahabharatha_core::run::{Effect, EffectId, Run};

use crate::faults::{Fault, Faults};
use crate::ledger::Ledger;
use crate::person;
use crate::repo::Repo;
use crate::rng::{Rng, oid};
use crate::workers::{Workers, draw};

#[derive(Debug)]
pub struct World {
    pub rng: Rng,
    pub faults: Faults,
    pub repo: Repo,
    workers: Workers,
    /// True time, and by how much the clock that the host reads differs from it.
    time: i64,
    skew: i64,
    /// What the orchestrator's process has before it; dies with it.
    queue: BTreeMap<(i64, u64), Happening>,
    sequence: u64,
    requests: u64,
    /// The process is being killed: nothing that it does counts any more.
    pub dying: bool,
}

#[derive(Debug)]
enum Happening {
    Told(Event),
    /// The orchestrator's own work on this effect is done.
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
        let repeatable = matches!(
            event,
            Event::JobStarted { .. }
                | Event::JobEnded { .. }
                | Event::SlotReady { .. }
                | Event::BaseChecked { .. }
                | Event::Staged { .. }
                | Event::GatesPassed { .. }
                | Event::GateFailed { .. }
                | Event::Blamed { .. }
                | Event::Closed
                | Event::Landed { .. }
        );
        if repeatable && self.strikes(Fault::EventRepeated) {
            let later = at + self.rng.one_of([0, 1, 500, 20_000]);
            self.put(later, Happening::Told(event.clone()));
        }
        self.put(at, Happening::Told(event));
    }

    pub fn begin(&mut self, id: EffectId, effect: &Effect) {
        let soon = self.time + self.rng.between(0, 300) as i64;
        match effect {
            Effect::Answer { .. } => {}
            Effect::Interrupt { force, grace_ms, only } => self.interrupt(*force, *grace_ms, *only),
            Effect::RunJob(job) if self.strikes(Fault::EffectFails) => {
                let error = format!("{} could not be launched: the disk is full", job.task);
                self.tell(soon, Event::EffectFailed { effect: id, error });
            }
            Effect::RunJob(job) => {
                let attempted = draw(id, job, self.time, &mut self.repo, &mut self.faults, &mut self.rng);
                self.workers.begin(attempted);
                self.watch(job);
            }
            Effect::PrepareSlot { .. } if self.strikes(Fault::SlowSlot) => {
                self.put(soon + 30_000, Happening::Acted(id, effect.clone()));
            }
            _ => self.put(soon, Happening::Acted(id, effect.clone())),
        }
    }

    /// Waits for a job that is there, and tells what it came to.
    fn watch(&mut self, job: &Job) {
        let (task, attempt) = (job.task.clone(), job.attempt);
        let attempted = self.workers.get_mut(job).expect("a job that was begun").clone();
        if attempted.alive && !attempted.is_over(self.time) {
            let pid = 1_000 + self.sequence as u32;
            self.tell(attempted.started_at + 5, Event::JobStarted { task: task.clone(), attempt, pid });
        }
        let delay = self.rng.one_of([0, 0, 10, 3_000]);
        self.tell(attempted.ends_at + delay, Event::JobEnded { task, attempt, report: attempted.report });
    }

    pub fn reconcile(&mut self, id: EffectId, effect: &Effect) {
        match effect {
            Effect::RunJob(job) if self.workers.get_mut(job).is_some() => self.watch(job),
            Effect::Land { level, candidate } => match self.repo.landed(*level, candidate) {
                Some(commit) => self.tell(self.time, Event::Landed { level: *level, commit }),
                None => self.begin(id, effect),
            },
            _ => self.begin(id, effect),
        }
    }

    fn interrupt(&mut self, force: bool, grace_ms: u64, only: Option<WorkerId>) {
        let waiting = std::mem::take(&mut self.queue);
        let mut cut: Vec<(EffectId, Job)> = Vec::new();
        for ((at, sequence), happening) in waiting {
            if let Happening::Told(Event::JobEnded { task, attempt, .. }) = &happening
                && cut.iter().any(|(_, job)| job.task == *task && job.attempt == *attempt)
            {
                // A repetition of what will not happen.
                continue;
            }
            let grace = if force { 0 } else { self.rng.between(0, grace_ms) as i64 };
            let stopped_at = self.time + grace;
            let called_off = match &happening {
                Happening::Acted(id, _) => (only.is_none() && self.rng.chance(70)).then_some(*id),
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
            match called_off {
                Some(effect) => self.put(stopped_at, Happening::Told(Event::Interrupted { effect })),
                None => {
                    self.queue.insert((at, sequence), happening);
                }
            }
        }
        for (effect, job) in cut {
            if self.strikes(Fault::JobCalledOff) {
                let at = self.workers.get_mut(&job).expect("a job that was cut short").ends_at;
                self.tell(at, Event::Interrupted { effect });
            } else {
                self.watch(&job);
            }
        }
    }

    /// Ends a job that is still alive, if it is on the worker meant.
    fn cut_short(
        &mut self,
        task: &TaskId,
        attempt: Attempt,
        at: i64,
        only: Option<WorkerId>,
    ) -> Option<(EffectId, Job)> {
        let attempted = self.workers.attempts.get_mut(&(task.clone(), attempt.0))?;
        let meant = only.is_none_or(|worker| attempted.job.worker == worker);
        if attempted.is_over(self.time) || !meant {
            return None;
        }
        attempted.cut_short(at, JobEnd::Interrupted, &mut self.rng);
        Some((attempted.effect, attempted.job.clone()))
    }

    /// The process is gone, and with it all that it was about to do or to hear.
    pub fn orchestrator_died(&mut self) {
        self.dying = false;
        self.queue.clear();
        if self.strikes(Fault::JobsDieToo) {
            for attempted in self.workers.attempts.values_mut() {
                let end = if self.rng.chance(50) { JobEnd::Died { started: true } } else { JobEnd::Interrupted };
                attempted.cut_short(self.time, end, &mut self.rng);
            }
        }
        self.time += self.rng.one_of([0, 10, 2_000, 100_000]);
    }

    /// The process ended in good order: nothing runs any more.
    pub fn orchestrator_ended(&mut self) {
        for attempted in self.workers.attempts.values() {
            assert!(attempted.is_over(self.time), "ended, but {:?} still runs", attempted.job);
        }
        self.queue.clear();
        self.time += self.rng.one_of([0, 10, 100_000]);
    }

    /// The next thing that happens to the orchestrator.
    pub fn next(&mut self, until: Option<Time>, ledger: &Ledger, run: &Run) -> Event {
        if self.strikes(Fault::ClockGoesBack) {
            self.skew -= self.rng.between(1, 10_000) as i64;
        }
        if self.strikes(Fault::SpuriousWake) {
            return Event::Woke;
        }
        if self.strikes(Fault::StrayEvent)
            && let Some(event) = self.stray(ledger)
        {
            return event;
        }
        if self.strikes(Fault::PersonAsks) {
            return self.asks(run);
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
                _ => panic!("deadlock: nothing is under way, nothing is waited for, and the run has not ended"),
            }
            match self.queue.pop_first() {
                Some((_, Happening::Told(event))) => return event,
                Some((_, Happening::Acted(id, effect))) => self.act(id, &effect, ledger),
                None => unreachable!("the queue is not empty"),
            }
        }
    }

    fn act(&mut self, id: EffectId, effect: &Effect, ledger: &Ledger) {
        if self.strikes(Fault::EffectFails) {
            let error = "the disk is full".to_string();
            return self.tell(self.time, Event::EffectFailed { effect: id, error });
        }
        let event = match effect {
            Effect::CheckBase { .. } => self.repo.check_base(),
            Effect::PrepareSlot { worker } => Event::SlotReady { worker: *worker },
            Effect::Stage { level, base, tasks } => self.repo.stage(*level, base, tasks),
            Effect::Gate { .. } => self.repo.gate(effect, ledger, &mut self.faults, &mut self.rng),
            Effect::Blame { level, failure, .. } => self.repo.blame(*level, failure, &mut self.faults, &mut self.rng),
            Effect::Land { level, candidate } => {
                self.repo.land(*level, candidate, ledger, &mut self.faults, &mut self.rng)
            }
            Effect::Close => Event::Closed,
            Effect::RunJob(_) | Effect::Interrupt { .. } | Effect::Answer { .. } => unreachable!("not done by itself"),
        };
        let delay = self.rng.one_of([0, 0, 20, 1_000]);
        self.tell(self.time + delay, event);
    }

    pub fn asks(&mut self, run: &Run) -> Event {
        // Now and then the same request comes twice, as after a crash of whoever asked.
        self.requests += u64::from(self.requests == 0 || self.rng.chance(90));
        let command = person::random_command(&mut self.rng, run);
        Event::Asked { request: format!("r{}", self.requests), command }
    }

    /// An event that answers nothing: of an attempt that is over, of an effect that is not outstanding, of nobody.
    fn stray(&mut self, ledger: &Ledger) -> Option<Event> {
        let nobody = TaskId::new("nobody").expect("a good id");
        match self.rng.between(0, 8) {
            0 | 1 => {
                let over: Vec<_> = self
                    .workers
                    .attempts
                    .values()
                    .filter(|attempted| !ledger.outstanding.contains_key(&attempted.effect))
                    .collect();
                let attempted = *self.rng.pick(&over)?;
                let (task, attempt) = (attempted.job.task.clone(), attempted.job.attempt);
                let report = attempted.report.clone();
                Some(if self.rng.chance(20) {
                    Event::JobStarted { task, attempt, pid: 1 }
                } else {
                    Event::JobEnded { task, attempt, report }
                })
            }
            2 => {
                let effect = EffectId(self.rng.between(0, 40));
                (!ledger.outstanding.contains_key(&effect)).then_some(Event::Interrupted { effect })
            }
            3 => {
                let effect = EffectId(self.rng.between(0, 40));
                let error = "too late".to_string();
                (!ledger.outstanding.contains_key(&effect)).then_some(Event::EffectFailed { effect, error })
            }
            4 => Some(Event::JobStarted { task: nobody, attempt: Attempt(1), pid: 1 }),
            5 => Some(Event::SlotReady { worker: WorkerId(99) }),
            6 => Some(Event::Noted { level: None, note: Note::StagingKept { name: "refs/kept".to_string() } }),
            7 => Some(Event::Landed { level: Level(77), commit: oid("nothing") }),
            _ => Some(Event::Staged { level: Level(77), staging: oid("nothing"), commits: Vec::new() }),
        }
    }
}
