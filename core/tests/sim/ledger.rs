//! A second set of books: what has happened, kept from events and effects alone, to hold the run's own state against.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Attempt, Level, Oid, TaskId, Time};
use mahabharatha_core::run::effect::{Carry, Doer, Job, Purpose};
use mahabharatha_core::run::event::{Event, GatePass, Intent, JobEnd, JobReport, Obstacle, Policy, Setup};
use mahabharatha_core::run::{Effect, EffectId};
use mahabharatha_core::spec::GraphFile;

use crate::books::{FREE_CHECKPOINTS, Fuse, LevelBook, Outages, Standing, TaskBook};

#[derive(Debug)]
pub struct Ledger {
    pub start: Oid,
    pub tasks: BTreeMap<TaskId, TaskBook>,
    /// The last attempt at tasks that are no longer in the graph.
    retired: BTreeMap<TaskId, u32>,
    /// By level, within a level as in the file.
    pub order: Vec<TaskId>,
    pub levels: Vec<LevelBook>,
    pub policy: Policy,
    pub intent: Intent,
    pub outstanding: BTreeMap<EffectId, Effect>,
    /// Begun before the latest process took over.
    pub adopted: BTreeSet<EffectId>,
    /// Begun for a spec that has changed since.
    pub outdated: BTreeSet<EffectId>,
    pub slots: BTreeSet<u32>,
    pub stopped: BTreeSet<u32>,
    /// What the attempts cost whose cost is known.
    pub spent: f64,
    /// What each task has cost, also one that is no longer in the graph.
    pub costs: BTreeMap<TaskId, f64>,
    /// An attempt ended whose cost is not known.
    pub has_unpriced: bool,
    pub tokens: u64,
    pub planning: Cost,
    pub fuse: Fuse,
    pub outages: Outages,
    launched: BTreeMap<EffectId, Time>,
    pub passes: BTreeSet<GatePass>,
    pub red: Vec<String>,
    pub base_is_good: bool,
    /// Since the latest process took over.
    pub stop_asked: bool,
    pub effect_failed: bool,
    pub out_of_space: bool,
    pub gate_failed: bool,
    pub obstacle: Option<Obstacle>,
    pub now: Time,
}

impl Ledger {
    pub fn new(now: Time, setup: &Setup) -> Ledger {
        let mut ledger = Ledger {
            start: setup.start.clone(),
            tasks: BTreeMap::new(),
            retired: BTreeMap::new(),
            order: Vec::new(),
            levels: Vec::new(),
            policy: setup.policy.clone(),
            intent: Intent::Complete,
            outstanding: BTreeMap::new(),
            adopted: BTreeSet::new(),
            outdated: BTreeSet::new(),
            slots: BTreeSet::new(),
            stopped: BTreeSet::new(),
            spent: 0.0,
            costs: BTreeMap::new(),
            has_unpriced: false,
            tokens: 0,
            planning: setup.planning,
            fuse: Fuse::Closed { deaths: 0 },
            outages: Outages::default(),
            launched: BTreeMap::new(),
            passes: BTreeSet::new(),
            red: Vec::new(),
            base_is_good: false,
            stop_asked: false,
            effect_failed: false,
            out_of_space: false,
            gate_failed: false,
            obstacle: None,
            now,
        };
        ledger.take_graph(&setup.graph);
        ledger
    }

    fn take_graph(&mut self, file: &GraphFile) {
        let id = |text: &String| TaskId::new(text.clone()).expect("the simulator's ids are good");
        let mut tasks = BTreeMap::new();
        for spec in &file.tasks {
            let mut book = self.tasks.remove(&id(&spec.id)).unwrap_or_else(|| TaskBook::new(spec));
            book.last_attempt = book.last_attempt.max(self.retired.remove(&id(&spec.id)).unwrap_or(0));
            book.spec = spec.clone();
            book.dependencies = spec.dependencies.iter().map(id).collect();
            tasks.insert(id(&spec.id), book);
        }
        self.retired.extend(std::mem::take(&mut self.tasks).into_iter().map(|(id, book)| (id, book.last_attempt)));
        self.tasks = tasks;
        self.order = file.tasks.iter().map(|spec| id(&spec.id)).collect();
        self.order.sort_by_key(|id| self.tasks[id].spec.level);
        let mut numbers: Vec<u32> = file.tasks.iter().map(|spec| spec.level).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let old = std::mem::take(&mut self.levels);
        let known = |number| old.iter().find(|book| book.level == Level(number)).cloned();
        self.levels = numbers.into_iter().map(|n| known(n).unwrap_or_else(|| LevelBook::new(Level(n)))).collect();
    }

    fn replanned(&mut self, file: &GraphFile) {
        for (id, effect) in &self.outstanding {
            if let Effect::RunJob(job) = effect
                && job.purpose == Purpose::Build
                && let Some(spec) = file.tasks.iter().find(|spec| spec.id == job.task.as_str())
                && self.tasks.get(&job.task).is_none_or(|book| book.spec != *spec)
            {
                self.outdated.insert(*id);
            }
        }
        let (before, was_last) = (self.current(), self.current().is_some_and(|level| self.is_last(level)));
        self.take_graph(file);
        let (after, is_last) = (self.current(), self.current().is_some_and(|level| self.is_last(level)));
        let open = |book: &TaskBook| matches!(book.standing, Standing::Open | Standing::Blocked);
        let reopened = after.is_some_and(|level| self.of_level(level).any(|(_, book)| open(book)));
        let lands = self.outstanding.values().any(|effect| matches!(effect, Effect::Land { .. }));
        if after.is_none() || after != before || reopened || (was_last != is_last && !lands) {
            self.outstanding.retain(|_, effect| {
                matches!(effect, Effect::RunJob(_) | Effect::PrepareSlot { .. } | Effect::CheckBase { .. })
            });
        }
        if let (Some(level), true) = (after, reopened) {
            self.level_mut(level).unstage();
        }
    }

    /// The lowest level that is not merged.
    pub fn current(&self) -> Option<Level> {
        self.levels.iter().find(|book| book.merged.is_none()).map(|book| book.level)
    }

    pub fn level(&self, level: Level) -> &LevelBook {
        self.levels.iter().find(|book| book.level == level).expect("a level of the graph")
    }

    fn level_mut(&mut self, level: Level) -> &mut LevelBook {
        self.levels.iter_mut().find(|book| book.level == level).expect("a level of the graph")
    }

    pub fn is_last(&self, level: Level) -> bool {
        self.levels.last().is_some_and(|book| book.level == level)
    }

    /// What the level below became.
    pub fn base_of(&self, level: Level) -> Oid {
        let below = self.levels.iter().rev().find(|book| book.level < level);
        below.map_or(self.start.clone(), |book| book.merged.clone().expect("levels merge in order"))
    }

    pub fn of_level(&self, level: Level) -> impl Iterator<Item = (&TaskId, &TaskBook)> {
        self.order.iter().map(|id| (id, &self.tasks[id])).filter(move |(_, book)| book.spec.level == level.0)
    }

    pub fn job_of(&self, task: &TaskId) -> Option<&Job> {
        self.jobs().map(|(_, job)| job).find(|job| job.task == *task)
    }

    pub fn jobs(&self) -> impl Iterator<Item = (EffectId, &Job)> {
        self.outstanding.iter().filter_map(|(id, effect)| match effect {
            Effect::RunJob(job) => Some((*id, job)),
            _ => None,
        })
    }

    /// What counts against the budget.
    pub fn known_usd(&self) -> f64 {
        self.planning.known_usd() + self.spent
    }

    /// Takes down what an event tells, as far as it answers something that was asked for.
    /// `taken`: where it is not about an effect, whether it still came in time.
    pub fn note(&mut self, now: Time, event: &Event, taken: bool) {
        self.now = self.now.max(now);
        let answered = match event.answers() {
            None => None,
            Some(id) => match self.take(id, event) {
                None => return,
                answered => answered,
            },
        };
        match event {
            Event::Resumed { policy, intent, planning } => {
                self.planning = *planning;
                self.resumed(policy, *intent);
                self.block_over_budget();
            }
            Event::Replanned { graph } if taken => self.replanned(graph),
            Event::Started(setup) if taken => {
                self.start = setup.start.clone();
                self.base_is_good = false;
                self.red.clear();
                self.outstanding.retain(|_, effect| !matches!(effect, Effect::CheckBase { .. }));
            }
            Event::BaseChecked { red, .. } => {
                self.red = red.iter().map(|failure| failure.gate.clone()).collect();
                self.base_is_good = red.is_empty() || self.policy.allow_red_base;
            }
            Event::SlotReady { worker, .. } => {
                self.slots.insert(worker.0);
            }
            Event::JobEnded { effect, report, .. } => {
                if let Some(Effect::RunJob(job)) = answered {
                    self.job_ended(*effect, &job, report);
                }
            }
            Event::OutOfSpace { .. } => self.out_of_space = true,
            Event::Interrupted { effect } => self.called_off(*effect, answered),
            Event::EffectFailed { effect, .. } => {
                self.effect_failed = true;
                self.called_off(*effect, answered);
            }
            _ => self.integration(event),
        }
    }

    pub fn attempt_ended(&mut self, task: &TaskId, attempt: Attempt, report: &JobReport) {
        let found = self.jobs().find(|(_, job)| job.task == *task && job.attempt == attempt);
        if let Some((id, job)) = found.map(|(id, job)| (id, job.clone())) {
            self.outstanding.remove(&id);
            self.job_ended(id, &job, report);
        }
    }

    /// Nothing but what sessions hold is under way.
    pub fn is_settled(&self) -> bool {
        self.outstanding.values().all(Effect::is_held)
    }

    fn resumed(&mut self, policy: &Policy, intent: Intent) {
        self.policy = policy.clone();
        let same_session = self.intent.is_session() && intent.is_session();
        self.intent = intent;
        self.adopted = self.outstanding.keys().copied().collect();
        self.slots.clear();
        self.stopped.clear();
        self.fuse = Fuse::Closed { deaths: 0 };
        self.outages.resumed(policy);
        self.stop_asked = false;
        self.effect_failed = false;
        self.out_of_space = false;
        self.gate_failed = self.levels.iter().any(|book| book.failure.is_some());
        self.obstacle = None;
        for book in self.levels.iter_mut().filter(|_| !same_session) {
            book.remedies = u32::from(book.remedy.is_some());
        }
    }

    /// Removes the outstanding effect of this id, if the event can be its answer.
    fn take(&mut self, id: EffectId, event: &Event) -> Option<Effect> {
        let effect = self.outstanding.get(&id)?;
        let fits = match event {
            Event::BaseChecked { .. } => matches!(effect, Effect::CheckBase { .. }),
            Event::SlotReady { worker, .. } => *effect == Effect::PrepareSlot { worker: *worker },
            Event::JobEnded { task, attempt, .. } => {
                matches!(effect, Effect::RunJob(job) if job.task == *task && job.attempt == *attempt)
            }
            Event::Closed { .. } => *effect == Effect::Close,
            Event::Staged { level, .. } => matches!(effect, Effect::Stage { level: of, .. } if of == level),
            Event::GatesPassed { level, .. } | Event::GateFailed { level, .. } => is_gate(effect, *level),
            Event::Blamed { level, .. } => matches!(effect, Effect::Blame { level: of, .. } if of == level),
            Event::Landed { level, .. } => is_land(effect, *level),
            Event::NotLanded { level, obstacle, .. } => match obstacle {
                Obstacle::Conflict { .. } | Obstacle::CheckoutLeftBehind { .. } => is_gate(effect, *level),
                Obstacle::BaseMoved | Obstacle::CheckoutInTheWay { .. } => is_land(effect, *level),
                Obstacle::BaseRewritten { .. } => is_gate(effect, *level) || is_land(effect, *level),
            },
            _ => true,
        };
        if fits { self.outstanding.remove(&id) } else { None }
    }

    fn integration(&mut self, event: &Event) {
        let (Event::Staged { level, .. }
        | Event::GatesPassed { level, .. }
        | Event::GateFailed { level, .. }
        | Event::Blamed { level, .. }
        | Event::Landed { level, .. }
        | Event::NotLanded { level, .. }) = event
        else {
            return;
        };
        let level = *level;
        self.gate_failed |= matches!(event, Event::GateFailed { .. });
        match event {
            Event::GatesPassed { passed, .. } | Event::GateFailed { passed, .. } => {
                self.passes.extend(passed.iter().cloned());
            }
            Event::NotLanded { obstacle, .. } => self.obstacle = Some(obstacle.clone()),
            _ => {}
        }
        let last = self.is_last(level);
        let is_here = |task: &&TaskId| self.tasks.get(task).is_some_and(|book| book.spec.level == level.0);
        let failing = match event {
            Event::GateFailed { failure, .. } => failure.task.as_ref().filter(is_here).cloned(),
            _ => None,
        };
        let book = self.level_mut(level);
        book.integration(event, failing);
        if matches!(event, Event::GatesPassed { .. }) {
            book.verified = last;
        }
    }

    fn job_ended(&mut self, id: EffectId, job: &Job, report: &JobReport) {
        self.spent += report.cost_usd.unwrap_or_default();
        self.has_unpriced |= report.cost_usd.is_none();
        *self.costs.entry(job.task.clone()).or_default() += report.cost_usd.unwrap_or_default();
        self.tokens += report.tokens;
        if job.doer.is_agent() {
            self.outages.job_ended(self.now, self.launched[&id], &report.end);
        }
        self.slots.insert(job.worker.0);
        let early = matches!(report.end, JobEnd::Died { .. }) && report.ran_ms < 2_000;
        if !job.doer.is_agent() {
            // It says nothing about workers.
        } else if report.end == JobEnd::Interrupted {
            self.fuse.called_off(id);
        } else {
            self.fuse.job_ended(self.now, early, Duration::from_millis(self.policy.backoff.max_ms.max(1_000)));
        }
        let outdated = self.outdated.remove(&id);
        let awaited = self.current().filter(|level| self.level(*level).remedy == Some(id));
        let Some(book) = self.tasks.get_mut(&job.task) else { return };
        let remedy = matches!(job.purpose, Purpose::Remedy { .. });
        let adopted = matches!(job.doer, Doer::Nobody { .. });
        if matches!(report.end, JobEnd::Checkpoint { .. }) && !adopted && (awaited.is_some() || !remedy && !outdated) {
            book.checkpoints += 1;
        }
        if remedy {
            let free = book.checkpoints <= FREE_CHECKPOINTS && matches!(report.end, JobEnd::Checkpoint { .. });
            if let Some(level) = awaited {
                self.level_mut(level).remedy_ended(&job.task, report, free);
            }
        } else if outdated {
            book.standing = Standing::Open;
            book.carry = Carry::default();
            book.rests_until = None;
        } else if matches!(job.doer, Doer::Nobody { .. }) && !matches!(report.end, JobEnd::Done { .. }) {
            // As it was before.
        } else {
            book.build_ended(self.now, report, &self.policy);
        }
        self.block_over_budget();
    }

    /// Whether agents have spent what they may on this task.
    pub fn is_over_budget(&self, task: &TaskId) -> bool {
        let by_agents = self.tasks.get(task).is_some_and(|book| !book.spec.foreground);
        let cost = self.costs.get(task).copied().unwrap_or_default();
        by_agents && self.policy.max_usd_per_task.is_some_and(|limit| cost >= limit)
    }

    /// A queued task is blocked once its budget is spent.
    pub fn block_over_budget(&mut self) {
        let open = |(id, book): &(&TaskId, &TaskBook)| {
            book.standing == Standing::Open && self.job_of(id).is_none() && self.is_over_budget(id)
        };
        let over: Vec<TaskId> = self.tasks.iter().filter(open).map(|(id, _)| id.clone()).collect();
        for task in over {
            let book = self.tasks.get_mut(&task).expect("a task of the graph");
            (book.standing, book.rests_until) = (Standing::Blocked, None);
        }
    }

    fn called_off(&mut self, id: EffectId, effect: Option<Effect>) {
        let Some(Effect::RunJob(job)) = effect else { return };
        self.slots.insert(job.worker.0);
        self.outdated.remove(&id);
        self.fuse.called_off(id);
        if let Some(level) = self.current().filter(|level| self.level(*level).remedy == Some(id)) {
            self.level_mut(level).remedy_ended(&job.task, &JobReport::interrupted(), false);
        }
        self.block_over_budget();
    }

    /// A task that a person put back into the queue.
    pub fn retried(&mut self, task: &TaskId) {
        let book = self.tasks.get_mut(task).expect("only known tasks are accepted");
        if matches!(book.standing, Standing::Done(_)) {
            book.carry = Carry::default();
        }
        book.standing = Standing::Open;
        (book.failures, book.checkpoints, book.false_starts) = (0, 0, 0);
        book.rests_until = None;
        let level = Level(book.spec.level);
        let book = self.level_mut(level);
        book.unstage();
        book.fixes.retain(|fix| fix.task != *task);
    }

    pub fn skipped(&mut self, task: &TaskId) {
        let book = self.tasks.get_mut(task).expect("only known tasks are accepted");
        book.standing = Standing::Skipped;
        book.rests_until = None;
        let level = Level(book.spec.level);
        let book = self.level_mut(level);
        book.unstage();
        book.fixes.retain(|fix| fix.task != *task);
    }

    /// A level of which nothing is left counts as merged.
    pub fn merged_empty(&mut self, level: Level) {
        let base = self.base_of(level);
        self.level_mut(level).merged = Some(base);
    }

    pub fn began(&mut self, id: EffectId, effect: &Effect) {
        if effect.is_answered() {
            self.outstanding.insert(id, effect.clone());
        }
        if let Effect::RunJob(job) = effect {
            let book = self.tasks.get_mut(&job.task).expect("a job is of a task of the graph");
            book.last_attempt = job.attempt.0;
            if job.doer.is_agent() {
                self.fuse.launched(id);
            } else if job.purpose == Purpose::Build {
                book.rests_until = None;
            }
            self.launched.insert(id, self.now);
            if let (Purpose::Remedy { .. }, Some(level)) = (&job.purpose, self.current()) {
                let book = self.level_mut(level);
                book.remedies += 1;
                book.remedy = Some(id);
            }
        }
    }
}

fn is_gate(effect: &Effect, level: Level) -> bool {
    matches!(effect, Effect::Gate { level: of, .. } if *of == level)
}

fn is_land(effect: &Effect, level: Level) -> bool {
    matches!(effect, Effect::Land { level: of, .. } if *of == level)
}
