//! An independent model of a run, kept from events and effects alone. The checker compares the run's own state with it.

pub mod parts;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Attempt, Level, Oid, TaskId, Time};
use mahabharatha_core::run::effect::{Carry, Job, Performer, Purpose};
use mahabharatha_core::run::event::{Event, GatePass, Intent, JobEnd, JobReport, Obstacle, Policy, Schedule, Setup};
use mahabharatha_core::run::{Effect, EffectId};
use mahabharatha_core::spec::{GraphFile, TaskSpec};

use crate::model::parts::{BreakerModel, FREE_CHECKPOINTS, LevelModel, LimitModel, Standing, TaskModel};

#[derive(Debug)]
pub struct Model {
    pub start: Oid,
    pub tasks: BTreeMap<TaskId, TaskModel>,
    /// Last attempt of tasks that are no longer in the graph.
    retired: BTreeMap<TaskId, u32>,
    /// Tasks by level, within a level in the order of the file.
    pub order: Vec<TaskId>,
    pub levels: Vec<LevelModel>,
    pub policy: Policy,
    pub intent: Intent,
    pub paused: bool,
    pub outstanding: BTreeMap<EffectId, Effect>,
    /// Effects begun before the latest process took over.
    pub adopted: BTreeSet<EffectId>,
    /// Jobs begun for a spec that has changed since.
    pub outdated: BTreeSet<EffectId>,
    /// Notes to tasks, in order.
    pub notes: Vec<(TaskId, String)>,
    /// Paths granted to tasks, in order, and whether without the user.
    pub grants: Vec<(TaskId, String, bool)>,
    pub slots: BTreeSet<u32>,
    pub stopped: BTreeSet<u32>,
    /// Sum of the known costs of attempts.
    pub spent: f64,
    /// Known cost of each task, including tasks no longer in the graph.
    pub costs: BTreeMap<TaskId, f64>,
    /// Whether an attempt of unknown cost has ended.
    pub has_unpriced: bool,
    pub tokens: u64,
    pub planning: Cost,
    pub breaker: BreakerModel,
    /// Limits of the agents' APIs, by the agent's name.
    pub limits: BTreeMap<String, LimitModel>,
    launched: BTreeMap<EffectId, Time>,
    pub passes: BTreeSet<GatePass>,
    pub red: Vec<String>,
    pub base_is_good: bool,
    /// Whether a stop was requested since the latest process took over.
    pub stop_asked: bool,
    pub effect_failed: bool,
    pub setup_failed: bool,
    pub out_of_space: bool,
    pub gate_failed: bool,
    pub obstacle: Option<Obstacle>,
    pub now: Time,
}

impl Model {
    pub fn new(now: Time, setup: &Setup) -> Model {
        let mut model = Model {
            start: setup.start.clone(),
            tasks: BTreeMap::new(),
            retired: BTreeMap::new(),
            order: Vec::new(),
            levels: Vec::new(),
            policy: setup.policy.clone(),
            intent: Intent::Complete,
            paused: false,
            outstanding: BTreeMap::new(),
            adopted: BTreeSet::new(),
            outdated: BTreeSet::new(),
            notes: Vec::new(),
            grants: Vec::new(),
            slots: BTreeSet::new(),
            stopped: BTreeSet::new(),
            spent: 0.0,
            costs: BTreeMap::new(),
            has_unpriced: false,
            tokens: 0,
            planning: setup.planning,
            breaker: BreakerModel::Closed { deaths: 0 },
            limits: BTreeMap::new(),
            launched: BTreeMap::new(),
            passes: BTreeSet::new(),
            red: Vec::new(),
            base_is_good: false,
            stop_asked: false,
            effect_failed: false,
            setup_failed: false,
            out_of_space: false,
            gate_failed: false,
            obstacle: None,
            now,
        };
        model.take_graph(&setup.graph);
        model
    }

    fn take_graph(&mut self, file: &GraphFile) {
        let id = |text: &String| TaskId::new(text.clone()).expect("the simulator's ids are good");
        let mut tasks = BTreeMap::new();
        for spec in &file.tasks {
            let mut entry = self.tasks.remove(&id(&spec.id)).unwrap_or_else(|| TaskModel::new(spec));
            entry.last_attempt = entry.last_attempt.max(self.retired.remove(&id(&spec.id)).unwrap_or(0));
            entry.spec = TaskSpec::clone(spec);
            entry.dependencies = spec.dependencies.iter().map(id).collect();
            tasks.insert(id(&spec.id), entry);
        }
        self.retired.extend(std::mem::take(&mut self.tasks).into_iter().map(|(id, entry)| (id, entry.last_attempt)));
        self.tasks = tasks;
        self.order = file.tasks.iter().map(|spec| id(&spec.id)).collect();
        self.order.sort_by_key(|id| self.tasks[id].spec.level);
        let mut numbers: Vec<u32> = file.tasks.iter().map(|spec| spec.level).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let old = std::mem::take(&mut self.levels);
        let known = |number| old.iter().find(|entry| entry.level == Level(number)).cloned();
        self.levels = numbers.into_iter().map(|n| known(n).unwrap_or_else(|| LevelModel::new(Level(n)))).collect();
    }

    fn replanned(&mut self, file: &GraphFile) {
        for (id, effect) in &self.outstanding {
            if let Effect::RunJob(job) = effect
                && job.purpose == Purpose::Build
                && let Some(spec) = file.tasks.iter().find(|spec| spec.id == job.task.as_str())
                && self.tasks.get(&job.task).is_none_or(|entry| entry.spec != **spec)
            {
                self.outdated.insert(*id);
            }
        }
        let (before, was_last) = (self.current(), self.current().is_some_and(|level| self.is_last(level)));
        self.take_graph(file);
        let (after, is_last) = (self.current(), self.current().is_some_and(|level| self.is_last(level)));
        let open = |entry: &TaskModel| matches!(entry.standing, Standing::Open | Standing::Blocked);
        let reopened = after.is_some_and(|level| self.of_level(level).any(|(_, entry)| open(entry)));
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

    /// Returns the lowest level that is not merged.
    pub fn current(&self) -> Option<Level> {
        self.levels.iter().find(|entry| entry.merged.is_none()).map(|entry| entry.level)
    }

    pub fn level(&self, level: Level) -> &LevelModel {
        self.levels.iter().find(|entry| entry.level == level).expect("a level of the graph")
    }

    pub fn level_mut(&mut self, level: Level) -> &mut LevelModel {
        self.levels.iter_mut().find(|entry| entry.level == level).expect("a level of the graph")
    }

    pub fn is_last(&self, level: Level) -> bool {
        self.levels.last().is_some_and(|entry| entry.level == level)
    }

    /// Returns the commit that the level below became.
    pub fn base_of(&self, level: Level) -> Oid {
        let below = self.levels.iter().rev().find(|entry| entry.level < level);
        below.map_or(self.start.clone(), |entry| entry.merged.clone().expect("levels merge in order"))
    }

    pub fn of_level(&self, level: Level) -> impl Iterator<Item = (&TaskId, &TaskModel)> {
        self.order.iter().map(|id| (id, &self.tasks[id])).filter(move |(_, entry)| entry.spec.level == level.0)
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

    /// Returns the cost that counts against the budget.
    pub fn known_usd(&self) -> f64 {
        self.planning.known_usd() + self.spent
    }

    /// Updates the model with an event. `taken`: whether a changed graph or start came in time.
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
            Event::Cancelled { effect } => self.cancelled(*effect, answered),
            Event::EffectFailed { effect, .. } => {
                self.effect_failed = true;
                self.cancelled(*effect, answered);
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

    /// Whether only tasks held by sessions are under way.
    pub fn is_settled(&self) -> bool {
        self.outstanding.values().all(Effect::is_held)
    }

    fn resumed(&mut self, policy: &Policy, intent: Intent) {
        self.policy = policy.clone();
        self.paused = false;
        let same_session = self.intent.is_session() && intent.is_session();
        self.intent = intent;
        self.adopted = self.outstanding.keys().copied().collect();
        self.slots.clear();
        self.stopped.clear();
        self.breaker = BreakerModel::Closed { deaths: 0 };
        self.limits.values_mut().for_each(|limit| limit.resumed(policy));
        self.stop_asked = false;
        self.effect_failed = false;
        self.setup_failed = false;
        self.out_of_space = false;
        self.gate_failed = self.levels.iter().any(|entry| entry.failure.is_some());
        self.obstacle = None;
        for entry in self.levels.iter_mut().filter(|_| !same_session) {
            entry.fix_attempts = u32::from(entry.fix.is_some());
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
                Obstacle::WorkLost { .. } | Obstacle::Outdated { .. } => {
                    matches!(effect, Effect::Stage { level: of, .. } if of == level)
                }
                Obstacle::Conflict { .. } | Obstacle::CheckoutLeftBehind { .. } | Obstacle::StagingLost => {
                    is_gate(effect, *level)
                }
                Obstacle::BaseMoved | Obstacle::CheckoutInTheWay { .. } | Obstacle::Forged { .. } => {
                    is_land(effect, *level)
                }
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
        let gate_failed = self.gate_failed;
        self.gate_failed |= matches!(event, Event::GateFailed { .. });
        match event {
            Event::GatesPassed { passed, .. } | Event::GateFailed { passed, .. } => {
                self.passes.extend(passed.iter().cloned());
            }
            Event::NotLanded { obstacle: Obstacle::Outdated { .. }, .. } => {}
            Event::NotLanded { obstacle, .. } => self.obstacle = Some(obstacle.clone()),
            _ => {}
        }
        let redone = match event {
            Event::GateFailed { failure, .. } => failure.task.as_ref().filter(|task| self.is_early(task)),
            _ => None,
        };
        if let (Event::GateFailed { failure, .. }, Some(task)) = (event, redone) {
            let why = format!(
                "The verification fails on the merged work of level {level}: {}\n\n{}",
                failure.command, failure.output
            );
            self.gate_failed = gate_failed;
            return self.redone(&task.clone(), &why);
        }
        if let Event::NotLanded { obstacle: Obstacle::Outdated { tasks }, .. } = event {
            for task in tasks {
                assert!(self.is_early(task), "{task} cannot be outdated");
                self.redone(task, "Files of this task have changed on the base branch since the attempt began.");
            }
            return;
        }
        let last = self.is_last(level);
        let is_here = |task: &&TaskId| self.tasks.get(task).is_some_and(|entry| entry.spec.level == level.0);
        let failing = match event {
            Event::GateFailed { failure, .. } => failure.task.as_ref().filter(is_here).cloned(),
            _ => None,
        };
        let entry = self.level_mut(level);
        entry.integration(event, failing);
        if matches!(event, Event::GatesPassed { .. }) {
            entry.verified = last;
        }
    }

    fn job_ended(&mut self, id: EffectId, job: &Job, report: &JobReport) {
        self.spent += report.cost_usd.unwrap_or_default();
        self.has_unpriced |= report.cost_usd.is_none();
        *self.costs.entry(job.task.clone()).or_default() += report.cost_usd.unwrap_or_default();
        self.tokens += report.tokens;
        if let Some(agent) = job.performer.agent() {
            let limit = self.limits.entry(agent.to_string()).or_default();
            limit.job_ended(self.now, self.launched[&id], &report.end);
        }
        self.slots.insert(job.worker.0);
        self.setup_failed |= matches!(report.end, JobEnd::SetupFailed { .. });
        let early = matches!(report.end, JobEnd::Died { .. }) && report.ran_ms < 2_000;
        if !job.performer.is_agent() {
            // Says nothing about workers.
        } else if matches!(report.end, JobEnd::Cancelled | JobEnd::SetupFailed { .. }) {
            self.breaker.cancelled(id);
        } else {
            self.breaker.job_ended(self.now, early, Duration::from_millis(self.policy.backoff.max_ms.max(1_000)));
        }
        let outdated = self.outdated.remove(&id);
        let awaited = self.current().filter(|level| self.level(*level).fix == Some(id));
        let Some(entry) = self.tasks.get_mut(&job.task) else { return };
        let fix = matches!(job.purpose, Purpose::Fix { .. });
        let adopted = matches!(job.performer, Performer::Reported { .. });
        if matches!(report.end, JobEnd::Checkpoint { .. }) && !adopted && (awaited.is_some() || !fix && !outdated) {
            entry.checkpoints += 1;
        }
        if fix {
            let free = entry.checkpoints <= FREE_CHECKPOINTS && matches!(report.end, JobEnd::Checkpoint { .. });
            if let Some(level) = awaited {
                self.level_mut(level).fix_ended(&job.task, report, free);
            }
        } else if outdated {
            entry.standing = Standing::Open;
            entry.carry = Carry::default();
            entry.rests_until = None;
        } else if matches!(job.performer, Performer::Reported { .. }) && !matches!(report.end, JobEnd::Done { .. }) {
            // The task stays as it was.
        } else {
            entry.build_ended(self.now, report, &self.policy);
            if matches!(report.end, JobEnd::Done { .. }) {
                entry.built_on = Some((job.base.clone(), job.on.is_empty()));
            }
            if self.requested(&job.task, report) {
                self.tasks.get_mut(&job.task).expect("a task of the graph").standing = Standing::Open;
            }
        }
        self.block_over_budget();
    }

    /// Returns the agents that make the attempts at a task, one after the other as they fail; the last one makes the rest.
    fn agents_of(&self, task: &TaskId) -> Vec<&str> {
        let roster = &self.policy.roster;
        let mut agents = vec![roster.tasks.get(task).unwrap_or(&roster.default).as_str()];
        while let Some(next) = roster.next.get(*agents.last().expect("it begins with one")) {
            let agent = *agents.last().expect("it begins with one");
            agents.extend(std::iter::repeat_n(agent, next.after as usize - 1));
            agents.push(&next.agent);
        }
        agents
    }

    pub fn is_served(&self, agent: &str) -> bool {
        let until = self.limits.get(agent).and_then(|limit| limit.until);
        until.is_none_or(|until| self.now >= until)
    }

    /// Returns the agent that has to make the next attempt at a task; none while it has to wait.
    pub fn agent_for(&self, task: &TaskId, failed_fixes: u32) -> Option<&str> {
        let agents = self.agents_of(task);
        let due = ((self.tasks[task].failures + failed_fixes) as usize).min(agents.len() - 1);
        agents[due..].iter().find(|agent| self.is_served(agent)).copied()
    }

    /// Whether an API that no other agent can stand in for was tried often enough.
    pub fn is_exhausted(&self) -> bool {
        let is_last = |agent: &String| !self.policy.roster.next.contains_key(agent);
        self.limits.iter().any(|(agent, limit)| limit.exhausted && is_last(agent))
    }

    /// Whether the task is completed, not merged, and was built on something else than what the level below became.
    pub fn is_early(&self, task: &TaskId) -> bool {
        let Some(entry) = self.tasks.get(task) else { return false };
        let level = Level(entry.spec.level);
        let unmerged = self.level(level).merged.is_none();
        let exact = || entry.built_on == Some((self.base_of(level), true));
        unmerged && matches!(entry.standing, Standing::Done(_)) && (self.current() != Some(level) || !exact())
    }

    /// An early task failed with its level, so it is done again.
    fn redone(&mut self, task: &TaskId, why: &str) {
        let (now, policy) = (self.now, self.policy.clone());
        let entry = self.tasks.get_mut(task).expect("a task of the graph");
        let Standing::Done(commit) = std::mem::replace(&mut entry.standing, Standing::Open) else {
            panic!("{task} is done again though it is not done")
        };
        let report = JobReport { wip: Some(commit), ..JobReport::cancelled() };
        entry.failed(now, why, &report, &policy);
        let level = Level(entry.spec.level);
        let entry = self.level_mut(level);
        entry.unstage();
        entry.fixes.retain(|fix| fix.task != *task);
        self.block_over_budget();
    }

    /// Returns the tasks that this one depends on, directly or not.
    pub fn all_dependencies(&self, task: &TaskId) -> BTreeSet<&TaskId> {
        let mut all = BTreeSet::new();
        let mut open: Vec<&TaskId> = self.tasks[task].dependencies.iter().collect();
        while let Some(next) = open.pop() {
            if all.insert(next) {
                open.extend(&self.tasks[next].dependencies);
            }
        }
        all
    }

    /// Whether a task, if it is in the graph, depends on another, directly or not.
    pub fn needs(&self, task: &TaskId, other: &TaskId) -> bool {
        self.tasks.contains_key(task) && self.all_dependencies(task).contains(other)
    }

    /// Whether the task may be worked on now, as far as other tasks and levels go.
    pub fn may_start(&self, task: &TaskId) -> bool {
        let level = Level(self.tasks[task].spec.level);
        let Some(current) = self.current() else { return false };
        let is_there = |task: &&TaskId| matches!(self.tasks[*task].standing, Standing::Done(_) | Standing::Skipped);
        level == current
            || self.policy.schedule == Schedule::Dependencies
                && level > current
                && self.all_dependencies(task).iter().all(is_there)
                && !self.shares_unmerged(task, current)
    }

    /// Whether agents have spent the task's budget.
    pub fn is_over_budget(&self, task: &TaskId) -> bool {
        let by_agents = self.tasks.get(task).is_some_and(|entry| !entry.spec.foreground);
        let cost = self.costs.get(task).copied().unwrap_or_default();
        by_agents && self.policy.max_usd_per_task.is_some_and(|limit| cost >= limit)
    }

    /// Blocks queued tasks whose budget is spent.
    pub fn block_over_budget(&mut self) {
        let open = |(id, entry): &(&TaskId, &TaskModel)| {
            entry.standing == Standing::Open && self.job_of(id).is_none() && self.is_over_budget(id)
        };
        let over: Vec<TaskId> = self.tasks.iter().filter(open).map(|(id, _)| id.clone()).collect();
        for task in over {
            let entry = self.tasks.get_mut(&task).expect("a task of the graph");
            (entry.standing, entry.rests_until) = (Standing::Blocked, None);
        }
    }

    fn cancelled(&mut self, id: EffectId, effect: Option<Effect>) {
        let Some(Effect::RunJob(job)) = effect else { return };
        self.slots.insert(job.worker.0);
        self.outdated.remove(&id);
        self.breaker.cancelled(id);
        if let Some(level) = self.current().filter(|level| self.level(*level).fix == Some(id)) {
            self.level_mut(level).fix_ended(&job.task, &JobReport::cancelled(), false);
        }
        self.block_over_budget();
    }

    /// Sets the number of workers; those within it that were stopped come back.
    pub fn scaled(&mut self, workers: u32) {
        if matches!(self.intent, Intent::Complete | Intent::Level(_)) {
            self.policy.workers = workers;
            self.stopped.retain(|worker| *worker >= workers);
        }
    }

    /// Requeues a task that a user retried.
    pub fn retried(&mut self, task: &TaskId) {
        let entry = self.tasks.get_mut(task).expect("only known tasks are accepted");
        if matches!(entry.standing, Standing::Done(_)) {
            entry.carry = Carry::default();
        }
        entry.standing = Standing::Open;
        (entry.failures, entry.checkpoints, entry.false_starts) = (0, 0, 0);
        entry.rests_until = None;
        let level = Level(entry.spec.level);
        let entry = self.level_mut(level);
        entry.unstage();
        entry.fixes.retain(|fix| fix.task != *task);
    }

    pub fn skipped(&mut self, task: &TaskId) {
        let entry = self.tasks.get_mut(task).expect("only known tasks are accepted");
        entry.standing = Standing::Skipped;
        entry.rests_until = None;
        let level = Level(entry.spec.level);
        let entry = self.level_mut(level);
        entry.unstage();
        entry.fixes.retain(|fix| fix.task != *task);
    }

    /// Marks a level as merged that has nothing to merge.
    pub fn merged_empty(&mut self, level: Level) {
        let base = self.base_of(level);
        self.level_mut(level).merged = Some(base);
    }

    pub fn began(&mut self, id: EffectId, effect: &Effect) {
        if effect.is_answered() {
            self.outstanding.insert(id, effect.clone());
        }
        if let Effect::RunJob(job) = effect {
            let entry = self.tasks.get_mut(&job.task).expect("a job is of a task of the graph");
            entry.last_attempt = job.attempt.0;
            if job.performer.is_agent() {
                self.breaker.launched(id);
            } else if job.purpose == Purpose::Build {
                entry.rests_until = None;
            }
            self.launched.insert(id, self.now);
            if let (Purpose::Fix { .. }, Some(level)) = (&job.purpose, self.current()) {
                let entry = self.level_mut(level);
                entry.fix_attempts += 1;
                entry.fix = Some(id);
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
