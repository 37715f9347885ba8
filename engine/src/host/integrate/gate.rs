//! Runs the gates and verifications on exactly the tree that would land.

use mahabharatha_core::ids::{Level, Oid};
use mahabharatha_core::run::event::{Candidate, GateFailure, GatePass, Obstacle};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::store::locks::IntegrationLock;

use super::command::{Check, Failed, Ran};
use super::prepare::{Prepared, Readied};
use super::worktree::{LockFiles, StagingWorktree};
use super::{Integration, Note, Outcome, Verification};
use crate::report::running_gate::BASE;

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
    /// Verifications to run after the gates.
    pub verify: &'a [Verification],
    /// Begin with a clean checkout: no ignored files but the declared caches.
    pub clean: bool,
}

impl GateCall<'_> {
    /// Whether the check has passed on this tree before.
    fn knows(&self, check: &Check, tree: &Oid) -> bool {
        let is_same = |pass: &GatePass| GatePass { clean: pass.clean, ..check.pass(tree, false) } == *pass;
        self.passed.iter().any(is_same)
    }

    /// Whether a failure of the check fails the level.
    fn requires(&self, check: &Check) -> bool {
        check.required && !self.ignore.contains(&check.name)
    }
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

/// How verifications went on a shared checkout.
enum Shared {
    /// None failed.
    Ended,
    Failed(Check, Failed),
    /// One changed files, perhaps those because of which another one failed, or passed in a checkout that must be clean.
    Unclear,
}

impl Integration {
    /// Runs the gates on the base commit and returns those that failed.
    pub fn check_base(&self, base: &Oid) -> Result<Outcome<Vec<GateFailure>>> {
        let mut red = Vec::new();
        if self.gates.is_empty() && self.prepare.is_none() && self.setup.is_none() {
            return Ok(Outcome::Done(red));
        }
        let worktree = StagingWorktree::open(self, base)?;
        let tree = self.tree_of(base)?;
        self.warm(&worktree, &tree)?;
        let tree = match self.prepare_tree(&worktree, &BASE, &tree)? {
            Prepared::Done(made) => made.tree,
            Prepared::Failed(check, failed) => {
                return Ok(Outcome::Done(vec![check.failure(failed, base)]));
            }
            Prepared::Cancelled => return Ok(Outcome::Cancelled),
        };
        match self.set_up(&worktree, &BASE, &tree)? {
            Readied::Ready => {}
            Readied::Failed(check, failed) => return Ok(Outcome::Done(vec![check.failure(failed, base)])),
            Readied::Cancelled => return Ok(Outcome::Cancelled),
        }
        for check in self.gates.iter().map(Check::from) {
            worktree.set_to(&tree)?;
            match self.run(&worktree, &BASE, &check)? {
                Ran::Cancelled => return Ok(Outcome::Cancelled),
                Ran::Failed(failed) if check.required => red.push(check.failure(failed, base)),
                Ran::Failed(failed) => {
                    (self.report)(Note::OnlyReported { level: None, failure: check.failure(failed, base) });
                }
                Ran::Passed => {}
            }
        }
        Ok(Outcome::Done(red))
    }

    /// Merges the base branch in if it has moved, runs `merge.prepare`, and runs the gates that have not passed on that
    /// tree.
    pub fn gate(&self, _lock: &IntegrationLock, call: GateCall) -> Result<Outcome<Gated>> {
        let outcome = match self.run_gates(call) {
            Err(_) if self.is_lost(call.staging)? => {
                return Ok(Outcome::Done(Gated::Blocked(Obstacle::StagingLost)));
            }
            outcome => outcome?,
        };
        if let Outcome::Done(Gated::Failed { failure, .. }) = &outcome {
            self.show_staging(&failure.staging)?;
        }
        Ok(outcome)
    }

    fn run_gates(&self, call: GateCall) -> Result<Outcome<Gated>> {
        let candidate = match self.candidate(call)? {
            Ok(candidate) => candidate,
            Err(obstacle) => return Ok(Outcome::Done(Gated::Blocked(obstacle))),
        };
        let mut passed = Vec::new();
        let checks: Vec<Check> =
            self.gates.iter().map(Check::from).chain(call.verify.iter().map(Check::from)).collect();
        let (gates, verifications) = checks.split_at(self.gates.len());
        if checks.is_empty() && self.prepare.is_none() && self.setup.is_none() {
            return Ok(Outcome::Done(Gated::Passed { candidate, passed }));
        }
        let worktree = StagingWorktree::open(self, &candidate.staging)?;
        let candidate = match self.prepare_candidate(&worktree, call, candidate)? {
            Ok(candidate) => candidate,
            Err(outcome) => return Ok(outcome),
        };
        let is_due = |check: &Check| call.requires(check) && !call.knows(check, &candidate.tree);
        let call = match call.clean && checks.iter().any(is_due) {
            // A gate may need the output of one before it, which a clean checkout has only if that one runs too.
            true => GateCall { passed: &[], ..call },
            false => call,
        };
        if let Some(outcome) = self.run_each(&worktree, call, &candidate, gates, &mut passed)? {
            return Ok(outcome);
        }
        match self.verify_on_one_checkout(&worktree, call, &candidate.tree, verifications, &mut passed)? {
            Shared::Failed(check, failed) => return self.failed(call, &candidate, &check, failed, passed),
            // What they left behind could make a repetition pass.
            Shared::Unclear if call.clean => return self.start_over(&worktree, call, candidate, &checks),
            Shared::Unclear | Shared::Ended => {}
        }
        let outcome = self.run_each(&worktree, call, &candidate, verifications, &mut passed)?;
        Ok(outcome.unwrap_or(Outcome::Done(Gated::Passed { candidate, passed })))
    }

    /// Runs all checks once more, from a clean checkout on, each on exactly the candidate's files.
    fn start_over(
        &self,
        worktree: &StagingWorktree,
        call: GateCall,
        candidate: Candidate,
        checks: &[Check],
    ) -> Result<Outcome<Gated>> {
        let candidate = match self.prepare_candidate(worktree, call, candidate)? {
            Ok(candidate) => candidate,
            Err(outcome) => return Ok(outcome),
        };
        let mut passed = Vec::new();
        let outcome = self.run_each(worktree, call, &candidate, checks, &mut passed)?;
        Ok(outcome.unwrap_or(Outcome::Done(Gated::Passed { candidate, passed })))
    }

    /// Cleans the checkout if asked to, runs `merge.prepare`, commits the lock files that it changed, and runs
    /// `worktrees.setup` if it is due. Returns the outcome if one fails or is cancelled.
    fn prepare_candidate(
        &self,
        worktree: &StagingWorktree,
        call: GateCall,
        candidate: Candidate,
    ) -> Result<Result<Candidate, Outcome<Gated>>> {
        if call.clean {
            worktree.set_to_clean(&candidate.tree)?;
        } else {
            self.warm(worktree, &candidate.tree)?;
        }
        Ok(match self.prepare_tree(worktree, &call.level, &candidate.tree)? {
            Prepared::Done(LockFiles { tree, left_out, deleted }) => {
                if !left_out.is_empty() {
                    (self.report)(Note::LockFilesLeftOut { level: call.level, files: left_out });
                }
                if !deleted.is_empty() {
                    (self.report)(Note::LockFilesDeleted { level: call.level, files: deleted });
                }
                let candidate = self.commit_lock_files(call.level, candidate, tree)?;
                self.set_up_candidate(worktree, call, candidate)?
            }
            Prepared::Failed(check, failed) if call.ignore.contains(&check.name) => {
                self.only_report(call, &candidate, &check, failed);
                self.set_up_candidate(worktree, call, candidate)?
            }
            Prepared::Failed(check, failed) => Err(self.failed(call, &candidate, &check, failed, Vec::new())?),
            Prepared::Cancelled => Err(Outcome::Cancelled),
        })
    }

    /// Copies what the configuration names from the main checkout, if that is still to be done.
    fn warm(&self, worktree: &StagingWorktree, tree: &Oid) -> Result<()> {
        if self.warm.is_some() {
            worktree.set_to(tree)?;
            worktree.warm()?;
        }
        Ok(())
    }

    /// Runs `worktrees.setup` on the candidate if it is due. Returns the outcome if it fails or is cancelled.
    fn set_up_candidate(
        &self,
        worktree: &StagingWorktree,
        call: GateCall,
        candidate: Candidate,
    ) -> Result<Result<Candidate, Outcome<Gated>>> {
        Ok(match self.set_up(worktree, &call.level, &candidate.tree)? {
            Readied::Ready => Ok(candidate),
            Readied::Failed(check, failed) => Err(self.failed(call, &candidate, &check, failed, Vec::new())?),
            Readied::Cancelled => Err(Outcome::Cancelled),
        })
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
        for check in checks {
            let pass = check.pass(&candidate.tree, call.clean);
            if call.knows(check, &candidate.tree) || passed.contains(&pass) {
                continue;
            }
            worktree.set_to(&candidate.tree)?;
            match self.run(worktree, &call.level, check)? {
                Ran::Cancelled => return Ok(Some(Outcome::Cancelled)),
                Ran::Passed => passed.push(pass),
                Ran::Failed(failed) if call.requires(check) => {
                    return self.failed(call, candidate, check, failed, std::mem::take(passed)).map(Some);
                }
                Ran::Failed(failed) => self.only_report(call, candidate, check, failed),
            }
        }
        Ok(None)
    }

    /// Reports a failure that blocks nothing.
    fn only_report(&self, call: GateCall, candidate: &Candidate, check: &Check, failed: Failed) {
        let failure = GateFailure { clean: call.clean, ..check.failure(failed, &candidate.staging) };
        (self.report)(Note::OnlyReported { level: Some(call.level), failure });
    }

    /// Returns the failure with the commit that the fix starts from. If the base branch has moved, first merges it into
    /// staging, so that the fix is made on the tree that failed.
    fn failed(
        &self,
        call: GateCall,
        candidate: &Candidate,
        check: &Check,
        failed: Failed,
        passed: Vec<GatePass>,
    ) -> Result<Outcome<Gated>> {
        let (level, Candidate { base, staging, tree }) = (call.level, candidate);
        let mut merged = staging.clone();
        if base != call.base && !self.repository.is_ancestor(base, staging)? {
            let message =
                format!("Merge {} into level {level}\n\n{}", short_branch(&self.base_branch), self.trailers(level));
            merged = self.objects.commit_tree(tree, &[staging.clone(), base.clone()], &message, &self.identity)?;
            self.repository.update_ref(&self.paths.staging_branch(), &merged, Some(staging))?;
        }
        let failure = GateFailure { clean: call.clean, ..check.failure(failed, &merged) };
        Ok(Outcome::Done(Gated::Failed { failure, passed }))
    }

    /// Runs verifications on one shared checkout, which is much faster than one checkout each. Results count only if
    /// the files are unchanged at the end; `run_each` runs the rest on fresh checkouts.
    fn verify_on_one_checkout(
        &self,
        worktree: &StagingWorktree,
        call: GateCall,
        tree: &Oid,
        checks: &[Check],
        passed: &mut Vec<GatePass>,
    ) -> Result<Shared> {
        if checks.len() < 2 {
            return Ok(Shared::Ended);
        }
        worktree.set_to(tree)?;
        let known = passed.len();
        let mut failed = None;
        for check in checks.iter().filter(|check| !call.knows(check, tree)) {
            match self.run(worktree, &call.level, check)? {
                Ran::Passed => passed.push(check.pass(tree, call.clean)),
                Ran::Failed(found) => failed = Some((check.clone(), found)),
                Ran::Cancelled => return Ok(Shared::Ended),
            }
            if failed.is_some() {
                break;
            }
        }
        let unchanged = worktree.is_clean()?;
        if !unchanged {
            passed.truncate(known);
        }
        Ok(match failed {
            Some((check, failed)) if unchanged => Shared::Failed(check, failed),
            None if unchanged || !call.clean => Shared::Ended,
            _ => Shared::Unclear,
        })
    }
}
