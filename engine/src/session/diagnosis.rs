//! Finds out what blocks a feature and in which state its files are. Changes nothing.

use std::collections::BTreeSet;
use std::path::Path;

use mahabharatha_core::ids::{Feature, Oid, WorkerId};
use mahabharatha_core::names::nearest;
use mahabharatha_core::run::event::TaskCommit;
use mahabharatha_core::run::{End, LevelStatus, Run, TaskStatus};
use mahabharatha_core::view::RunView;
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::project::{Place, Project};
use mahabharatha_sys::store::disk::lack_of_space;
use mahabharatha_sys::store::journal::{Examined, Health, examine};
use mahabharatha_sys::store::locks::FeatureLock;

use super::{control, rebuild, saved_work};
use crate::host::{cleanup, jobs};
use crate::lease::Lease;
use crate::report::debug::{
    Alive, BaseState, Findings, JournalState, KeptWork, LockState, LostWork, SessionState, TroubledTask, WorktreeState,
};
use crate::report::files;
use crate::report::hypotheses::{bring_back, hypotheses};
use crate::report::moments::moments;
use crate::report::projection::projection;
use crate::report::status::SavedWork;
use crate::specs;

/// Examines a feature, or only one of its tasks. `None` if nothing of a run was ever recorded.
pub fn examine_feature(place: &Place, task: Option<&str>) -> Result<Option<Findings>> {
    let paths = &place.paths;
    // Read first: if the feature is not held, the state read below is final.
    let holder = FeatureLock::holder(paths.dir())?;
    let sessions = Lease::all_alive(paths.dir());
    let examined = examine(&paths.journal(), &place.feature)?;
    let rebuilt = rebuild(paths, &examined.records);
    let run = rebuilt.as_ref().ok().and_then(Option::as_ref);
    let has_task =
        |task: &str| run.is_some_and(|run| run.graph().tasks().iter().any(|known| known.id.as_str() == task));
    if let Some(word) = task.filter(|word| !has_task(word)) {
        refuse_feature(place, run, word)?;
    }
    if examined.health == Health::Missing && !paths.dir().join("jobs").exists() {
        return Ok(None);
    }
    let driven = holder.is_some() || sessions.iter().any(|session| session.drives);
    let view = run.map(|run| control::view(place, run, driven)).transpose()?;
    if let (Some(task), Some(run)) = (task, run)
        && !has_task(task)
    {
        return Err(control::no_such_task(run, task));
    }
    let work = view.as_ref().map(|view| saved_work(place, view)).transpose()?.unwrap_or_default();
    let mut findings = Findings {
        feature: place.feature.to_string(),
        status: view.as_ref().map(|view| view.status),
        word: view.as_ref().map(RunView::status_word),
        journal: journal_state(place, &examined, rebuilt.as_ref().err()),
        lock: LockState {
            held: holder.is_some(),
            pid: holder.and_then(|holder| holder.pid),
            holder: holder.map(|holder| holder.to_string()),
            stale_sign: holder.is_none() && paths.holder_file().exists(),
        },
        sessions: sessions.into_iter().map(|Lease { session, drives, .. }| SessionState { session, drives }).collect(),
        projection: if holder.is_some() { "in use" } else { projection_state(place, run) },
        lack_of_space: [paths.dir(), &place.project.home(), &paths.worktrees()].into_iter().find_map(lack_of_space),
        workers: alive(paths.dir()),
        base: run.map(|run| base_state(&place.project, run)).transpose()?,
        worktrees: worktrees(place, run, view.as_ref())?,
        timeline: moments(examined.records.iter().map(|record| (record.at, &record.event)), task),
        wip: kept_work(place, task)?,
        lost: run.map(|run| lost_work(place, run)).transpose()?.unwrap_or_default(),
        tasks: view.as_ref().map(|view| troubled_tasks(view, run, task, &work)).unwrap_or_default(),
        blockers: view.as_ref().map(|view| view.blockers.0.clone()).unwrap_or_default(),
        config_changes: run.filter(|_| !driven).map(|run| config_changes(place, run)).unwrap_or_default(),
        hypotheses: Vec::new(),
    };
    if let Some(task) = task {
        let known = run.and_then(|run| run.graph().tasks().iter().find(|known| known.id.as_str() == task));
        findings.blockers.retain(|blocker| {
            let is_its_own = blocker.task.as_ref().is_some_and(|of| of.as_str() == task);
            is_its_own || known.is_some_and(|task| blocker.is_of_level(task.level))
        });
        findings.lost.retain(|lost| lost.task == task);
    }
    findings.hypotheses = hypotheses(&findings, run);
    Ok(Some(findings))
}

/// Fails if a word that is no task is, or is near, the name of a feature, and is not near that of a task.
fn refuse_feature(place: &Place, run: Option<&Run>, word: &str) -> Result<()> {
    let features = place.project.known_features();
    let features: Vec<&str> = features.iter().map(Feature::as_str).collect();
    let tasks: Vec<&str> = run.iter().flat_map(|run| run.graph().tasks()).map(|task| task.id.as_str()).collect();
    // Any two names of one or two letters are near.
    let is_meant = features.contains(&word) || word.len() > 2 && nearest(word, &tasks).is_none();
    match nearest(word, &features).filter(|_| is_meant) {
        Some(feature) => Err(Error::new(Kind::Usage, format!("{} has no task {word}", place.feature))
            .hint(format!("For the feature {feature}: mahabharatha debug -f {feature}"))),
        None => Ok(()),
    }
}

/// Returns the keys of the configuration that changed since the run began, and that `run` would ask to accept.
pub fn changed_settings(place: &Place, run: &Run) -> Vec<String> {
    let changes = config_changes(place, run);
    let keys = changes.iter().filter_map(|line| Some(line.get(2..)?.split_once(": ")?.0.to_owned()));
    keys.collect::<BTreeSet<String>>().into_iter().collect()
}

/// Returns the changes to the configuration because of which `run` would refuse to go on; none if it cannot be read.
fn config_changes(place: &Place, run: &Run) -> Vec<String> {
    let is_over = matches!(run.ended(), Some(End::Completed | End::Undone));
    let config = specs::load_config(&place.project).ok().filter(|_| !is_over);
    config.map(|config| run.unaccepted(&config.accepted())).unwrap_or_default()
}

fn journal_state(place: &Place, examined: &Examined, inconsistent: Option<&Error>) -> JournalState {
    let (health, problem) = match &examined.health {
        Health::Missing => ("missing", None),
        Health::Torn { bytes } => ("torn", Some(format!("its last {bytes} bytes are of a record that was cut short"))),
        Health::Damaged { line, byte, what } => ("damaged", Some(format!("line {line}, byte {byte}: {what}"))),
        Health::Newer { what } => ("newer", Some(what.clone())),
        Health::Foreign { feature } => ("foreign", Some(format!("it is the journal of {feature}"))),
        Health::Good => match inconsistent {
            Some(error) => ("inconsistent", Some(error.message().to_owned())),
            None => ("good", None),
        },
    };
    let Examined { good_bytes, bytes, .. } = *examined;
    JournalState { path: place.paths.journal(), health, problem, records: examined.records.len(), good_bytes, bytes }
}

fn projection_state(place: &Place, run: Option<&Run>) -> &'static str {
    let Ok(text) = bounded::read(&place.paths.projection(), LARGE_FILE_BYTES) else { return "missing" };
    match serde_json::from_slice::<serde_json::Value>(&text) {
        Err(_) => "unreadable",
        Ok(found)
            if run
                .and_then(|run| files::view(&place.paths, run).ok())
                .is_some_and(|view| serde_json::json!(projection(&view)) == found) =>
        {
            "current"
        }
        Ok(_) => "outdated",
    }
}

fn alive(feature_dir: &Path) -> Vec<Alive> {
    let name = |dir: &Path| dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    jobs::alive(feature_dir).into_iter().map(|(dir, pid)| Alive { job: name(&dir), pid }).collect()
}

fn worktrees(place: &Place, run: Option<&Run>, view: Option<&RunView>) -> Result<Vec<WorktreeState>> {
    // Those of dead workers are `crashed` in the view.
    let at_work: Vec<String> = view
        .iter()
        .flat_map(|view| &view.workers)
        .filter(|worker| worker.status == "running")
        .map(|worker| format!("worker-{}", worker.id))
        .collect();
    let in_use =
        |path: &Path| path.file_name().is_some_and(|name| at_work.iter().any(|at_work| name == at_work.as_str()));
    let git = place.project.git();
    let base = run.and_then(Run::current_level).and_then(|level| level.base.clone());
    let state = |leftover: cleanup::Leftover| match leftover.what {
        cleanup::What::Worktree(path) => {
            let branch = git.worktree_branch(&path);
            let tip = branch.as_deref().and_then(|branch| git.resolve_ref(branch).ok()?);
            Some(WorktreeState {
                in_use: in_use(&path),
                files: path.is_dir(),
                known_to_git: git.worktree_git_dir(&path).is_some(),
                problem: wrong_branch(place, &path, branch.as_deref()),
                at_level_base: tip.is_some() && tip == base,
                precious: leftover.precious,
                branch,
                path,
            })
        }
        _ => None,
    };
    Ok(cleanup::leftovers(&place.project, &place.paths, run, false)?.into_iter().filter_map(state).collect())
}

/// Says which branch a worker's worktree is on if it is not the worker's. Until its first attempt it is on none.
fn wrong_branch(place: &Place, worktree: &Path, branch: Option<&str>) -> Option<String> {
    let name = worktree.file_name()?.to_str()?;
    let worker = name.strip_prefix("worker-")?.parse().ok().map(WorkerId)?;
    let expected = place.paths.worker_branch(worker);
    let branch = branch.filter(|branch| *branch != expected)?;
    Some(format!("it is on {}, not on {}", short_branch(branch), short_branch(&expected)))
}

/// Says that the base branch no longer contains what a completed run merged into it, and what to do.
pub fn merge_lost(project: &Project, run: &Run) -> Result<Option<(String, String)>> {
    // The user merges a staging branch and removes it.
    if run.ended() != Some(&End::Completed) || run.policy().onto_staging {
        return Ok(None);
    }
    let BaseState { branch, problem, .. } = base_state(project, run)?;
    let feature = run.feature().as_str();
    let told = |problem| format!("{feature} was completed, but the branch {branch} does not fit the run: {problem}");
    Ok(problem.map(|problem| (told(problem), bring_back(&branch, feature))))
}

/// Tells whether the branch that levels land on still contains what the run put there.
fn base_state(project: &Project, run: &Run) -> Result<BaseState> {
    let (git, name) = (project.git(), run.landing_branch());
    let tip = git.resolve_ref(&name)?;
    let landed = run.levels().iter().rev().find_map(|level| match &level.status {
        LevelStatus::Merged { commit, .. } => Some((commit, format!("level {}", level.level))),
        _ => None,
    });
    let began = || {
        (run.has_begun() && !run.policy().onto_staging).then(|| (&run.setup().start, "the start of the run".to_owned()))
    };
    let problem = match (landed.or_else(began), &tip) {
        (None, _) => None,
        (Some(_), None) => Some("it is gone".to_owned()),
        (Some((commit, what)), Some(tip)) => (!git.is_ancestor(commit, tip).unwrap_or(false))
            .then(|| format!("it does not contain {}, {what}", commit.short())),
    };
    Ok(BaseState { branch: short_branch(&name).to_owned(), commit: tip.map(|tip| tip.to_string()), problem })
}

/// Returns the refs of saved work that is not merged.
fn kept_work(place: &Place, task: Option<&str>) -> Result<Vec<KeptWork>> {
    let prefix = format!("refs/mahabharatha/{}/", place.feature);
    let refs = place.project.git().for_each_ref(&[&prefix])?.into_iter().filter_map(|(name, commit)| {
        let mut parts = name.strip_prefix(&prefix)?.split('/');
        let (kind, of) = (parts.next()?, parts.next().unwrap_or_default().to_owned());
        let wanted = matches!(kind, "wip" | "unfinished") && task.is_none_or(|task| task == of);
        wanted.then(|| KeptWork { name: name.clone(), commit: commit.to_string(), task: of })
    });
    Ok(refs.collect())
}

/// Returns the completed tasks that are not merged and whose commits cannot be read any more.
fn lost_work(place: &Place, run: &Run) -> Result<Vec<LostWork>> {
    let waiting = run.levels().iter().filter(|level| !matches!(level.status, LevelStatus::Merged { .. }));
    let mut commits: Vec<TaskCommit> = Vec::new();
    for level in waiting {
        for (task, state) in run.graph().tasks()[level.tasks.clone()].iter().zip(&run.tasks()[level.tasks.clone()]) {
            if let TaskStatus::Completed { commit, .. } = &state.status {
                commits.push(TaskCommit { task: task.id.clone(), commit: commit.clone() });
            }
        }
        commits.extend(level.fixes.iter().cloned());
    }
    let oids: Vec<Oid> = commits.iter().map(|of| of.commit.clone()).collect();
    let lost = place.project.git().lost(&oids)?;
    let lost = commits.iter().filter(|of| lost.contains(&of.commit));
    Ok(lost.map(|of| LostWork { task: of.task.to_string(), commit: of.commit.to_string() }).collect())
}

fn troubled_tasks(view: &RunView, run: Option<&Run>, only: Option<&str>, work: &SavedWork) -> Vec<TroubledTask> {
    let wanted = view.tasks.iter().filter(|task| match only {
        Some(only) => task.id.as_str() == only,
        None => TroubledTask::is_troubled(task),
    });
    let verification = |id| run.and_then(|run| run.graph().task(id)).map(|task| task.spec.verification.command.clone());
    wanted
        .map(|task| TroubledTask {
            id: task.id.to_string(),
            status: task.status,
            reason: task.reason.clone(),
            question: task.question.clone(),
            verification: verification(&task.id).unwrap_or_default(),
            attempts: task.attempts.clone(),
            work: task
                .attempts
                .iter()
                .filter_map(|attempt| Some((attempt.attempt, work.get(&(task.id.clone(), attempt.attempt))?.clone())))
                .collect(),
        })
        .collect()
}
