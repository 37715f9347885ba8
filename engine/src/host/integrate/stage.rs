//! The staging branch: the level's base, then one commit per task, made on objects alone.

use std::collections::BTreeMap;

use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::{Level, Oid, TaskId};
use mahabharatha_core::run::event::TaskCommit;
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::{Change, CommitText, NewCommit, RefChange, RepoPath};

use super::{Integration, Note};

const SUBMODULE: u32 = 0o160000;

/// A task's commit, with what it says and what it changes.
struct Work<'a> {
    task: &'a TaskId,
    commit: &'a Oid,
    text: CommitText,
    changes: Vec<Change>,
}

impl Integration {
    /// Puts the tasks' commits onto staging in the given order, each with its own message, author and changes. Returns the
    /// tip of staging and each task's commit there.
    pub fn stage(&self, level: Level, base: &Oid, tasks: &[TaskCommit]) -> Result<(Oid, Vec<TaskCommit>)> {
        let works = self.read_works(tasks)?;
        self.check_ownership(&works)?;
        check_that_files_can_stand_together(&works)?;
        self.keep_what_people_committed(base)?;
        crash::point(|| format!("stage {level} before the commits"));
        let commits = self.pile(base, &works)?;
        crash::point(|| format!("stage {level} before the ref"));
        let staging = commits.last().map_or(base, |last| &last.commit).clone();
        let name = self.paths.staging_branch();
        let mut changes = vec![RefChange::Set { name, new: staging.clone() }];
        changes.extend(self.put_back_task_refs(&works)?);
        self.repository.update_refs(&changes, &format!("stage level {level}"))?;
        crash::point(|| format!("stage {level} after the ref"));
        Ok((staging, commits))
    }

    /// What is staged is what the journal says; a ref that says something else would only keep the wrong commit.
    fn put_back_task_refs(&self, works: &[Work]) -> Result<Vec<RefChange>> {
        let mut changes = Vec::new();
        // What fixed something has a ref of its own, which only tells of the last time.
        for Work { task, commit, .. } in works.iter().filter(|work| work.text.message.starts_with(b"feat(")) {
            let name = self.paths.task_ref(task);
            if self.repository.resolve_ref(&name)?.is_some_and(|found| found != **commit) {
                (self.report)(Note::PutBack { name: name.clone() });
                changes.push(RefChange::Set { name, new: (*commit).clone() });
            }
        }
        Ok(changes)
    }

    /// A fix that a person committed on staging is not of the level that is put together anew, and not to be lost.
    fn keep_what_people_committed(&self, base: &Oid) -> Result<()> {
        let tip = self.repository.resolve_ref(&self.paths.staging_branch())?.filter(|tip| tip != base);
        let Some(tip) = tip else { return Ok(()) };
        match self.newest_of_people(base, &tip)? {
            Some(_) => self.keep_for_people(tip),
            None => Ok(()),
        }
    }

    /// The newest commit on staging since `base` that is not of this run.
    pub(super) fn newest_of_people(&self, base: &Oid, tip: &Oid) -> Result<Option<Oid>> {
        let ours = format!("--grep=^Mahabharatha-Feature: {}$", self.paths.feature());
        // What the base branch has is not lost, though it was merged into staging.
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

    /// The worker has seen to this already; here it is what guarantees that nothing unowned gets through.
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
            .hint("The commit was not made by a worker of this version. `mahabharatha retry <task>` makes it anew."))
    }

    /// Each on top of the one before, whatever it was made on: a fix was made on staging as it stood then, with the
    /// work of tasks that may be done anew or skipped by now.
    fn pile(&self, base: &Oid, works: &[Work]) -> Result<Vec<TaskCommit>> {
        let new: Vec<NewCommit> =
            works.iter().map(|work| NewCommit { text: &work.text, changes: &work.changes }).collect();
        let made = if new.is_empty() { Vec::new() } else { self.objects.stack_commits(base, &new)? };
        Ok(works.iter().zip(made).map(|(work, commit)| TaskCommit { task: work.task.clone(), commit }).collect())
    }
}

/// Why a task that owns these paths may not make the change.
pub(in crate::host) fn objection(change: &Change, owned: &[OwnedPath]) -> Option<&'static str> {
    if change.old_mode == SUBMODULE || change.new_mode == SUBMODULE {
        Some("is a submodule")
    } else if !is_plain(&change.path) {
        Some("leads out of the tree or into a git directory")
    } else if !owns(owned, &change.path) {
        Some("is not owned")
    } else {
        None
    }
}

fn is_plain(path: &RepoPath) -> bool {
    let mut parts = path.as_bytes().split(|&byte| byte == b'/');
    parts.all(|part| !matches!(part, b"" | b"." | b"..") && !part.eq_ignore_ascii_case(b".git"))
}

fn owns(owned: &[OwnedPath], path: &RepoPath) -> bool {
    match path.as_str() {
        Some(path) => owned.iter().any(|owned| owned.covers(path)),
        // A spec is text, so such a name can only lie in a directory that is owned.
        None => owned.iter().any(|owned| {
            owned.directory && path.is_within(owned.path.as_bytes()) && path.as_bytes() != owned.path.as_bytes()
        }),
    }
}

/// A file of one task where another has a directory would push the other's work out without a word.
fn check_that_files_can_stand_together(works: &[Work]) -> Result<()> {
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
