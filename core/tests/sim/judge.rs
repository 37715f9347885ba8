//! Watches every append: keeps the journal, steps a run of its own, and holds it against the books.

use std::collections::{BTreeMap, VecDeque};

use mahabharatha_core::ids::{Time, WorkerId};
use mahabharatha_core::run::effect::Answer;
use mahabharatha_core::run::event::{Command, Event, RequestId, Setup};
use mahabharatha_core::run::{Effect, EffectId, LevelStatus, Run, replay};

use crate::books::Standing;
use crate::coverage::Coverage;
use crate::invariants::{
    check_effect, check_end, check_granted, check_refused, check_skipped, check_state, check_view,
};
use crate::ledger::Ledger;

/// No schedule may take more steps.
const MOST_STEPS: usize = 30_000;
/// What people see is checked every so many steps.
const VIEW_EVERY: usize = 17;

pub struct Judge {
    pub journal: Vec<(Time, Event)>,
    /// What the journal adds up to, one step after the other.
    pub run: Run,
    pub ledger: Ledger,
    /// Decided, and not begun yet.
    decided: VecDeque<(EffectId, Effect)>,
    answers: BTreeMap<RequestId, Answer>,
    pub coverage: Coverage,
    /// The first wait of a process may be for a time that is past.
    fresh: bool,
}

impl Judge {
    pub fn new(now: Time, setup: &Setup) -> Judge {
        let run = Run::start(now, setup).expect("the simulator's graphs are valid");
        let mut judge = Judge {
            journal: vec![(now, Event::Started(Box::new(setup.clone())))],
            ledger: Ledger::new(now, setup),
            decided: VecDeque::new(),
            answers: BTreeMap::new(),
            coverage: Coverage::default(),
            fresh: true,
            run,
        };
        let outstanding: Vec<_> = judge.run.outstanding().map(|(id, effect)| (id, effect.clone())).collect();
        judge.check_effects(None, &outstanding);
        judge
    }

    /// An event came into the journal.
    pub fn appended(&mut self, now: Time, event: &Event) -> &[(EffectId, Effect)] {
        assert!(self.journal.len() < MOST_STEPS, "the run does not come to an end");
        let taken = match event {
            Event::Replanned { graph } => self.run.cannot_replan(graph).is_empty(),
            Event::Started(_) => !self.run.has_begun(),
            _ => false,
        };
        self.coverage.note(&self.run, event);
        let was_ended = self.run.ended().is_some();
        let effects = self.run.step(now, event);
        self.journal.push((now, event.clone()));
        let failing =
            matches!(event, Event::EffectFailed { effect, .. } if self.ledger.outstanding.contains_key(effect));
        self.ledger.note(now, event, taken);
        self.check_interrupts(event, failing, &effects);
        self.check_effects(Some(event), &effects);
        check_state(&self.ledger, &self.run);
        if let (Some(end), false) = (self.run.ended(), was_ended) {
            check_end(&self.ledger, &self.run, end);
        }
        if self.journal.len().is_multiple_of(VIEW_EVERY) || self.run.ended().is_some() {
            check_view(&self.run);
        }
        self.decided = effects.into();
        self.decided.make_contiguous()
    }

    /// What is under way is called off when that is asked for or something cannot be carried out, and only then.
    fn check_interrupts(&self, event: &Event, failing: bool, effects: &[(EffectId, Effect)]) {
        let under_way = !self.ledger.is_settled();
        let due = match event {
            Event::Asked { request, command: Command::Stop { force, grace_ms, worker } } => {
                let on_it = |of: WorkerId| self.ledger.jobs().any(|(_, job)| job.worker == of);
                let due = !self.answers.contains_key(request) && worker.map_or(under_way, on_it);
                due.then_some((*force, *grace_ms, *worker))
            }
            Event::OutOfSpace { .. } => under_way.then_some((false, 10_000, None)),
            _ => (failing && under_way).then_some((false, 10_000, None)),
        };
        let interrupt = effects.iter().find_map(|(_, effect)| match effect {
            Effect::Interrupt { force, grace_ms, only } => Some((*force, *grace_ms, *only)),
            _ => None,
        });
        assert_eq!(interrupt, due, "not called off as it should be");
    }

    fn check_effects(&mut self, event: Option<&Event>, effects: &[(EffectId, Effect)]) {
        let mut answered = false;
        for (id, effect) in effects {
            self.merge_empty_levels();
            match (effect, event) {
                (Effect::Answer { request, answer }, Some(Event::Asked { request: of, command })) => {
                    assert_eq!(request, of, "somebody else is answered");
                    self.granted(request, command, answer);
                    answered = true;
                }
                _ => check_effect(&self.ledger, &self.run, *id, effect),
            }
            self.ledger.began(*id, effect);
        }
        self.merge_empty_levels();
        assert!(answered || !matches!(event, Some(Event::Asked { .. })), "whoever asked is not answered");
    }

    /// Carries a person's wish into the books, as far as it was granted.
    fn granted(&mut self, request: &RequestId, command: &Command, answer: &Answer) {
        assert_eq!(self.run.answer(request), Some(answer), "the answer is not kept");
        if let Some(before) = self.answers.insert(request.clone(), answer.clone()) {
            assert_eq!(before, *answer, "the same request is answered differently");
            return;
        }
        check_skipped(&self.ledger, command, answer);
        if let Command::Retry { budget: Some(budget), .. } = command {
            self.ledger.policy.max_usd_per_task = budget.max_usd;
            self.ledger.block_over_budget();
        }
        for refusal in &answer.refused {
            check_refused(&self.ledger, command, &refusal.task);
        }
        for task in &answer.accepted {
            match command {
                Command::Retry { .. } => {
                    check_granted(&self.ledger, command, task);
                    assert!(!self.ledger.is_over_budget(task), "{task} is tried again over its budget");
                    self.ledger.retried(task);
                }
                Command::Skip { .. } => {
                    check_granted(&self.ledger, command, task);
                    self.ledger.skipped(task);
                }
                Command::Finish { attempt, report, .. } => self.ledger.attempt_ended(task, *attempt, report),
                Command::Claim { .. } | Command::Adopt { .. } => {
                    assert!(self.ledger.job_of(task).is_some(), "{task} is granted, and nobody is at it");
                }
                Command::Stop { .. } => panic!("a stop is not about tasks"),
            }
        }
        match command {
            Command::Stop { worker: None, .. } => self.ledger.stop_asked = true,
            Command::Stop { worker: Some(worker), .. } if (worker.0 as usize) < self.run.workers().len() => {
                self.ledger.stopped.insert(worker.0);
            }
            _ => {}
        }
    }

    /// A level of which every task was skipped needs no merge, except as the last, which verifies everything.
    fn merge_empty_levels(&mut self) {
        while let Some(level) = self.ledger.current() {
            let said = self.run.levels().iter().find(|state| state.level == level).map(|state| &state.status);
            let empty = self.ledger.of_level(level).all(|(_, book)| book.standing == Standing::Skipped);
            if !matches!(said, Some(LevelStatus::Merged { .. })) || !empty || self.ledger.is_last(level) {
                return;
            }
            self.ledger.merged_empty(level);
        }
    }

    /// The live process begins an effect: it must be the one decided.
    pub fn begun(&mut self, id: EffectId, effect: &Effect) {
        let decided = self.decided.pop_front();
        assert_eq!(decided.as_ref().map(|(id, effect)| (*id, effect)), Some((id, effect)), "live is not replay");
    }

    /// The live process waits.
    pub fn waits(&mut self, until: Option<Time>) {
        assert_eq!(until, self.run.next_wakeup(), "live is not replay");
        assert!(self.decided.is_empty(), "decided and never begun: {:?}", self.decided);
        assert!(self.fresh || until.is_none_or(|until| until > self.run.updated_at()), "it waits for what is past");
        self.fresh = false;
    }

    pub fn new_process(&mut self) {
        self.fresh = true;
        self.decided.clear();
    }

    /// The journal, read anew.
    pub fn replayed(&self) -> Run {
        let records = self.journal.iter().map(|(now, event)| (*now, event));
        let run = replay(records).expect("the journal can be read").expect("the journal is not empty");
        assert!(run == self.run, "replay is not live: {run:#?}\nshould be {:#?}", self.run);
        run
    }
}
