//! A feature's part of the simulated repository: staging, gates, and what is wrong with the code.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use mahabharatha_core::ids::{Level, Oid, TaskId};
use mahabharatha_core::run::effect::Job;
use mahabharatha_core::run::event::{Candidate, Event, GateFailure, GatePass, Obstacle, TaskCommit};
use mahabharatha_core::run::{Effect, EffectId};

use crate::faults::{Fault, Faults};
use crate::invariants::check_content;
use crate::model::Model;
use crate::rng::{Rng, oid};
use crate::trunk::SharedTrunk;

const GATES: [(&str, &str); 2] = [("lint", "run lint"), ("test", "run test")];

#[derive(Debug)]
pub struct Repo {
    /// Number of the feature.
    pub feature: usize,
    pub trunk: SharedTrunk,
    pub conflict: bool,
    /// Whether a gate fails regardless of the code.
    pub gate_broken: bool,
    stagings: BTreeMap<Oid, Staging>,
    /// What each task's commit was built on: a commit of the base branch, and other tasks' commits.
    built: BTreeMap<Oid, (Oid, Vec<TaskCommit>)>,
    /// Commits that make a gate fail, with the gate.
    bad: BTreeMap<Oid, &'static str>,
    /// Commits of fixes that make the gates pass again.
    fixing: BTreeSet<Oid>,
    passes: BTreeSet<GatePass>,
    candidates: BTreeSet<(Oid, Oid, Oid)>,
    landed: BTreeMap<Level, (Candidate, Oid)>,
    /// Commits of tasks and fixes that cannot be read any more.
    lost: BTreeSet<Oid>,
}

/// Content of a staging tip.
#[derive(Debug, Clone)]
struct Staging {
    level: Level,
    /// Staged commits, and the fixes since.
    commits: Vec<TaskCommit>,
    /// The tip of the base branch that it contains.
    base: Oid,
}

/// What the gates of a level are run on, and which of them.
struct Gating<'a> {
    content: &'a Staging,
    staging: &'a Oid,
    tree: Oid,
    known: &'a [GatePass],
    ignore: &'a [String],
    verify: &'a [TaskId],
    clean: bool,
}

impl Repo {
    pub fn new(feature: usize, trunk: SharedTrunk) -> Repo {
        Repo {
            feature,
            trunk,
            conflict: false,
            gate_broken: false,
            stagings: BTreeMap::new(),
            built: BTreeMap::new(),
            bad: BTreeMap::new(),
            fixing: BTreeSet::new(),
            passes: BTreeSet::new(),
            candidates: BTreeSet::new(),
            landed: BTreeMap::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Makes a verified commit of a task, on its base or on top of staging.
    pub fn commit(&mut self, job: &Job, fix: bool, fixes: bool, bad: Option<usize>) -> Oid {
        let commit = oid(&format!("commit {} {} {} {}", self.feature, job.task, job.attempt, job.base));
        let is_known = |of: &TaskCommit| self.built.contains_key(&of.commit) || self.stagings.contains_key(&of.commit);
        assert!(job.on.iter().all(is_known), "{} starts from an unknown commit", job.task);
        if fix {
            let mut staging = self.stagings.get(&job.base).expect("a fix starts from staging").clone();
            staging.commits.push(TaskCommit { task: job.task.clone(), commit: commit.clone() });
            self.stagings.insert(commit.clone(), staging);
            if fixes {
                self.fixing.insert(commit.clone());
            }
        } else {
            let trunk = self.trunk.borrow();
            assert!(trunk.contains(&job.base), "{} starts from what is not on the base branch", job.task);
            if let Some(gate) = bad {
                self.bad.insert(commit.clone(), GATES[gate].0);
            }
            self.built.insert(commit.clone(), (job.base.clone(), job.on.clone()));
        }
        commit
    }

    pub fn fix_everything(&mut self) {
        self.bad.clear();
        self.gate_broken = false;
        self.put_right();
    }

    pub fn put_right(&mut self) {
        self.conflict = false;
        self.trunk.borrow_mut().put_right();
    }

    pub fn red_gates(&self) -> Vec<GateFailure> {
        let trunk = self.trunk.borrow();
        let failure = |(gate, command): (&str, &str)| GateFailure {
            gate: gate.to_string(),
            command: command.to_string(),
            output: "red".to_string(),
            cause: None,
            denied: false,
            staging: trunk.tip().clone(),
            task: None,
            clean: false,
        };
        if trunk.red { vec![failure(GATES[1])] } else { Vec::new() }
    }

    /// Stages the tasks' commits, unless one of them is lost.
    pub fn stage(
        &mut self,
        level: Level,
        base: &Oid,
        tasks: &[TaskCommit],
        faults: &mut Faults,
        rng: &mut Rng,
    ) -> Result<(Oid, Vec<TaskCommit>), Obstacle> {
        if faults.strikes(Fault::ObjectsLost, rng) {
            self.lost.extend(rng.pick(tasks).map(|of| of.commit.clone()));
        }
        let is_lost = |of: &&TaskCommit| self.lost.contains(&of.commit);
        let lost: Vec<TaskId> = tasks.iter().filter(is_lost).map(|of| of.task.clone()).collect();
        if !lost.is_empty() {
            return Err(Obstacle::WorkLost { tasks: lost });
        }
        let early: Vec<&TaskCommit> = tasks.iter().filter(|of| self.is_early(of, base)).collect();
        if !early.is_empty() && faults.strikes(Fault::FilesOutdated, rng) {
            let outdated = rng.pick(&early).map(|of| of.task.clone());
            return Err(Obstacle::Outdated { tasks: outdated.into_iter().collect() });
        }
        let commits: Vec<TaskCommit> = tasks
            .iter()
            .map(|of| TaskCommit { task: of.task.clone(), commit: oid(&format!("staged {} {base}", of.commit)) })
            .collect();
        let staging = if tasks.is_empty() { base.clone() } else { oid(&format!("staging {base} {commits:?}")) };
        let content = Staging { level, commits: tasks.to_vec(), base: base.clone() };
        self.stagings.insert(staging.clone(), content);
        Ok((staging, commits))
    }

    /// Whether this is a task's own commit and was not built on exactly this base.
    fn is_early(&self, of: &TaskCommit, base: &Oid) -> bool {
        self.built.get(&of.commit).is_some_and(|(built_on, others)| built_on != base || !others.is_empty())
    }

    /// Runs the gates on staging, with the base branch merged in.
    pub fn gate(&mut self, id: EffectId, effect: &Effect, faults: &mut Faults, rng: &mut Rng) -> Event {
        let Effect::Gate { level, base, staging, passed, verify, clean, ignore } = effect else {
            unreachable!("only gates come here")
        };
        let (level, trunk) = (*level, Rc::clone(&self.trunk));
        let mut trunk = trunk.borrow_mut();
        if faults.strikes(Fault::BaseMoves, rng) {
            trunk.move_on();
        }
        trunk.rewritten |= faults.strikes(Fault::BaseRewritten, rng);
        if trunk.rewritten {
            let obstacle = Obstacle::BaseRewritten { was: base.clone(), now: Some(trunk.tip().clone()) };
            return Event::NotLanded { effect: id, level, obstacle };
        }
        if faults.strikes(Fault::ObjectsLost, rng) {
            return Event::NotLanded { effect: id, level, obstacle: Obstacle::StagingLost };
        }
        let mut content = self.stagings.get(staging).expect("only what was staged is gated").clone();
        assert_eq!(content.level, level, "another level's staging is gated");
        let mut staging = staging.clone();
        let mut merged = staging.clone();
        if content.base != *trunk.tip() {
            self.conflict |= faults.strikes(Fault::Conflict, rng);
            if self.conflict {
                let obstacle = Obstacle::Conflict { files: vec!["src/a.rs".into()], worktree: "staging".into() };
                return Event::NotLanded { effect: id, level, obstacle };
            }
            content.base = trunk.tip().clone();
            merged = oid(&format!("merge {} into {staging}", trunk.tip()));
            if content.commits.is_empty() {
                (staging, merged) = (trunk.tip().clone(), trunk.tip().clone());
            }
        }
        self.gate_broken |= faults.strikes(Fault::GateBreaks, rng);
        let tree = oid(&format!("tree of {merged}"));
        let gating =
            Gating { content: &content, staging: &staging, tree, known: passed, ignore, verify, clean: *clean };
        let event = self.run_gates(id, &gating, faults, rng);
        let Event::GateFailed { mut failure, passed, .. } = event else {
            self.stagings.entry(staging).or_insert(content);
            return event;
        };
        // The fix starts from the tree that failed, with the base branch merged in.
        failure.staging = merged.clone();
        self.stagings.insert(merged, content);
        Event::GateFailed { effect: id, level, failure, passed }
    }

    fn run_gates(&mut self, id: EffectId, gating: &Gating<'_>, faults: &mut Faults, rng: &mut Rng) -> Event {
        let &Gating { content, staging, ref tree, known, ignore, verify, clean } = gating;
        let level = content.level;
        let mut passed = Vec::new();
        let failure = |gate: &str, command: &str, task| GateFailure {
            gate: gate.to_string(),
            command: command.to_string(),
            output: format!("{gate} is red"),
            cause: None,
            denied: false,
            staging: staging.clone(),
            task,
            clean,
        };
        for (gate, command) in GATES {
            let pass = GatePass { command: command.to_string(), tree: tree.clone(), task: None, clean };
            if ignore.iter().any(|ignored| ignored == gate) {
                continue;
            }
            if let Some(known) = known.iter().find(|known| (&known.command, &known.tree) == (&pass.command, tree)) {
                assert!(self.passes.contains(known), "{known:?} never happened");
                continue;
            }
            let bad = content.commits.iter().any(|of| self.bad.get(&of.commit) == Some(&gate));
            let fixed = content.commits.iter().any(|of| self.fixing.contains(&of.commit));
            if bad && !fixed || self.gate_broken {
                return Event::GateFailed { effect: id, level, failure: failure(gate, command, None), passed };
            }
            self.passes.insert(pass.clone());
            passed.push(pass);
        }
        let failing = if faults.strikes(Fault::VerificationFails, rng) { rng.pick(verify) } else { None };
        for task in verify {
            let pass = GatePass { command: "true".to_string(), tree: tree.clone(), task: Some(task.clone()), clean };
            if failing == Some(task) {
                let failure = failure("verification", "true", Some(task.clone()));
                return Event::GateFailed { effect: id, level, failure, passed };
            }
            if !known.contains(&pass) {
                self.passes.insert(pass.clone());
                passed.push(pass);
            }
        }
        let candidate = Candidate { base: content.base.clone(), staging: staging.clone(), tree: tree.clone() };
        self.candidates.insert(key(&candidate));
        Event::GatesPassed { effect: id, level, candidate, passed }
    }

    pub fn blame(&self, failure: &GateFailure, faults: &mut Faults, rng: &mut Rng) -> Option<TaskId> {
        let content = &self.stagings[&failure.staging];
        let of_gate = |of: &&TaskCommit| self.bad.get(&of.commit).is_some_and(|gate| *gate == failure.gate);
        let mut task = content.commits.iter().find(of_gate).map(|of| of.task.clone());
        if faults.strikes(Fault::WrongBlame, rng) {
            task = rng.pick(&content.commits).map(|of| of.task.clone());
        }
        task
    }

    pub fn land(
        &mut self,
        level: Level,
        candidate: &Candidate,
        model: &Model,
        faults: &mut Faults,
        rng: &mut Rng,
    ) -> Result<Oid, Obstacle> {
        assert!(self.candidates.contains(&key(candidate)), "{candidate:?} never passed the gates");
        assert!(!self.landed.contains_key(&level), "level {level} lands a second time");
        let content = &self.stagings[&candidate.staging];
        assert_eq!(content.level, level, "another level's work lands");
        let mut trunk = self.trunk.borrow_mut();
        if faults.strikes(Fault::BaseMoves, rng) {
            trunk.move_on();
        }
        trunk.rewritten |= faults.strikes(Fault::BaseRewritten, rng);
        trunk.checkout_in_the_way |= faults.strikes(Fault::CheckoutInTheWay, rng);
        let obstacle = if trunk.rewritten {
            Obstacle::BaseRewritten { was: candidate.base.clone(), now: None }
        } else if *trunk.tip() != candidate.base {
            Obstacle::BaseMoved
        } else if trunk.checkout_in_the_way {
            let why = "local changes".to_string();
            Obstacle::CheckoutInTheWay { files: vec!["src/a.rs".into()], worktree: ".".into(), why }
        } else {
            check_content(model, level, candidate, &content.commits);
            self.check_verified(level, candidate, &content.commits, model);
            assert!(self.landed.keys().all(|landed| *landed < level), "level {level} lands after a higher one");
            let commit = oid(&format!("level {level} {candidate:?}"));
            trunk.land(self.feature, commit.clone(), &candidate.base);
            self.landed.insert(level, (candidate.clone(), commit.clone()));
            return Ok(commit);
        };
        Err(obstacle)
    }

    /// Checks that everything that was not built on what the level below became was verified on the tree that lands.
    fn check_verified(&self, level: Level, candidate: &Candidate, content: &[TaskCommit], model: &Model) {
        let base = model.base_of(level);
        for TaskCommit { task, .. } in content.iter().filter(|of| self.is_early(of, &base)) {
            let is_it = |pass: &&GatePass| pass.tree == candidate.tree && pass.task.as_ref() == Some(task);
            assert!(self.passes.iter().any(|pass| is_it(&pass)), "{task} was never verified on what lands");
        }
    }

    /// Returns the merge commit if this candidate has landed already.
    pub fn landed(&self, level: Level, candidate: &Candidate) -> Option<Oid> {
        let (landed, commit) = self.landed.get(&level)?;
        (landed == candidate).then(|| commit.clone())
    }

    /// Checks that the base branch holds every level with exactly the work that the model says is done.
    pub fn check_complete(&self, model: &Model) {
        for entry in &model.levels {
            let expected = crate::invariants::verified_commits(model, entry.level);
            match self.landed.get(&entry.level) {
                Some((candidate, commit)) => {
                    assert_eq!(
                        entry.merged.as_ref(),
                        Some(commit),
                        "level {} is said to be another commit",
                        entry.level
                    );
                    check_content(model, entry.level, candidate, &self.stagings[&candidate.staging].commits);
                    assert!(self.trunk.borrow().contains(commit), "level {} is not on the base branch", entry.level);
                }
                None => assert_eq!(expected, [], "level {} never landed", entry.level),
            }
        }
    }
}

fn key(candidate: &Candidate) -> (Oid, Oid, Oid) {
    (candidate.base.clone(), candidate.staging.clone(), candidate.tree.clone())
}
