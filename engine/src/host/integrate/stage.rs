//! Builds the staging branch: the level's base, then one commit per task. Works on git objects only, without a
//! worktree.
//!
//! This is the last line of defence for ownership: no change that a task does not own may get past it.

use std::collections::{BTreeMap, BTreeSet};

use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::{Level, Oid, TaskId};
use mahabharatha_core::run::event::{Obstacle, TaskCommit};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::{Change, CommitText, NewCommit, RefChange, RepoPath, SUBMODULE_MODE};

use super::{Integration, Note};

/// A task's commit with its message and changes.
struct Work<'a> {
    task: &'a TaskId,
    commit: &'a Oid,
    text: CommitText,
    changes: Vec<Change>,
}

impl Work<'_> {
    /// Whether it is the task's own commit, not a fix.
    fn is_own(&self) -> bool {
        self.text.message.starts_with(b"feat(")
    }
}

impl Integration {
    /// Rebuilds staging from the tasks' commits in the given order, keeping messages, authors and changes. Returns the
    /// tip of staging and each task's commit there, or the tasks whose commits are lost or outdated.
    pub fn stage(
        &self,
        level: Level,
        base: &Oid,
        tasks: &[TaskCommit],
    ) -> Result<Result<(Oid, Vec<TaskCommit>), Obstacle>> {
        self.try_stage(level, base, tasks).or_else(|error| {
            let commits: Vec<Oid> = tasks.iter().map(|task| task.commit.clone()).collect();
            let lost = self.objects.lost(&commits)?;
            let is_lost = |task: &&TaskCommit| lost.contains(&task.commit);
            let mut tasks: Vec<TaskId> = tasks.iter().filter(is_lost).map(|task| task.task.clone()).collect();
            tasks.dedup();
            if tasks.is_empty() {
                return Err(error);
            }
            // A new attempt writes them again.
            self.objects.set_aside_damaged(&lost, &self.paths.damaged_objects())?;
            Ok(Err(Obstacle::WorkLost { tasks }))
        })
    }

    /// Returns the commit that an attempt starts from: the base with the work of tasks on top that is not merged yet. The
    /// same input yields the same commit.
    pub fn put_onto(&self, base: &Oid, tasks: &[TaskCommit]) -> Result<Oid> {
        let works = self.read_works(tasks)?;
        self.check_ownership(&works)?;
        check_file_directory_clashes(&works)?;
        Ok(self.stack(base, &works)?.pop().map_or_else(|| base.clone(), |last| last.commit))
    }

    fn try_stage(
        &self,
        level: Level,
        base: &Oid,
        tasks: &[TaskCommit],
    ) -> Result<Result<(Oid, Vec<TaskCommit>), Obstacle>> {
        let works = self.read_works(tasks)?;
        self.check_ownership(&works)?;
        check_file_directory_clashes(&works)?;
        let outdated = self.outdated(base, &works)?;
        if !outdated.is_empty() {
            return Ok(Err(Obstacle::Outdated { tasks: outdated }));
        }
        self.keep_user_commits(base)?;
        crash::point(|| format!("stage {level} before the commits"));
        let commits = self.stack(base, &works)?;
        crash::point(|| format!("stage {level} before the ref"));
        let staging = commits.last().map_or(base, |last| &last.commit).clone();
        let name = self.paths.staging_branch();
        if self.repository.is_symbolic(&name) {
            (self.report)(Note::PutBack { name: name.clone() });
        }
        let mut changes = vec![RefChange::Set { name, new: staging.clone() }];
        changes.extend(self.put_back_task_refs(&works)?);
        self.repository.update_refs(&changes, &format!("stage level {level}"))?;
        crash::point(|| format!("stage {level} after the ref"));
        Ok(Ok((staging, commits)))
    }

    /// Returns the tasks that were done on something else than `base` and whose files differ there from what they began
    /// with: putting their work onto `base` would revert changes of another task or of the user.
    fn outdated(&self, base: &Oid, works: &[Work]) -> Result<Vec<TaskId>> {
        let (mut outdated, mut seen) = (Vec::new(), BTreeSet::new());
        // What follows a task's first commit was made on staging.
        for work in works.iter().filter(|work| seen.insert(work.task) && work.is_own()) {
            let Some(began) = work.text.parents.first().filter(|began| *began != base) else { continue };
            let since = self.objects.diff_tree(began, base)?;
            let takes_back = |change: &Change| {
                let clashes = |other: &Change| overlap(&change.path, &other.path) && change.new != other.new;
                since.iter().any(clashes)
            };
            if work.changes.iter().any(takes_back) {
                outdated.push(work.task.clone());
            }
        }
        Ok(outdated)
    }

    /// Returns the changes that restore task refs which differ from the journal. Staging follows the journal; such a
    /// ref would only keep a wrong commit alive.
    fn put_back_task_refs(&self, works: &[Work]) -> Result<Vec<RefChange>> {
        let mut changes = Vec::new();
        // Fixes have refs of their own, which only record the latest fix.
        for Work { task, commit, .. } in works.iter().filter(|work| work.is_own()) {
            let name = self.paths.task_ref(task);
            let is_changed = self.repository.resolve_ref(&name)?.is_some_and(|found| found != **commit);
            if is_changed || self.repository.is_symbolic(&name) {
                (self.report)(Note::PutBack { name: name.clone() });
                changes.push(RefChange::Set { name, new: (*commit).clone() });
            }
        }
        Ok(changes)
    }

    /// Saves commits that the user made on staging under a ref, because rebuilding staging drops them.
    fn keep_user_commits(&self, base: &Oid) -> Result<()> {
        let tip = self.repository.resolve_ref(&self.paths.staging_branch())?.filter(|tip| tip != base);
        let Some(tip) = tip else { return Ok(()) };
        match self.newest_user_commit(base, &tip) {
            Ok(Some(_)) => self.keep_for_user(tip),
            Ok(None) => Ok(()),
            // What cannot be read cannot be kept.
            Err(_) if self.is_lost(&tip)? => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the newest commit on staging since `base` that this run did not make.
    pub(super) fn newest_user_commit(&self, base: &Oid, tip: &Oid) -> Result<Option<Oid>> {
        let ours = format!("--grep=^Mahabharatha-Feature: {}$", self.paths.feature());
        // Commits of the base branch that were merged into staging are not lost.
        let landed = self.repository.resolve_ref(&self.base_branch)?.map(|tip| format!("^{tip}"));
        let range = format!("{base}..{tip}");
        let theirs = ["rev-list", "--max-count=1", "--invert-grep", &ours, &range].into_iter().chain(landed.as_deref());
        Ok(Oid::new(self.repository.run(theirs)?.text()?).ok())
    }

    fn read_works<'a>(&self, tasks: &'a [TaskCommit]) -> Result<Vec<Work<'a>>> {
        let oids: Vec<Oid> = tasks.iter().map(|task| task.commit.clone()).collect();
        if oids.is_empty() {
            return Ok(Vec::new());
        }
        let (texts, changes) = (self.objects.read_commits(&oids)?, self.objects.diff_commits(&oids)?);
        let works = tasks.iter().zip(texts).zip(changes);
        Ok(works
            .map(|((task, text), changes)| Work { task: &task.task, commit: &task.commit, text, changes })
            .collect())
    }

    /// Refuses commits with unowned changes. The worker has checked this already; this check is the guarantee.
    fn check_ownership(&self, works: &[Work]) -> Result<()> {
        let mut wrong = Vec::new();
        for work in works {
            let owned = self.owners.get(work.task).map_or(&[][..], Vec::as_slice);
            if work.text.parents.len() != 1 {
                wrong.push(format!("{}: {} has {} parents", work.task, work.commit.short(), work.text.parents.len()));
            }
            for change in &work.changes {
                if let Some(why) = objection(change, owned) {
                    wrong.push(format!("{}: {} {why}", work.task, change.path));
                }
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let error = Error::new(Kind::Failed, "a task's commit changes what the task does not own");
        Err(wrong
            .into_iter()
            .fold(error, Error::detail)
            .hint("The commit was not made by a worker of this version. `mahabharatha retry <task>` makes a new one."))
    }

    /// Stacks the commits on each other, regardless of their own parents: a fix was made on an earlier staging, with
    /// the work of tasks that may have been redone or skipped since.
    fn stack(&self, base: &Oid, works: &[Work]) -> Result<Vec<TaskCommit>> {
        let new: Vec<NewCommit> =
            works.iter().map(|work| NewCommit { text: &work.text, changes: &work.changes }).collect();
        let made = if new.is_empty() { Vec::new() } else { self.objects.stack_commits(base, &new)? };
        Ok(works.iter().zip(made).map(|(work, commit)| TaskCommit { task: work.task.clone(), commit }).collect())
    }
}

/// Returns why a task that owns these paths may not make the change.
pub(in crate::host) fn objection(change: &Change, owned: &[OwnedPath]) -> Option<&'static str> {
    if change.old_mode == SUBMODULE_MODE || change.new_mode == SUBMODULE_MODE {
        Some("is a submodule")
    } else if !is_plain(&change.path) {
        Some("leads out of the tree or into a git directory")
    } else if !owns(owned, &change.path) {
        Some("is not owned")
    } else {
        None
    }
}

/// Whether they are the same path or one lies below the other.
fn overlap(one: &RepoPath, other: &RepoPath) -> bool {
    one == other || one.is_within(other.as_bytes()) || other.is_within(one.as_bytes())
}

fn is_plain(path: &RepoPath) -> bool {
    let mut parts = path.as_bytes().split(|&byte| byte == b'/');
    parts.all(|part| !matches!(part, b"" | b"." | b"..") && !part.eq_ignore_ascii_case(b".git"))
}

pub(super) fn owns(owned: &[OwnedPath], path: &RepoPath) -> bool {
    match path.as_str() {
        Some(path) => owned.iter().any(|owned| owned.covers(path)),
        // Specs are text, so a name that is not UTF-8 can only be owned through its directory.
        None => owned.iter().any(|owned| {
            owned.directory && path.is_within(owned.path.as_bytes()) && path.as_bytes() != owned.path.as_bytes()
        }),
    }
}

/// Refuses a file of one task where another task has a directory: stacking would silently drop the other's work.
fn check_file_directory_clashes(works: &[Work]) -> Result<()> {
    let mut files: BTreeMap<&[u8], &TaskId> = BTreeMap::new();
    for work in works {
        for change in &work.changes {
            match change.new {
                Some(_) => files.insert(change.path.as_bytes(), work.task),
                None => files.remove(change.path.as_bytes()),
            };
        }
    }
    for (path, task) in &files {
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end]);
        for directory in above {
            if let Some(other) = files.get(directory) {
                let (path, directory) = (RepoPath::new(*path), RepoPath::new(directory));
                return Err(Error::new(
                    Kind::Invalid,
                    format!(
                        "{task} makes {path}, and {other} makes the file {directory} where its directory has to be"
                    ),
                )
                .hint("Change the files of one of the two in the task graph, then retry it."));
            }
        }
    }
    Ok(())
}
