//! The gates, on the tree that is to land.

use mahabharatha_core::config::MergeTarget;
use mahabharatha_core::ids::{Level, Oid};
use mahabharatha_core::run::event::{Candidate, GateFailure, GatePass, Obstacle};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{Merged, RefChange, RepoPath};
use mahabharatha_sys::store::locks::IntegrationLock;

use super::command::{Check, Ran};
use super::prepare::Prepared;
use super::worktree::{StagingWorktree, short_name};
use super::{Integration, Note, Outcome, Verification, missing};

/// What is to be gated.
#[derive(Debug, Clone, Copy)]
pub struct GateCall<'a> {
    pub level: Level,
    /// What the level was staged on.
    pub base: &'a Oid,
    pub staging: &'a Oid,
    /// Not run again on the same tree.
    pub passed: &'a [GatePass],
    /// Gates that were red on the base: their failure is reported and nothing more.
    pub ignore: &'a [String],
    /// Run after the gates, each distinct command once.
    pub verify: &'a [Verification],
}

/// What came of gating a level.
#[derive(Debug, PartialEq)]
pub enum Gated {
    Passed {
        candidate: Candidate,
        passed: Vec<GatePass>,
    },
    Failed {
        failure: GateFailure,
        /// What passed before.
        passed: Vec<GatePass>,
    },
    /// The base branch is in the way.
    Blocked(Obstacle),
}

impl Integration {
    /// Runs the gates on the base's own tree; returns those that failed.
    pub fn check_base(&self, base: &Oid) -> Result<Outcome<Vec<GateFailure>>> {
        let mut red = Vec::new();
        if self.gates.is_empty() && self.prepare.is_none() {
            return Ok(Outcome::Done(red));
        }
        let worktree = StagingWorktree::open(self, base)?;
        let tree = match self.prepare_tree(&worktree, &"base", &self.tree_of(base)?)? {
            Prepared::Tree(tree) => tree,
            Prepared::Failed(check, output) => {
                return Ok(Outcome::Done(vec![check.failure(output, base)]));
            }
            Prepared::Cancelled => return Ok(Outcome::Cancelled),
        };
        for check in self.gates.iter().map(Check::from) {
            worktree.set_to(&tree)?;
            match self.run(&worktree, &"base", &check)? {
                Ran::Cancelled => return Ok(Outcome::Cancelled),
                Ran::Failed(output) if check.required => red.push(check.failure(output, base)),
                Ran::Failed(output) => {
                    (self.report)(Note::OnlyReported { level: None, failure: check.failure(output, base) });
                }
                Ran::Passed => {}
            }
        }
        Ok(Outcome::Done(red))
    }

    /// Merges a moved base in, prepares, and runs what has not passed on that tree.
    pub fn gate(&self, _lock: &IntegrationLock, call: GateCall) -> Result<Outcome<Gated>> {
        let outcome = self.run_gates(call)?;
        if let Outcome::Done(Gated::Failed { failure, .. }) = &outcome {
            self.show_staging(&failure.staging)?;
        }
        Ok(outcome)
    }

    fn run_gates(&self, call: GateCall) -> Result<Outcome<Gated>> {
        let level = call.level;
        let candidate = match self.candidate(call)? {
            Ok(candidate) => candidate,
            Err(obstacle) => return Ok(Outcome::Done(Gated::Blocked(obstacle))),
        };
        let mut passed = Vec::new();
        let gates: Vec<Check> = self.gates.iter().map(Check::from).collect();
        let verifications: Vec<Check> = call.verify.iter().map(Check::from).collect();
        if gates.is_empty() && verifications.is_empty() && self.prepare.is_none() {
            return Ok(Outcome::Done(Gated::Passed { candidate, passed }));
        }
        let worktree = StagingWorktree::open(self, &candidate.staging)?;
        let candidate = match self.prepare_tree(&worktree, &level, &candidate.tree)? {
            Prepared::Tree(tree) => self.commit_lock_files(level, candidate, tree)?,
            Prepared::Failed(check, output) if call.ignore.contains(&check.name) => {
                let failure = check.failure(output, &candidate.staging);
                (self.report)(Note::OnlyReported { level: Some(level), failure });
                candidate
            }
            Prepared::Failed(check, output) => return self.failed(call, &candidate, &check, output, passed),
            Prepared::Cancelled => return Ok(Outcome::Cancelled),
        };
        if let Some(outcome) = self.run_each(&worktree, call, &candidate, &gates, &mut passed)? {
            return Ok(outcome);
        }
        self.verify_in_a_row(&worktree, call, &candidate.tree, &verifications, &mut passed)?;
        if let Some(outcome) = self.run_each(&worktree, call, &candidate, &verifications, &mut passed)? {
            return Ok(outcome);
        }
        Ok(Outcome::Done(Gated::Passed { candidate, passed }))
    }

    /// Runs what has not passed, each on a checkout of its own; how the gating ends, if it ends here.
    fn run_each(
        &self,
        worktree: &StagingWorktree,
        call: GateCall,
        candidate: &Candidate,
        checks: &[Check],
        passed: &mut Vec<GatePass>,
    ) -> Result<Option<Outcome<Gated>>> {
        let level = call.level;
        for check in checks {
            let pass = GatePass { command: check.command.clone(), tree: candidate.tree.clone() };
            if call.passed.contains(&pass) || passed.contains(&pass) {
                continue;
            }
            worktree.set_to(&candidate.tree)?;
            match self.run(worktree, &level, check)? {
                Ran::Cancelled => return Ok(Some(Outcome::Cancelled)),
                Ran::Passed => passed.push(pass),
                Ran::Failed(output) if check.required && !call.ignore.contains(&check.name) => {
                    return self.failed(call, candidate, check, output, std::mem::take(passed)).map(Some);
                }
                Ran::Failed(output) => {
                    let failure = check.failure(output, &candidate.staging);
                    (self.report)(Note::OnlyReported { level: Some(level), failure });
                }
            }
        }
        Ok(None)
    }

    /// Who is to fix it gets what failed before him: where the base branch has gained something, staging with that.
    fn failed(
        &self,
        call: GateCall,
        candidate: &Candidate,
        check: &Check,
        output: String,
        passed: Vec<GatePass>,
    ) -> Result<Outcome<Gated>> {
        let (level, Candidate { base, staging, tree }) = (call.level, candidate);
        let mut merged = staging.clone();
        if base != call.base && !self.repository.is_ancestor(base, staging)? {
            let message =
                format!("Merge {} into level {level}\n\n{}", short_name(&self.base_branch), self.trailers(level));
            merged = self.objects.commit_tree(tree, &[staging.clone(), base.clone()], &message, &self.identity)?;
            self.repository.update_ref(&self.paths.staging_branch(), &merged, Some(staging))?;
        }
        let failure = check.failure(output, &merged);
        Ok(Outcome::Done(Gated::Failed { failure, passed }))
    }

    /// Verifications on one checkout, which is much faster than one for each. What passed before the first failure
    /// counts where the files are still as they were; all else is run again on a checkout of its own.
    fn verify_in_a_row(
        &self,
        worktree: &StagingWorktree,
        call: GateCall,
        tree: &Oid,
        checks: &[Check],
        passed: &mut Vec<GatePass>,
    ) -> Result<()> {
        if checks.len() < 2 {
            return Ok(());
        }
        worktree.set_to(tree)?;
        let known = passed.len();
        for check in checks {
            let pass = GatePass { command: check.command.clone(), tree: tree.clone() };
            if passed.contains(&pass) || call.passed.contains(&pass) {
                continue;
            }
            match self.run(worktree, &call.level, check)? {
                Ran::Passed => passed.push(pass),
                Ran::Failed(_) | Ran::Cancelled => break,
            }
        }
        if !worktree.is_clean()? {
            passed.truncate(known);
        }
        Ok(())
    }

    /// What would land now: staging as it stands, with whatever the base has gained.
    fn candidate(&self, call: GateCall) -> Result<Result<Candidate, Obstacle>> {
        let staging = self.current_staging(call.staging)?;
        self.tell_gained(call.level, &self.paths.staging_branch(), call.staging, &staging)?;
        let base = match self.target {
            MergeTarget::Staging => call.base.clone(),
            MergeTarget::Base => match self.current_base(call.base)? {
                Ok(tip) => tip,
                Err(obstacle) => return Ok(Err(obstacle)),
            },
        };
        if base == *call.base {
            let tree = self.tree_of(&staging)?;
            return Ok(Ok(Candidate { base, staging, tree }));
        }
        if let Some(left_behind) = self.checkout_left_behind(call.base, &base)? {
            return Ok(Err(left_behind));
        }
        self.tell_gained(call.level, &self.base_branch, call.base, &base)?;
        if self.repository.is_ancestor(&staging, &base)? {
            // The level brings nothing that the base branch has not.
            let tree = self.tree_of(&base)?;
            return Ok(Ok(Candidate { staging: base.clone(), base, tree }));
        }
        match self.merge_base_into(&staging, &base)? {
            Merged::Clean(tree) => Ok(Ok(Candidate { base, staging, tree })),
            Merged::Conflict { tree, stages } => {
                let worktree = StagingWorktree::open(self, &staging)?;
                if !worktree.is_being_merged(&staging) {
                    worktree.show_conflict(&staging, &base, &tree, &stages)?;
                }
                let mut files: Vec<&RepoPath> = stages.iter().map(|stage| &stage.path).collect();
                files.dedup();
                let files = files.into_iter().map(RepoPath::to_string).collect();
                Ok(Err(Obstacle::Conflict { files, worktree: worktree.path.display().to_string() }))
            }
        }
    }

    /// Says what lands with the level and was not made by the run. Who made it cannot be told from here.
    fn tell_gained(&self, level: Level, branch: &str, from: &Oid, to: &Oid) -> Result<()> {
        if from == to {
            return Ok(());
        }
        let range = format!("{from}..{to}");
        let log = ["log", "--first-parent", "--max-count=20", "--format=%h %s (%an)", &range];
        let commits = String::from_utf8_lossy(&self.repository.run(log)?.bytes).lines().map(str::to_owned).collect();
        (self.report)(Note::Gained { level, branch: short_name(branch).to_owned(), commits });
        Ok(())
    }

    /// Whoever commits in a checkout has what was committed in its index; who moves the branch alone has not.
    fn checkout_left_behind(&self, was: &Oid, now: &Oid) -> Result<Option<Obstacle>> {
        // What else is wrong with the checkout shows when the level lands.
        let Ok(Some(checkout)) = self.checkout_of_base()? else { return Ok(None) };
        if !checkout.is_left_behind(was, now)? {
            return Ok(None);
        }
        let (branch, worktree) = (short_name(&self.base_branch).to_owned(), checkout.place());
        Ok(Some(Obstacle::CheckoutLeftBehind { branch, worktree, was: was.clone(), now: now.clone() }))
    }

    pub(super) fn merge_base_into(&self, commit: &Oid, base: &Oid) -> Result<Merged> {
        let common = self.repository.merge_base(commit, base)?.ok_or_else(|| missing(base))?;
        Ok(self.objects.merge_trees(&common, commit, base, short_name(&self.base_branch))?)
    }

    /// The base branch's tip, which has to contain what was last seen on it.
    pub(super) fn current_base(&self, seen: &Oid) -> Result<Result<Oid, Obstacle>> {
        let now = self.repository.resolve_ref(&self.base_branch)?;
        match now {
            Some(tip) if tip == *seen || self.repository.is_ancestor(seen, &tip)? => Ok(Ok(tip)),
            now => Ok(Err(Obstacle::BaseRewritten { was: seen.clone(), now })),
        }
    }

    /// A person may have committed on top, to resolve a conflict: then that is staging.
    fn current_staging(&self, staged: &Oid) -> Result<Oid> {
        let name = self.paths.staging_branch();
        match self.repository.resolve_ref(&name)? {
            Some(tip) if tip == *staged || self.repository.is_ancestor(staged, &tip)? => Ok(tip),
            _ => {
                self.repository.update_refs(&[RefChange::Set { name, new: staged.clone() }], "as it was staged")?;
                Ok(staged.clone())
            }
        }
    }
}
