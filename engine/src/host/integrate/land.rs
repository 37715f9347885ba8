//! The last step: the base branch gets the level as one merge commit.

use mahabharatha_core::config::MergeTarget;
use mahabharatha_core::ids::{Level, Oid};
use mahabharatha_core::run::event::{Candidate, Obstacle};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{GitError, RefChange};
use mahabharatha_sys::store::locks::IntegrationLock;

use super::Integration;

impl Integration {
    /// Returns the commit that the level landed as, or why it did not.
    pub fn land(&self, _lock: &IntegrationLock, level: Level, candidate: &Candidate) -> Result<Result<Oid, Obstacle>> {
        match self.target {
            MergeTarget::Base => self.land_on_base(level, candidate),
            MergeTarget::Staging => self.land_on_staging(level, candidate),
        }
    }

    fn land_on_base(&self, level: Level, candidate: &Candidate) -> Result<Result<Oid, Obstacle>> {
        if let Some(landed) = self.not_as_gated(level, candidate)? {
            if let Ok(Some(checkout)) = self.checkout_of_base()? {
                checkout.clear()?;
            }
            return Ok(landed);
        }
        let Some(commit) = self.level_commit(level, candidate)? else { return Ok(Ok(candidate.base.clone())) };
        crash::point(|| format!("land {level} with a commit"));
        let (from, reason) = (&candidate.base, format!("Level {level}: {}", self.paths.feature()));
        let checkout = match self.checkout_of_base()? {
            Ok(checkout) => checkout,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let Some(checkout) = checkout else {
            return match self.move_ref(&self.base_branch, from, &commit, &reason) {
                Ok(()) => Ok(Ok(commit)),
                // Somebody was quicker: that shows, and is not a failure.
                Err(error) => self.not_as_gated(level, candidate)?.ok_or_else(|| error.into()),
            };
        };
        let lock = match checkout.lock()? {
            Ok(lock) => lock,
            Err(in_the_way) => return Ok(Err(in_the_way)),
        };
        crash::point(|| format!("land {level} with the index locked"));
        // Up to now a person could commit.
        if let Some(landed) = self.not_as_gated(level, candidate)? {
            return Ok(landed);
        }
        if let Err(in_the_way) = checkout.advance(&lock, from, &commit)? {
            return Ok(Err(in_the_way));
        }
        crash::point(|| format!("land {level} with the checkout moved"));
        match self.move_ref(&self.base_branch, from, &commit, &reason) {
            Ok(()) => {
                crash::point(|| format!("land {level} with the branch moved"));
                Ok(Ok(commit))
            }
            Err(error) => {
                // A commit that was under way may have taken what we put into the index: then it is theirs, and stays.
                let tip = self.repository.resolve_ref(&self.base_branch)?;
                if tip.is_none_or(|tip| checkout.retreat(&lock, &commit, &tip).is_err()) {
                    checkout.retreat(&lock, &commit, from)?;
                }
                self.not_as_gated(level, candidate)?.ok_or_else(|| error.into())
            }
        }
    }

    /// Whether the base is no longer what was gated: it may have the level already, or have moved.
    fn not_as_gated(&self, level: Level, candidate: &Candidate) -> Result<Option<Result<Oid, Obstacle>>> {
        let Some(tip) = self.repository.resolve_ref(&self.base_branch)? else {
            return Ok(Some(Err(Obstacle::BaseRewritten { was: candidate.base.clone(), now: None })));
        };
        if tip == candidate.base {
            return Ok(None);
        }
        if let Some(commit) = self.find_landed(level, candidate, &tip)? {
            return Ok(Some(Ok(commit)));
        }
        Ok(Some(Err(match self.current_base(&candidate.base)? {
            Ok(_) => Obstacle::BaseMoved,
            Err(rewritten) => rewritten,
        })))
    }

    /// The commit that an earlier try made, if it was that.
    fn find_landed(&self, level: Level, candidate: &Candidate, tip: &Oid) -> Result<Option<Oid>> {
        let range = format!("{}..{tip}", candidate.base);
        let listed = self.repository.run(["rev-list", "--parents", "--min-parents=2", &range])?.text()?;
        for line in listed.lines() {
            let names: Vec<Oid> = line.split(' ').filter_map(|name| Oid::new(name).ok()).collect();
            if let [commit, _, second, ..] = &names[..]
                && *second == candidate.staging
            {
                let text = self.objects.read_commits(std::slice::from_ref(commit))?;
                let trailers = self.trailers(level).into_bytes();
                if text.iter().any(|text| text.message.ends_with(&trailers)) {
                    return Ok(Some(commit.clone()));
                }
            }
        }
        Ok(None)
    }

    /// None where the level brings nothing.
    fn level_commit(&self, level: Level, candidate: &Candidate) -> Result<Option<Oid>> {
        if candidate.base == candidate.staging {
            return Ok(None);
        }
        let message = format!("Level {level}: {}\n\n{}", self.paths.feature(), self.trailers(level));
        let parents = [candidate.base.clone(), candidate.staging.clone()];
        Ok(Some(self.objects.commit_tree(&candidate.tree, &parents, &message, &self.identity)?))
    }

    fn move_ref(&self, name: &str, from: &Oid, to: &Oid, reason: &str) -> Result<(), GitError> {
        let swap = RefChange::Swap { name: name.into(), new: to.clone(), old: Some(from.clone()) };
        self.repository.update_refs(&[swap], reason)
    }

    fn land_on_staging(&self, level: Level, candidate: &Candidate) -> Result<Result<Oid, Obstacle>> {
        let branch = self.paths.staging_branch();
        let tip = self.repository.resolve_ref(&branch)?;
        if let Some(tip) = tip.as_ref().filter(|tip| **tip != candidate.staging) {
            // A person's commits on top have to be gated first.
            return Ok(self.find_landed(level, candidate, tip)?.ok_or(Obstacle::BaseMoved));
        }
        let Some(commit) = self.level_commit(level, candidate)? else { return Ok(Ok(candidate.base.clone())) };
        match tip {
            Some(tip) => self.move_ref(&branch, &tip, &commit, &format!("Level {level}"))?,
            None => self.repository.update_ref(&branch, &commit, None)?,
        }
        Ok(Ok(commit))
    }
}
