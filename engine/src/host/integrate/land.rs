//! Lands a level: adds it to the base branch, or to staging, as one merge commit.
//!
//! Never lands anything but the candidate that was gated, and never on a branch that has moved since.

use mahabharatha_core::config::MergeTarget;
use mahabharatha_core::ids::{Level, Oid};
use mahabharatha_core::run::event::{Candidate, Obstacle};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Result};
use mahabharatha_sys::git::{GitError, RefChange, RepoPath};
use mahabharatha_sys::store::locks::IntegrationLock;

use super::Integration;

impl Integration {
    /// Lands the level and returns its commit, or the obstacle.
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
        if let Some(forged) = self.forged(&candidate.base, &commit)? {
            return Ok(Err(forged));
        }
        crash::point(|| format!("land {level} with a commit"));
        let reason = format!("Level {level}: {}", self.paths.feature());
        match self.move_base(&candidate.base, &commit, &reason)? {
            Ok(()) => Ok(Ok(commit)),
            // Another process has moved the branch, perhaps by landing this level.
            Err(Obstacle::BaseMoved) => Ok(self.not_as_gated(level, candidate)?.unwrap_or(Err(Obstacle::BaseMoved))),
            Err(obstacle) => Ok(Err(obstacle)),
        }
    }

    /// Moves the base branch and the user's checkout of it forward from one commit to another, or neither of them.
    pub(super) fn move_base(&self, from: &Oid, to: &Oid, reason: &str) -> Result<Result<(), Obstacle>> {
        let checkout = match self.checkout_of_base()? {
            Ok(checkout) => checkout,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let has_moved = || Ok::<bool, Error>(self.repository.resolve_ref(&self.base_branch)?.as_ref() != Some(from));
        let Some(checkout) = checkout else {
            return match self.move_ref(&self.base_branch, from, to, reason) {
                Ok(()) => Ok(Ok(())),
                // If another process has moved the branch, that is an obstacle, not an error.
                Err(error) => {
                    if has_moved()? {
                        Ok(Err(Obstacle::BaseMoved))
                    } else {
                        Err(error.into())
                    }
                }
            };
        };
        let lock = match checkout.lock()? {
            Ok(lock) => lock,
            Err(in_the_way) => return Ok(Err(in_the_way)),
        };
        crash::point(|| format!("{reason} with the index locked"));
        // The user could commit until the index was locked, so check again.
        if has_moved()? {
            return Ok(Err(Obstacle::BaseMoved));
        }
        if let Err(in_the_way) = checkout.advance(&lock, from, to)? {
            return Ok(Err(in_the_way));
        }
        crash::point(|| format!("{reason} with the checkout moved"));
        match self.move_ref(&self.base_branch, from, to, reason) {
            Ok(()) => {
                crash::point(|| format!("{reason} with the branch moved"));
                Ok(Ok(()))
            }
            Err(error) => {
                // A concurrent `git commit` may have committed what we put into the index; that commit stays.
                let tip = self.repository.resolve_ref(&self.base_branch)?;
                if tip.as_ref().is_none_or(|tip| checkout.retreat(&lock, to, tip).is_err()) {
                    checkout.retreat(&lock, to, from)?;
                }
                if tip.as_ref() == Some(from) { Err(error.into()) } else { Ok(Err(Obstacle::BaseMoved)) }
            }
        }
    }

    /// Returns none if the base branch is still as gated; otherwise the commit if the level has landed already, or the
    /// obstacle.
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

    /// Returns the commit by which an earlier attempt landed this level, if there is one.
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

    /// Creates the level's merge commit; none if the level changes nothing.
    fn level_commit(&self, level: Level, candidate: &Candidate) -> Result<Option<Oid>> {
        if candidate.base == candidate.staging {
            return Ok(None);
        }
        let message = format!("Level {level}: {}\n\n{}", self.paths.feature(), self.trailers(level));
        let parents = [candidate.base.clone(), candidate.staging.clone()];
        Ok(Some(self.objects.commit_tree(&candidate.tree, &parents, &message, &self.identity)?))
    }

    /// Returns an obstacle if the contents of an object were replaced: what lands must be what was verified.
    pub(super) fn forged(&self, base: &Oid, commit: &Oid) -> Result<Option<Obstacle>> {
        let forged = self.objects.forged_objects(base, commit)?;
        if forged.is_empty() {
            return Ok(None);
        }
        let named = |(object, path): (Oid, Option<RepoPath>)| {
            let (dir, name) = object.as_str().split_at(2);
            let file = self.project.common_dir().join("objects").join(dir).join(name);
            let place = if file.is_file() { file.display().to_string() } else { format!("{object} in a pack") };
            path.map_or(place.clone(), |path| format!("{place} ({path})"))
        };
        Ok(Some(Obstacle::Forged { objects: forged.into_iter().map(named).collect() }))
    }

    fn move_ref(&self, name: &str, from: &Oid, to: &Oid, reason: &str) -> Result<(), GitError> {
        let swap = RefChange::Swap { name: name.into(), new: to.clone(), old: Some(from.clone()) };
        self.repository.update_refs(&[swap], reason)
    }

    fn land_on_staging(&self, level: Level, candidate: &Candidate) -> Result<Result<Oid, Obstacle>> {
        let branch = self.paths.staging_branch();
        let tip = self.repository.resolve_ref(&branch)?;
        if let Some(tip) = tip.as_ref().filter(|tip| **tip != candidate.staging) {
            // Commits that the user added on top have to be gated first.
            return Ok(self.find_landed(level, candidate, tip)?.ok_or(Obstacle::BaseMoved));
        }
        let Some(commit) = self.level_commit(level, candidate)? else { return Ok(Ok(candidate.base.clone())) };
        if let Some(forged) = self.forged(&candidate.base, &commit)? {
            return Ok(Err(forged));
        }
        match tip {
            Some(tip) => self.move_ref(&branch, &tip, &commit, &format!("Level {level}"))?,
            None => self.repository.update_ref(&branch, &commit, None)?,
        }
        Ok(Ok(commit))
    }
}
