//! One schedule: one feature or two on one repository, each with its graph, its policy and its faults, from the start to
//! completion, through as many processes as it takes.

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

use mahabharatha_core::ids::{self, Time};
use mahabharatha_core::run::event::{Event, Intent, Setup};
use mahabharatha_core::run::{Effect, EffectId, End, Host, Journal, Run, take_over, turn};

use crate::coverage::Coverage;
use crate::faults::Fault;
use crate::graphs;
use crate::judge::Judge;
use crate::person;
use crate::replan::random_replan;
use crate::repo::Repo;
use crate::rng::{Rng, oid};
use crate::trunk::{SharedTrunk, Trunk};
use crate::world::World;

/// So many processes must be enough, with a person's help.
const MOST_LIVES: u32 = 150;
const REPLAY_EVERY: u32 = 8;
/// From here on people do all that they can and ask for nothing odd.
const THOROUGH_AFTER: u32 = 15;
/// In so many of a hundred schedules a second feature works on the same repository.
const TWO_FEATURES: u64 = 25;

pub struct Schedule {
    features: Vec<Feature>,
}

/// One of the repository's features.
struct Feature {
    judge: RefCell<Judge>,
    world: RefCell<World>,
}

/// How far a feature has come.
struct Progress {
    run: Run,
    lives: u32,
    /// The process has looked after what an earlier one began.
    at_work: bool,
    completed: bool,
}

#[derive(Debug, Default)]
pub struct Tally {
    pub features: usize,
    pub steps: usize,
    pub processes: u32,
    pub coverage: Coverage,
}

/// The journal was no longer written: the process is dead.
struct Death;

struct Pen<'a>(&'a Feature);
struct Hands<'a>(&'a Feature);

impl Journal for Pen<'_> {
    type Error = Death;

    fn append(&mut self, now: Time, event: &Event) -> Result<(), Death> {
        let mut world = self.0.world.borrow_mut();
        let dies = world.dying || world.strikes(Fault::OrchestratorDies);
        if dies && (world.dying || world.rng.chance(50)) {
            return Err(Death);
        }
        self.0.judge.borrow_mut().appended(now, event);
        if dies { Err(Death) } else { Ok(()) }
    }
}

impl Host for Hands<'_> {
    fn now(&self) -> Time {
        self.0.world.borrow().now()
    }

    fn begin(&mut self, id: EffectId, effect: &Effect, _run: &Run) {
        let mut world = self.0.world.borrow_mut();
        self.0.judge.borrow_mut().begun(id, effect);
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
        let mut judge = self.0.judge.borrow_mut();
        let until = run.next_wakeup();
        judge.waits(until);
        if !run.is_integrating() {
            world.unlock();
        }
        if world.dying { Event::Woke } else { world.next(until, &judge.ledger, &judge.run) }
    }
}

impl Schedule {
    pub fn new(seed: u64) -> Schedule {
        let mut rng = Rng::new(seed);
        let trunk = Rc::new(RefCell::new(Trunk::new(&oid("start"), rng.chance(10))));
        let count = if rng.chance(TWO_FEATURES) { 2 } else { 1 };
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
            let judge = feature.judge.borrow();
            judge.replayed();
            feature.world.borrow().repo.check_complete(&judge.ledger);
            tally.steps += judge.journal.len();
            tally.processes += progress.lives;
            tally.coverage.add(&judge.coverage);
        }
        tally
    }

    pub fn journals(&self) -> Vec<Vec<(Time, Event)>> {
        self.features.iter().map(|feature| feature.judge.borrow().journal.clone()).collect()
    }

    /// How the schedule went, as far as it went.
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
            mode: "simulated".to_string(),
            git_config: Vec::new(),
            policy: graphs::policy(&mut rng),
            planning: graphs::planning(&mut rng),
        };
        let world = World::new(rng, Repo::new(number, trunk));
        Feature { judge: RefCell::new(Judge::new(world.now(), &setup)), world: RefCell::new(world) }
    }

    fn starts(&self) -> Progress {
        Progress { run: self.judge.borrow().replayed(), lives: 1, at_work: false, completed: false }
    }

    /// When something happens next to it.
    fn due(&self, progress: &Progress) -> i64 {
        let until = if progress.at_work { progress.run.next_wakeup() } else { None };
        self.world.borrow().due(until)
    }

    /// One event; where a process ends or dies by it, people see to the next one.
    fn goes_on(&self, progress: &mut Progress) {
        if !std::mem::replace(&mut progress.at_work, true) {
            take_over(&progress.run, &mut Hands(self));
        }
        let run = &progress.run;
        if run.intent() == Intent::Session(None) && run.ended().is_none() && run.is_settled() {
            self.world.borrow_mut().orchestrator_ended();
            return self.next_process(progress);
        }
        match turn(&mut progress.run, &mut Pen(self), &mut Hands(self)) {
            Ok(None) => return,
            Ok(Some(end)) => {
                assert!(progress.run == self.judge.borrow().run, "live is not replay");
                self.world.borrow_mut().orchestrator_ended();
                progress.completed = end == End::Completed;
            }
            Err(Death) => {
                self.world.borrow_mut().orchestrator_died();
                progress.completed = self.judge.borrow().run.ended() == Some(&End::Completed);
            }
        }
        if !progress.completed {
            self.next_process(progress);
        }
    }

    fn next_process(&self, progress: &mut Progress) {
        assert!(progress.lives < MOST_LIVES, "the run is not completed, whatever people do");
        let mut judge = self.judge.borrow_mut();
        judge.new_process();
        // Reading the whole journal every time would take most of the time.
        let reads = progress.lives.is_multiple_of(REPLAY_EVERY);
        progress.run = if reads { judge.replayed() } else { judge.run.clone() };
        drop(judge);
        self.between_processes(&mut progress.run, progress.lives > THOROUGH_AFTER);
        progress.lives += 1;
        progress.at_work = false;
    }

    /// People see what became of the run, do something about it, and take it up again.
    fn between_processes(&self, run: &mut Run, thorough: bool) {
        let mut events = Vec::new();
        if run.ended().is_some() {
            let commands = person::help(&mut self.world.borrow_mut(), run, thorough);
            for (index, command) in commands.into_iter().enumerate() {
                let request = format!("help {} {index}", self.judge.borrow().journal.len());
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
            assert_eq!(problems.is_empty(), allowed, "{problems:?}: {graph:?}");
            self.apply(run, Event::Replanned { graph: Box::new(graph) });
        }
        let (policy, intent) = person::resume(&mut self.world.borrow_mut(), run, thorough);
        let planning = run.planning() + graphs::planning(&mut self.world.borrow_mut().rng);
        self.apply(run, Event::Resumed { policy, intent, planning });
        self.judge.borrow_mut().new_process();
    }

    /// As a command does that holds the feature's lock: append and decide, no more.
    fn apply(&self, run: &mut Run, event: Event) {
        let now = self.world.borrow().now();
        let mut judge = self.judge.borrow_mut();
        let decided = judge.appended(now, &event).to_vec();
        assert_eq!(run.step(now, &event), decided, "live is not replay");
    }

    fn tail(&self) -> String {
        let judge = self.judge.borrow();
        let mut text = String::new();
        for (index, (now, event)) in judge.journal.iter().enumerate().skip(judge.journal.len().saturating_sub(30)) {
            let event: String = format!("{event:?}").chars().take(300).collect();
            let _ = writeln!(text, "{index:5} {:9} {event}", now.0);
        }
        let _ = writeln!(text, "policy {:?}, intent {:?}", judge.ledger.policy, judge.ledger.intent);
        let _ = writeln!(text, "phase {:?}, level {:?}", judge.run.phase(), judge.run.current_level());
        let _ = writeln!(text, "workers {:?}, breaker {:?}", judge.run.workers(), judge.run.breaker());
        let _ = writeln!(text, "outstanding {:?}", judge.ledger.outstanding);
        text
    }
}
