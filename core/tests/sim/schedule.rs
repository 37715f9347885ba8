//! One schedule: a graph, a policy and a world, from the start to completion, through as many processes as it takes.

use std::cell::RefCell;
use std::fmt::Write;

use mahabharatha_core::ids::{Feature, Time};
use mahabharatha_core::run::event::{Event, Setup};
use mahabharatha_core::run::{Effect, EffectId, End, Host, Journal, Run, drive};

use crate::coverage::Coverage;
use crate::faults::Fault;
use crate::graphs;
use crate::judge::Judge;
use crate::person;
use crate::replan::random_replan;
use crate::repo::Repo;
use crate::rng::{Rng, oid};
use crate::world::World;

/// So many processes must be enough, with a person's help.
const MOST_LIVES: u32 = 150;
const REPLAY_EVERY: u32 = 4;
/// From here on people do all that they can and ask for nothing odd.
const THOROUGH_AFTER: u32 = 15;

pub struct Schedule {
    judge: RefCell<Judge>,
    world: RefCell<World>,
}

#[derive(Debug, Default)]
pub struct Tally {
    pub steps: usize,
    pub processes: u32,
    pub coverage: Coverage,
}

/// The journal was no longer written: the process is dead.
struct Death;

struct Pen<'a>(&'a Schedule);
struct Hands<'a>(&'a Schedule);

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

    fn begin(&mut self, id: EffectId, effect: &Effect) {
        let mut world = self.0.world.borrow_mut();
        self.0.judge.borrow_mut().begun(id, effect);
        world.dying |= world.strikes(Fault::OrchestratorDies);
        if !world.dying {
            world.begin(id, effect);
        }
    }

    fn reconcile(&mut self, id: EffectId, effect: &Effect) {
        let mut world = self.0.world.borrow_mut();
        world.dying |= world.strikes(Fault::OrchestratorDies);
        if !world.dying {
            world.reconcile(id, effect);
        }
    }

    fn next(&mut self, until: Option<Time>) -> Event {
        let mut world = self.0.world.borrow_mut();
        let mut judge = self.0.judge.borrow_mut();
        judge.waits(until);
        if world.dying { Event::Woke } else { world.next(until, &judge.ledger, &judge.run) }
    }
}

impl Schedule {
    pub fn new(seed: u64) -> Schedule {
        let mut rng = Rng::new(seed);
        let start = oid("start");
        let setup = Setup {
            feature: Feature::new("sim").expect("a good name"),
            graph: graphs::graph(&mut rng),
            base_branch: "refs/heads/main".to_string(),
            start: start.clone(),
            mode: "simulated".to_string(),
            git_config: Vec::new(),
            policy: graphs::policy(&mut rng),
        };
        let repo = Repo::new(&start, rng.chance(10));
        let world = World::new(rng, repo);
        Schedule { judge: RefCell::new(Judge::new(world.now(), &setup)), world: RefCell::new(world) }
    }

    pub fn run(&self) -> Tally {
        let mut run = self.judge.borrow().replayed();
        let mut lives = 1;
        while !self.live(&mut run) {
            assert!(lives < MOST_LIVES, "the run is not completed, whatever people do");
            self.judge.borrow_mut().new_process();
            // Reading the whole journal every time would take most of the time.
            let judge = self.judge.borrow();
            run = if lives % REPLAY_EVERY == 0 { judge.replayed() } else { judge.run.clone() };
            drop(judge);
            if run.ended() == Some(&End::Completed) {
                break;
            }
            self.between_processes(&mut run, lives > THOROUGH_AFTER);
            lives += 1;
        }
        let judge = self.judge.borrow();
        judge.replayed();
        self.world.borrow().repo.check_complete(&judge.ledger);
        Tally { steps: judge.journal.len(), processes: lives, coverage: judge.coverage.clone() }
    }

    /// One process, from its start or resumption to its end or death; true where the run is completed.
    fn live(&self, run: &mut Run) -> bool {
        let outcome = drive(run, &mut Pen(self), &mut Hands(self));
        let mut world = self.world.borrow_mut();
        match outcome {
            Ok(end) => {
                assert!(*run == self.judge.borrow().run, "live is not replay");
                world.orchestrator_ended();
                end == End::Completed
            }
            Err(Death) => {
                world.orchestrator_died();
                false
            }
        }
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
        drop(world);
        for event in events {
            self.apply(run, event);
        }
        if self.world.borrow_mut().strikes(Fault::StartMoves) {
            let start = self.world.borrow_mut().repo.move_base();
            self.apply(run, Event::Started(Box::new(Setup { start, ..run.setup().clone() })));
        }
        if self.world.borrow_mut().strikes(Fault::GraphChanges) {
            let (graph, allowed) = random_replan(&mut self.world.borrow_mut().rng, run);
            let problems = run.cannot_replan(&graph);
            assert_eq!(problems.is_empty(), allowed, "{problems:?}: {graph:?}");
            self.apply(run, Event::Replanned { graph: Box::new(graph) });
        }
        let (policy, intent) = person::resume(&mut self.world.borrow_mut(), run, thorough);
        self.apply(run, Event::Resumed { policy, intent });
        self.judge.borrow_mut().new_process();
    }

    /// As a command does that holds the feature's lock: append and decide, no more.
    fn apply(&self, run: &mut Run, event: Event) {
        let now = self.world.borrow().now();
        let mut judge = self.judge.borrow_mut();
        let decided = judge.appended(now, &event).to_vec();
        assert_eq!(run.step(now, &event), decided, "live is not replay");
    }

    pub fn journal(&self) -> Vec<(Time, Event)> {
        self.judge.borrow().journal.clone()
    }

    /// How the schedule went, as far as it went.
    pub fn tail(&self) -> String {
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
