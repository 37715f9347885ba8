//! Review of completed tasks: what is to be looked at, and what the user decided.

use std::collections::BTreeMap;

use mahabharatha_core::excerpt::summary;
use mahabharatha_core::ids::{Level, Oid, TaskId, Time};
use mahabharatha_core::markdown::one_line;
use mahabharatha_core::run::notes::checked_note;
use mahabharatha_core::run::{LevelState, LevelStatus, Run};
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::lines::append_line;
use serde::{Deserialize, Serialize};

use super::follow_up::{self, FollowUp};
use super::{control, diff, now};
use crate::report::review::{Item, Verification};
use crate::specs;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Accepted,
    SentBack,
}

/// A verdict as it is kept. It holds for these commits: what is done again is reviewed again.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    at: Time,
    task: TaskId,
    commits: Vec<Oid>,
    verdict: Verdict,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
}

/// What became of a task that was sent back.
pub enum SentBack {
    /// It is queued again, with the comment as a note.
    Requeued,
    /// It is merged already: this task on this level changes it.
    FollowUp(TaskId, Level),
}

/// Returns the completed tasks, of one level or of all, and whether they were reviewed.
pub fn items(place: &Place, run: &Run, level: Option<Level>) -> Result<Vec<Item>> {
    if let Some(level) = level.filter(|level| !run.graph().levels().contains(level)) {
        return Err(control::no_such_level(run.graph(), level));
    }
    let verdicts = read(place)?;
    let tasks = run.graph().tasks().iter().filter(|task| level.is_none_or(|level| task.level == level));
    Ok(tasks
        .filter_map(|task| {
            let (state, commits) = completed(run, &task.id)?;
            let entry = verdicts.get(&task.id).filter(|entry| entry.commits == commits);
            let attempts = &run.task(&task.id)?.attempts;
            let verified = attempts.iter().rev().find_map(|record| record.ended.as_ref()?.1.verification_ms);
            let command = task.spec.verification.command.trim().to_owned();
            Some(Item {
                task: task.id.clone(),
                title: task.spec.title.clone(),
                level: task.level,
                merged: matches!(state.status, LevelStatus::Merged { .. }),
                acceptance_criteria: task.spec.acceptance_criteria.clone(),
                verification: Verification {
                    passed: (!command.is_empty()).then_some(true),
                    seconds: verified.map(|ms| ms as f64 / 1000.0),
                    command,
                },
                attempts: attempts.len(),
                verdict: entry.map(|entry| match entry.verdict {
                    Verdict::Accepted => "accepted",
                    Verdict::SentBack => "sent_back",
                }),
                comment: entry.and_then(|entry| entry.comment.clone()),
            })
        })
        .collect())
}

/// Accepts all of these tasks, or none if one cannot be accepted.
pub fn accept(place: &Place, run: &Run, tasks: &[TaskId]) -> Result<()> {
    let accepted = tasks.iter().map(|task| Ok((task, check_completed(run, task)?.1))).collect::<Result<Vec<_>>>()?;
    for (task, commits) in accepted {
        record(place, task, commits, Verdict::Accepted, None)?;
    }
    Ok(())
}

/// Has a task done again with this comment, or changed by a follow-up if it is merged.
pub fn send_back(place: &Place, run: &Run, task: &TaskId, comment: &str) -> Result<SentBack> {
    let comment = checked_note(comment).map_err(|why| Error::new(Kind::Usage, format!("--comment: {why}")))?;
    let (level, commits) = check_completed(run, task)?;
    let sent_back = if matches!(level.status, LevelStatus::Merged { .. }) {
        let added = follow_up::append(place, run, &follow_up_of(place, run, task, &comment)?)?;
        let (id, level) = added.ok_or_else(|| {
            Error::new(Kind::Invalid, format!("{task} has a follow-up with this comment already"))
                .hint("`mahabharatha run` takes up what is new in the graph.")
        })?;
        SentBack::FollowUp(id, level)
    } else {
        let max_usd = specs::load_config(&place.project)?.budget.max_usd_per_task;
        let answer = control::retry(place, vec![task.clone()], max_usd, Some(comment.clone()))?;
        if let Some(refusal) = answer.refused.first() {
            return Err(Error::new(Kind::Failed, format!("{task} cannot be sent back now: {}", refusal.why))
                .hint("If its level is merged meanwhile, send it back then: a follow-up task changes it."));
        }
        SentBack::Requeued
    };
    record(place, task, commits, Verdict::SentBack, Some(comment))?;
    Ok(sent_back)
}

fn follow_up_of(place: &Place, run: &Run, task: &TaskId, comment: &str) -> Result<FollowUp> {
    let owned = run.graph().task(task).map(|task| task.spec.files.clone()).unwrap_or_default();
    // A graph cannot name a file that the run did not start with and that no task creates.
    let start = specs::start_tree(&place.project.git(), &run.setup().start)?;
    let granted = run.granted_to(task).filter(|path| start.contains(path)).collect();
    Ok(FollowUp {
        source: format!("review of {task}: {}", one_line(comment)),
        title: format!("Follow-up of {task}: {}", summary(comment)),
        action: comment.to_owned(),
        files: [owned.create, owned.modify, granted].concat(),
    })
}

fn check_completed<'a>(run: &'a Run, task: &TaskId) -> Result<(&'a LevelState, Vec<Oid>)> {
    if run.task(task).is_none() {
        return Err(control::no_such_task(run, task.as_str()));
    }
    completed(run, task).ok_or_else(|| {
        Error::new(Kind::Invalid, format!("{task} is not completed, so there is nothing to review"))
            .hint(format!("`mahabharatha diff {task}` shows what it has so far; `mahabharatha retry {task} --note TEXT` answers a blocked one."))
    })
}

/// Returns the level of a completed task and what was made for it: its commit, and those of fixes.
fn completed<'a>(run: &'a Run, task: &TaskId) -> Option<(&'a LevelState, Vec<Oid>)> {
    let (level, commit) = diff::completed(run, task)?;
    let fixes = level.fixes.iter().filter(|fix| fix.task == *task).map(|fix| fix.commit.clone());
    Some((level, [commit.clone()].into_iter().chain(fixes).collect()))
}

fn record(place: &Place, task: &TaskId, commits: Vec<Oid>, verdict: Verdict, comment: Option<String>) -> Result<()> {
    append_line(&place.paths.reviews(), &Entry { at: now(), task: task.clone(), commits, verdict, comment })
}

/// Returns the latest verdict on each task. A line that a crash cut off is passed over.
fn read(place: &Place) -> Result<BTreeMap<TaskId, Entry>> {
    let path = place.paths.reviews();
    let text = match bounded::read(&path, LARGE_FILE_BYTES) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(io("read", &path)(error)),
    };
    let entries = text.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok());
    Ok(entries.map(|entry| (entry.task.clone(), entry)).collect())
}
