//! One schedule: one or two features on one repository, each with its graph, policy and faults, from start to completion, through
//! as many processes as that takes.

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

use mahabharatha_core::ids::{self, Time};
use mahabharatha_core::run::event::{Event, Intent, Setup};
use mahabharatha_core::run::{Effect, EffectId, End, Host, Journal, Run, take_over, turn};

use crate::checker::Checker;
use crate::coverage::Coverage;
use crate::faults::Fault;
use crate::graphs;
use crate::person;
use crate::replan::random_replan;
use crate::repo::Repo;
use crate::rng::{Rng, oid};
use crate::trunk::{SharedTrunk, Trunk};
use crate::world::World;

/// Limit on the processes of a feature.
const MAX_PROCESSES: u32 = 150;
const REPLAY_EVERY: u32 = 8;
/// Number of processes after which users only help.
const THOROUGH_AFTER: u32 = 15;
/// Percentage of schedules with a second feature on the same repository.
const TWO_FEATURES_PERCENT: u64 = 25;

pub struct Schedule {
    features: Vec<Feature>,
}

/// One of the repository's features.
struct Feature {
    checker: RefCell<Checker>,
    world: RefCell<World>,
}

/// Progress of a feature.
struct Progress {
    run: Run,
    processes: u32,
    /// Whether the process has reconciled the effects of earlier ones.
    reconciled: bool,
    completed: bool,
}

#[derive(Debug, Default)]
pub struct Tally {
    pub features: usize,
    pub steps: usize,
    pub processes: u32,
    pub coverage: Coverage,
}

/// The process was killed, so the journal was not written.
struct Killed;

struct SimJournal<'a>(&'a Feature);
struct SimHost<'a>(&'a Feature);

impl Journal for SimJournal<'_> {
    type Error = Killed;

    fn append(&mut self, now: Time, event: &Event) -> Result<(), Killed> {
        let mut world = self.0.world.borrow_mut();
        let dies = world.dying || world.strikes(Fault::OrchestratorDies);
        if dies && (world.dying || world.rng.chance(50)) {
            return Err(Killed);
        }
        self.0.checker.borrow_mut().appended(now, event);
        if dies { Err(Killed) } else { Ok(()) }
    }
}

impl Host for SimHost<'_> {
    fn now(&self) -> Time {
        self.0.world.borrow().now()
    }

    fn begin(&mut self, id: EffectId, effect: &Effect, _run: &Run) {
        let mut world = self.0.world.borrow_mut();
        self.0.checker.borrow_mut().begun(id, effect);
        world.dying |= world.strikes(Fault::OrchestratorDies);
        if !world.dying {
            world.begin(id, effect);
        }
    }

    fn reconcile(&mut self, id: EffectId, effect: &Effect, _run: &Run) {
        let mut world = self.0.world.borrow_mut();
        world.dying |= world.strikes(Fault::OrchestratorDies);
        if !world.dying {
            world.reconcile(id, effect);
        }
    }

    fn next(&mut self, run: &Run) -> Event {
        let mut world = self.0.world.borrow_mut();
        let mut checker = self.0.checker.borrow_mut();
        let until = run.next_wakeup();
        checker.waits(until);
        if (run.is_paused() || run.awaiting_approval().is_some()) && !run.is_integrating() {
            // Landing checks the base again: the lock is not kept through a pause, or while a person decides.
            world.let_go_of_integration();
        } else if !run.is_integrating() {
            world.unlock();
        }
        if world.dying { Event::Woke } else { world.next(until, &checker.model, &checker.run) }
    }
}

impl Schedule {
    pub fn new(seed: u64) -> Schedule {
        let mut rng = Rng::new(seed);
        let trunk = Rc::new(RefCell::new(Trunk::new(&oid("start"), rng.chance(10))));
        let count = if rng.chance(TWO_FEATURES_PERCENT) { 2 } else { 1 };
        let features = (0..count).map(|feature| {
            let (most, rng) = (if count == 1 { 60 } else { 8 }, Rng::new(rng.next()));
            Feature::new(feature, Rc::clone(&trunk), most, rng)
        });
        Schedule { features: features.collect() }
    }

    pub fn run(&self) -> Tally {
        let mut progress: Vec<Progress> = self.features.iter().map(Feature::starts).collect();
        let due = |(feature, progress): &(&Feature, &mut Progress)| feature.due(progress);
        while let Some((feature, progress)) =
            self.features.iter().zip(&mut progress).filter(|(_, progress)| !progress.completed).min_by_key(due)
        {
            feature.goes_on(progress);
        }
        let mut tally = Tally { features: self.features.len(), ..Tally::default() };
        for (feature, progress) in self.features.iter().zip(&progress) {
            let checker = feature.checker.borrow();
            checker.replayed();
            feature.world.borrow().repo.check_complete(&checker.model);
            tally.steps += checker.journal.len();
            tally.processes += progress.processes;
            tally.coverage.add(&checker.coverage);
        }
        tally
    }

    pub fn journals(&self) -> Vec<Vec<(Time, Event)>> {
        self.features.iter().map(|feature| feature.checker.borrow().journal.clone()).collect()
    }

    /// Returns the end of each feature's journal.
    pub fn tail(&self) -> String {
        self.features.iter().map(Feature::tail).collect::<Vec<_>>().join("\nThe other feature:\n")
    }
}

impl Feature {
    fn new(number: usize, trunk: SharedTrunk, most_tasks: u64, mut rng: Rng) -> Feature {
        let setup = Setup {
            feature: ids::Feature::new("sim").expect("a good name"),
            graph: graphs::graph(&mut rng, most_tasks),
            base_branch: "refs/heads/main".to_string(),
            start: trunk.borrow().tip().clone(),
            git_config: Vec::new(),
            policy: graphs::policy(&mut rng),
            planning: graphs::planning(&mut rng),
        };
        let world = World::new(rng, Repo::new(number, trunk));
        Feature { checker: RefCell::new(Checker::new(world.now(), &setup)), world: RefCell::new(world) }
    }

    fn starts(&self) -> Progress {
        Progress { run: self.checker.borrow().replayed(), processes: 1, reconciled: false, completed: false }
    }

    /// Returns the time of its next event.
    fn due(&self, progress: &Progress) -> i64 {
        let until = if progress.reconciled { progress.run.next_wakeup() } else { None };
        self.world.borrow().due(until)
    }

    /// Handles one event; starts the next process if this one ends or is killed.
    fn goes_on(&self, progress: &mut Progress) {
        if !std::mem::replace(&mut progress.reconciled, true) {
            take_over(&progress.run, &mut SimHost(self));
        }
        let run = &progress.run;
        if run.intent() == Intent::Session(None) && run.ended().is_none() && run.is_settled() {
            self.world.borrow_mut().orchestrator_ended();
            return self.next_process(progress);
        }
        match turn(&mut progress.run, &mut SimJournal(self), &mut SimHost(self)) {
            Ok(None) => return,
            Ok(Some(end)) => {
                assert!(progress.run == self.checker.borrow().run, "live is not replay");
                self.world.borrow_mut().orchestrator_ended();
                progress.completed = end == End::Completed;
            }
            Err(Killed) => {
                self.world.borrow_mut().orchestrator_died();
                progress.completed = self.checker.borrow().run.ended() == Some(&End::Completed);
            }
        }
        if !progress.completed {
            self.next_process(progress);
        }
    }

    fn next_process(&self, progress: &mut Progress) {
        assert!(progress.processes < MAX_PROCESSES, "the run is not completed, whatever people do");
        let mut checker = self.checker.borrow_mut();
        checker.new_process();
        // Replaying the whole journal every time would dominate the test's time.
        let reads = progress.processes.is_multiple_of(REPLAY_EVERY);
        progress.run = if reads { checker.replayed() } else { checker.run.clone() };
        drop(checker);
        self.between_processes(&mut progress.run, progress.processes > THOROUGH_AFTER);
        progress.processes += 1;
        progress.reconciled = false;
    }

    /// Lets users react to the end of a process and resume the run.
    fn between_processes(&self, run: &mut Run, thorough: bool) {
        let mut events = Vec::new();
        if run.ended().is_some() {
            let commands = person::help(&mut self.world.borrow_mut(), run, thorough);
            for (index, command) in commands.into_iter().enumerate() {
                let request = format!("help {} {index}", self.checker.borrow().journal.len());
                events.push(Event::Asked { request, command });
            }
        }
        let mut world = self.world.borrow_mut();
        if world.strikes(Fault::PersonAsks) {
            events.push(world.asks(run));
        }
        if run.intent().is_session() || world.strikes(Fault::SessionAsks) {
            events.push(world.session_asks(run));
        }
        drop(world);
        for event in events {
            self.apply(run, event);
        }
        if self.world.borrow_mut().strikes(Fault::StartMoves) {
            let start = self.world.borrow().repo.trunk.borrow_mut().move_on();
            self.apply(run, Event::Started(Box::new(Setup { start, ..run.setup().clone() })));
        }
        if self.world.borrow_mut().strikes(Fault::GraphChanges) {
            let (graph, allowed) = random_replan(&mut self.world.borrow_mut().rng, run);
            let problems = run.cannot_replan(&graph);
            let allowed = allowed && !self.checker.borrow().model.disputes_grants(&graph);
            assert_eq!(problems.is_empty(), allowed, "{problems:?}: {graph:?}");
            self.apply(run, Event::Replanned { graph: Box::new(graph) });
        }
        let (policy, intent) = person::resume(&mut self.world.borrow_mut(), run, thorough);
        let planning = run.planning() + graphs::planning(&mut self.world.borrow_mut().rng);
        self.apply(run, Event::Resumed { policy, intent, planning });
        self.checker.borrow_mut().new_process();
    }

    /// Appends and decides, as a command does that holds the feature's lock.
    fn apply(&self, run: &mut Run, event: Event) {
        let now = self.world.borrow().now();
        let mut checker = self.checker.borrow_mut();
        let decided = checker.appended(now, &event).to_vec();
        assert_eq!(run.step(now, &event), decided, "live is not replay");
    }

    fn tail(&self) -> String {
        let checker = self.checker.borrow();
        let mut text = String::new();
        for (index, (now, event)) in checker.journal.iter().enumerate().skip(checker.journal.len().saturating_sub(30)) {
            let event: String = format!("{event:?}").chars().take(300).collect();
            let _ = writeln!(text, "{index:5} {:9} {event}", now.0);
        }
        let _ = writeln!(text, "policy {:?}, intent {:?}", checker.model.policy, checker.model.intent);
        let _ = writeln!(text, "phase {:?}, level {:?}", checker.run.phase(), checker.run.current_level());
        let _ = writeln!(text, "workers {:?}, breaker {:?}", checker.run.workers(), checker.run.breaker());
        let _ = writeln!(text, "outstanding {:?}", checker.model.outstanding);
        text
    }
}
