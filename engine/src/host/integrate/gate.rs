//! Runs the gates and verifications on exactly the tree that would land.

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

/// Arguments of `gate`.
#[derive(Debug, Clone, Copy)]
pub struct GateCall<'a> {
    pub level: Level,
    /// Commit that the level was staged on.
    pub base: &'a Oid,
    pub staging: &'a Oid,
    /// Earlier passes, which are not run again on the same tree.
    pub passed: &'a [GatePass],
    /// Gates that failed on the base already; their failure is only reported.
    pub ignore: &'a [String],
    /// Verifications to run after the gates, each distinct command once.
    pub verify: &'a [Verification],
}

/// Result of gating a level.
#[derive(Debug, PartialEq)]
pub enum Gated {
    Passed {
        candidate: Candidate,
        passed: Vec<GatePass>,
    },
    Failed {
        failure: GateFailure,
        /// Gates that passed before the failure.
        passed: Vec<GatePass>,
    },
    /// The base branch or its checkout keeps the level from landing.
    Blocked(Obstacle),
}

impl Integration {
    /// Runs the gates on the base commit and returns those that failed.
    pub fn check_base(&self, base: &Oid) -> Result<Outcome<Vec<GateFailure>>> {
        let mut red = Vec::new();
        if self.gates.is_empty() && self.prepare.is_none() {
            return Ok(Outcome::Done(red));
        }
        let worktree = StagingWorktree::open(self, base)?;
        let tree = match self.prepare_tree(&worktree, &"base", &self.tree_of(base)?)? {
            Prepared::Tree(tree, _) => tree,
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

    /// Merges the base branch in if it has moved, runs `merge.prepare`, and runs the gates that have not passed on that
    /// tree.
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
            Prepared::Tree(tree, left_out) => {
                if !left_out.is_empty() {
                    let files = left_out.iter().map(RepoPath::to_string).collect();
                    (self.report)(Note::LockFilesLeftOut { level, files });
                }
                self.commit_lock_files(level, candidate, tree)?
            }
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
        self.verify_on_one_checkout(&worktree, call, &candidate.tree, &verifications, &mut passed)?;
        if let Some(outcome) = self.run_each(&worktree, call, &candidate, &verifications, &mut passed)? {
            return Ok(outcome);
        }
        Ok(Outcome::Done(Gated::Passed { candidate, passed }))
    }

    /// Runs the checks that have not passed, each on a fresh checkout. Returns the outcome if one fails or is
    /// cancelled.
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

    /// Returns the failure with the commit that the fix starts from. If the base branch has moved, first merges it into
    /// staging, so that the fix is made on the tree that failed.
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

    /// Runs verifications on one shared checkout, which is much faster than one checkout each. Passes before the first
    /// failure count only if the files are unchanged at the end; `run_each` runs the rest on fresh checkouts.
    fn verify_on_one_checkout(
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

    /// Returns what would land now: the tip of staging merged with the current base branch.
    fn candidate(&self, call: GateCall) -> Result<Result<Candidate, Obstacle>> {
        let staging = self.current_staging(call.staging)?;
        self.report_gained(call.level, &self.paths.staging_branch(), call.staging, &staging)?;
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
        self.report_gained(call.level, &self.base_branch, call.base, &base)?;
        if self.repository.is_ancestor(&staging, &base)? {
            // The base branch already contains everything of the level.
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

    /// Reports commits that land with the level but were not made by the run, such as the user's.
    fn report_gained(&self, level: Level, branch: &str, from: &Oid, to: &Oid) -> Result<()> {
        if from == to {
            return Ok(());
        }
        let range = format!("{from}..{to}");
        let log = ["log", "--first-parent", "--max-count=20", "--format=%h %s (%an)", &range];
        let commits = String::from_utf8_lossy(&self.repository.run(log)?.bytes).lines().map(str::to_owned).collect();
        (self.report)(Note::Gained { level, branch: short_name(branch).to_owned(), commits });
        Ok(())
    }

    /// Returns an obstacle if the base branch was moved without its checkout. A commit made in the checkout is in its
    /// index; a branch moved from elsewhere leaves the index behind.
    fn checkout_left_behind(&self, was: &Oid, now: &Oid) -> Result<Option<Obstacle>> {
        // Landing reports any other problem of the checkout.
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

    /// Returns the tip of the base branch, or an obstacle if it no longer contains the commit last seen there.
    pub(super) fn current_base(&self, seen: &Oid) -> Result<Result<Oid, Obstacle>> {
        let now = self.repository.resolve_ref(&self.base_branch)?;
        match now {
            Some(tip) if tip == *seen || self.repository.is_ancestor(seen, &tip)? => Ok(Ok(tip)),
            now => Ok(Err(Obstacle::BaseRewritten { was: seen.clone(), now })),
        }
    }

    /// Returns the tip of staging, including commits that the user added on top, such as a conflict resolution. A
    /// branch that lost the staged commit is set back to it.
    fn current_staging(&self, staged: &Oid) -> Result<Oid> {
        let name = self.paths.staging_branch();
        match self.repository.resolve_ref(&name)? {
            Some(tip) if tip == *staged || self.repository.is_ancestor(staged, &tip)? => Ok(tip),
            _ => {
                if self.repository.is_symbolic(&name) {
                    (self.report)(Note::PutBack { name: name.clone() });
                }
                self.repository.update_refs(&[RefChange::Set { name, new: staged.clone() }], "as it was staged")?;
                Ok(staged.clone())
            }
        }
    }
}
