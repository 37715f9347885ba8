//! Reverts landed levels on the base branch: one commit for each, newest first. Never rewrites history.

use mahabharatha_core::ids::{Level, Oid};
use mahabharatha_core::run::event::Obstacle;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{Logged, Merged};
use mahabharatha_sys::store::locks::IntegrationLock;

use super::Integration;

/// Most commits since the last level that are searched for earlier reverts.
const MAX_COMMITS: usize = 100_000;

/// A landed level and the commit that reverts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reverted {
    pub level: Level,
    /// The commit by which the level landed.
    pub landed: Oid,
    pub commit: Oid,
    /// The files that the revert changes.
    pub files: Vec<String>,
}

/// What reverting levels comes to.
#[derive(Debug, PartialEq, Eq)]
pub enum Undoing {
    /// The reverts are ready to be put on top of the base branch, whose tip is `from`.
    Ready { from: Oid, reverts: Vec<Reverted> },
    /// The base branch has them already.
    Done { tip: Oid },
    /// A level is not on the base branch.
    NotLanded { level: Level },
    /// Later commits changed the same lines.
    Conflict { level: Level, files: Vec<String> },
}

impl Integration {
    /// Makes the commits that revert these levels, newest first, without moving any branch.
    pub fn prepare_undo(&self, _lock: &IntegrationLock, levels: &[(Level, Oid)]) -> Result<Undoing> {
        let Some(from) = self.repository.resolve_ref(&self.base_branch)? else {
            let level = levels.first().map_or(Level(0), |(level, _)| *level);
            return Ok(Undoing::NotLanded { level });
        };
        for (level, landed) in levels {
            if !self.repository.is_ancestor(landed, &from)? {
                return Ok(Undoing::NotLanded { level: *level });
            }
        }
        if self.are_reverted(levels, &from)? {
            return Ok(Undoing::Done { tip: from });
        }
        let mut reverts: Vec<Reverted> = Vec::new();
        for (level, landed) in levels.iter().rev() {
            let tip = reverts.last().map_or(&from, |revert| &revert.commit).clone();
            match self.revert(*level, landed, &tip)? {
                Ok(revert) => reverts.push(revert),
                Err(files) => return Ok(Undoing::Conflict { level: *level, files }),
            }
        }
        Ok(Undoing::Ready { from, reverts })
    }

    /// Puts the reverts on the base branch; moves the user's checkout by fast-forward, or nothing at all.
    pub fn undo(&self, _lock: &IntegrationLock, from: &Oid, reverts: &[Reverted]) -> Result<Result<(), Obstacle>> {
        let Some(last) = reverts.last() else { return Ok(Ok(())) };
        if let Some(forged) = self.forged(from, &last.commit)? {
            return Ok(Err(forged));
        }
        self.move_base(from, &last.commit, &format!("Undo {}", self.paths.feature()))
    }

    /// Makes a commit on top of `tip` that takes back what a level changed, or returns the conflicting files.
    fn revert(&self, level: Level, landed: &Oid, tip: &Oid) -> Result<Result<Reverted, Vec<String>>> {
        let before = self.objects.rev_parse(&format!("{landed}^1"))?.ok_or_else(|| super::missing(landed))?;
        let tree = match self.objects.merge_trees(landed, tip, &before, "undo")? {
            Merged::Clean(tree) => tree,
            Merged::Conflict { stages, .. } => {
                let mut files: Vec<String> = stages.iter().map(|stage| stage.path.to_string()).collect();
                files.dedup();
                return Ok(Err(files));
            }
        };
        let files = self.objects.diff_tree(tip, &tree)?.iter().map(|change| change.path.to_string()).collect();
        let (feature, trailers) = (self.paths.feature(), self.trailers(level));
        let message = format!(
            "Revert level {level}: {feature}\n\nThis reverts commit {landed}.\n\n{trailers}Mahabharatha-Reverts: {landed}\n"
        );
        let commit = self.objects.commit_tree(&tree, std::slice::from_ref(tip), &message, &self.identity)?;
        Ok(Ok(Reverted { level, landed: landed.clone(), commit, files }))
    }

    /// Whether an earlier process, which was killed then, has reverted all of the levels.
    fn are_reverted(&self, levels: &[(Level, Oid)], tip: &Oid) -> Result<bool> {
        let newest = levels.last().map(|(_, landed)| landed);
        let since: Vec<Logged> = self.repository.log(newest, tip, MAX_COMMITS)?;
        let commits: Vec<Oid> = since
            .into_iter()
            .filter(|logged| {
                logged.feature == self.paths.feature().as_str() && logged.subject.starts_with("Revert level ")
            })
            .map(|logged| logged.commit)
            .collect();
        let texts = self.objects.read_commits(&commits)?;
        Ok(levels.iter().all(|(_, landed)| {
            let trailer = format!("Mahabharatha-Reverts: {landed}\n").into_bytes();
            texts.iter().any(|text| text.message.ends_with(&trailer))
        }))
    }

    /// Whether a commit is the one by which a level landed; a level without changes lands without a commit of its own.
    pub fn is_landing(&self, level: Level, commit: &Oid) -> Result<bool> {
        let texts = self.objects.read_commits(std::slice::from_ref(commit))?;
        let trailers = self.trailers(level).into_bytes();
        Ok(texts.iter().any(|text| text.parents.len() == 2 && text.message.ends_with(&trailers)))
    }
}
