//! Checks every appended event: keeps the journal, steps a run of its own and compares it with the model.

use std::collections::{BTreeMap, VecDeque};

use mahabharatha_core::ids::{Time, WorkerId};
use mahabharatha_core::run::effect::Answer;
use mahabharatha_core::run::event::{Command, Event, RequestId, Setup};
use mahabharatha_core::run::{Effect, EffectId, LevelStatus, Run, replay};

use crate::coverage::Coverage;
use crate::invariants::{
    check_effect, check_end, check_granted, check_no_idle_worker, check_refused, check_skipped, check_state, check_view,
};
use crate::model::Model;
use crate::model::parts::Standing;
use crate::ownership;

/// Limit on the steps of a schedule.
const MAX_STEPS: usize = 30_000;
/// Number of steps between two checks of what takes long to compare: the view, and what every task owns.
const THOROUGH_EVERY: usize = 29;

pub struct Checker {
    pub journal: Vec<(Time, Event)>,
    /// The run that the journal adds up to.
    pub run: Run,
    pub model: Model,
    /// Effects that are decided and not begun yet.
    decided: VecDeque<(EffectId, Effect)>,
    answers: BTreeMap<RequestId, Answer>,
    pub coverage: Coverage,
    /// Whether the process has not waited yet; its first wait may be for a time in the past.
    fresh: bool,
}

impl Checker {
    pub fn new(now: Time, setup: &Setup) -> Checker {
        let run = Run::start(now, setup).expect("the simulator's graphs are valid");
        let mut checker = Checker {
            journal: vec![(now, Event::Started(Box::new(setup.clone())))],
            model: Model::new(now, setup),
            decided: VecDeque::new(),
            answers: BTreeMap::new(),
            coverage: Coverage::default(),
            fresh: true,
            run,
        };
        let outstanding: Vec<_> = checker.run.outstanding().map(|(id, effect)| (id, effect.clone())).collect();
        checker.check_effects(None, &outstanding);
        checker
    }

    /// Appends an event to the journal and checks what follows from it.
    pub fn appended(&mut self, now: Time, event: &Event) -> &[(EffectId, Effect)] {
        assert!(self.journal.len() < MAX_STEPS, "the run does not come to an end");
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
            matches!(event, Event::EffectFailed { effect, .. } if self.model.outstanding.contains_key(effect));
        self.model.note(now, event, taken);
        self.check_interrupts(event, failing, &effects);
        self.check_effects(Some(event), &effects);
        check_state(&self.model, &self.run);
        // Between two processes, the one that resumes decides.
        if !matches!(event, Event::Started(_) | Event::Replanned { .. }) {
            check_no_idle_worker(&self.model, &self.run);
        }
        if let (Some(end), false) = (self.run.ended(), was_ended) {
            check_end(&self.model, &self.run, end);
        }
        if self.journal.len().is_multiple_of(THOROUGH_EVERY) || self.run.ended().is_some() {
            check_view(&self.run);
            ownership::check(&self.model, &self.run);
        }
        self.decided = effects.into();
        self.decided.make_contiguous()
    }

    /// Checks that effects are interrupted on request or after a failure, and only then.
    fn check_interrupts(&self, event: &Event, failing: bool, effects: &[(EffectId, Effect)]) {
        let under_way = !self.model.is_settled();
        let due = match event {
            Event::Asked { request, command: Command::Stop { force, grace_ms, worker } } => {
                let on_it = |of: WorkerId| self.model.jobs().any(|(_, job)| job.worker == of);
                let due = !self.answers.contains_key(request) && worker.map_or(under_way, on_it);
                due.then_some((*force, *grace_ms, *worker))
            }
            Event::OutOfSpace { .. } => under_way.then_some((false, 10_000, None)),
            _ => (failing && under_way).then_some((false, 10_000, None)),
        };
        let cancel = effects.iter().find_map(|(_, effect)| match effect {
            Effect::Cancel { force, grace_ms, only } => Some((*force, *grace_ms, *only)),
            _ => None,
        });
        assert_eq!(cancel, due, "not cancelled as it should be");
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
                _ => check_effect(&self.model, &self.run, *id, effect),
            }
            self.model.began(*id, effect);
        }
        self.merge_empty_levels();
        assert!(answered || !matches!(event, Some(Event::Asked { .. })), "whoever asked is not answered");
    }

    /// Updates the model with the accepted part of a command.
    fn granted(&mut self, request: &RequestId, command: &Command, answer: &Answer) {
        assert_eq!(self.run.answer(request), Some(answer), "the answer is not kept");
        if let Some(before) = self.answers.insert(request.clone(), answer.clone()) {
            assert_eq!(before, *answer, "the same request is answered differently");
            return;
        }
        check_skipped(&self.model, command, answer);
        if let Command::Retry { budget: Some(budget), .. } = command {
            self.model.policy.max_usd_per_task = budget.max_usd;
            self.model.block_over_budget();
        }
        for refusal in &answer.refused {
            check_refused(&self.model, command, &refusal.task);
        }
        for task in &answer.accepted {
            match command {
                Command::Retry { note, .. } => {
                    check_granted(&self.model, command, task);
                    assert!(!self.model.is_over_budget(task), "{task} is tried again over its budget");
                    self.model.retried(task);
                    self.model.notes.extend(note.iter().map(|note| (task.clone(), note.clone())));
                }
                Command::Grant { paths, .. } => {
                    check_granted(&self.model, command, task);
                    self.model.granted(task, paths);
                }
                Command::Skip { .. } => {
                    check_granted(&self.model, command, task);
                    self.model.skipped(task);
                }
                Command::Finish { attempt, report, .. } => self.model.attempt_ended(task, *attempt, report),
                Command::Claim { .. } | Command::Adopt { .. } => {
                    assert!(self.model.job_of(task).is_some(), "{task} is granted, and no job works on it");
                }
                Command::Stop { .. }
                | Command::Scale { .. }
                | Command::Pause
                | Command::Resume
                | Command::Approve { .. } => {
                    panic!("{command:?} is not about tasks")
                }
            }
        }
        match command {
            Command::Stop { worker: None, .. } => self.model.stop_asked = true,
            Command::Stop { worker: Some(worker), .. } if (worker.0 as usize) < self.run.workers().len() => {
                self.model.stopped.insert(worker.0);
            }
            Command::Scale { workers } => self.model.scaled(*workers),
            Command::Pause => self.model.paused |= !answer.declined,
            Command::Resume => self.model.paused = false,
            Command::Approve { level, tree } if !answer.declined => {
                self.model.level_mut(*level).approved = Some(tree.clone());
            }
            _ => {}
        }
    }

    /// Marks levels as merged whose tasks were all skipped; the last level is merged even so, to verify everything.
    fn merge_empty_levels(&mut self) {
        while let Some(level) = self.model.current() {
            let said = self.run.levels().iter().find(|state| state.level == level).map(|state| &state.status);
            let empty = self.model.of_level(level).all(|(_, entry)| entry.standing == Standing::Skipped);
            if !matches!(said, Some(LevelStatus::Merged { .. })) || !empty || self.model.is_last(level) {
                return;
            }
            self.model.merged_empty(level);
        }
    }

    /// Checks that the effect which the live process begins is the one decided.
    pub fn begun(&mut self, id: EffectId, effect: &Effect) {
        let decided = self.decided.pop_front();
        assert_eq!(decided.as_ref().map(|(id, effect)| (*id, effect)), Some((id, effect)), "live is not replay");
    }

    /// Checks the time that the live process waits for.
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

    /// Replays the journal; checks that it gives the same run.
    pub fn replayed(&self) -> Run {
        let records = self.journal.iter().map(|(now, event)| (*now, event));
        let run = replay(records).expect("the journal can be read").expect("the journal is not empty");
        assert!(run == self.run, "replay is not live: {run:#?}\nshould be {:#?}", self.run);
        run
    }
}
