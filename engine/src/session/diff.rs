//! Finds out what a task, a level or a whole feature changed. Changes nothing.

use mahabharatha_core::ids::{Attempt, Level, Oid, TaskId};
use mahabharatha_core::run::effect::{Effect, Job};
use mahabharatha_core::run::event::JobEnd;
use mahabharatha_core::run::{AttemptRecord, LevelState, LevelStatus, Run, TaskStatus};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::{FilePatch, Git, Pinned, short_branch};
use mahabharatha_sys::project::Place;
use tempfile::TempDir;

use super::control;
use crate::report::text::count;
use crate::worker::{JobSpec, Running, Snapshot, base_of_wip, occupant, snapshot};

/// What to show.
#[derive(Debug, Clone)]
pub enum Selection {
    Feature,
    Level(Level),
    Task {
        task: TaskId,
        attempt: Option<Attempt>,
        /// The saved work in progress, also where there is a commit.
        wip: bool,
    },
}

/// What was changed.
#[derive(Debug)]
pub struct Diff {
    /// Where it was found: `commit`, `wip`, `worktree`, `level` or `feature`.
    pub source: &'static str,
    /// Attempt that made it, for a single task.
    pub attempt: Option<Attempt>,
    /// Commits whose changes are shown, in order; none for a worktree.
    pub commits: Vec<Oid>,
    /// A file is listed once for each step that changes it.
    pub files: Vec<FilePatch>,
    /// What the user should know about it.
    pub notes: Vec<String>,
}

/// A range of commits.
struct Step {
    old: Oid,
    new: Oid,
}

/// Reads the repository through a private git directory, in which only the settings from before the run apply.
struct Reader<'a> {
    place: &'a Place,
    run: &'a Run,
    scratch: TempDir,
    git: Git,
}

pub fn find(place: &Place, run: &Run, selection: &Selection) -> Result<Diff> {
    let reader = Reader::open(place, run)?;
    match selection {
        Selection::Feature => reader.feature(),
        Selection::Level(level) => reader.level(*level),
        Selection::Task { task, attempt, wip } => reader.task(task, *attempt, *wip),
    }
}

/// Returns the commits of a completed task in the order in which they were made, its fixes last: those on staging if the
/// level was staged, else the task's own.
pub fn commits_of(run: &Run, task: &TaskId) -> Vec<Oid> {
    let Some((level, commit)) = completed(run, task) else { return Vec::new() };
    let own = |commits: &[mahabharatha_core::run::event::TaskCommit]| -> Vec<Oid> {
        commits.iter().filter(|made| made.task == *task).map(|made| made.commit.clone()).collect()
    };
    match own(&level.commits) {
        staged if !staged.is_empty() => staged,
        _ => [vec![commit.clone()], own(&level.fixes)].concat(),
    }
}

/// Returns the level and the commit of a completed task.
pub(super) fn completed<'a>(run: &'a Run, task: &TaskId) -> Option<(&'a LevelState, &'a Oid)> {
    let index = run.graph().index(task)?;
    let TaskStatus::Completed { commit, .. } = &run.tasks()[index].status else { return None };
    Some((run.levels().iter().find(|level| level.tasks.contains(&index))?, commit))
}

impl<'a> Reader<'a> {
    fn open(place: &'a Place, run: &'a Run) -> Result<Self> {
        let failed = Error::caused("cannot create a temporary directory");
        let scratch = tempfile::Builder::new().prefix("mahabharatha-diff-").tempdir().map_err(failed)?;
        let pinned = Pinned(run.setup().git_config.clone());
        let git = Git::objects(&scratch.path().join("git"), place.project.common_dir(), &pinned)?;
        Ok(Reader { place, run, scratch, git })
    }

    fn task(&self, task: &TaskId, attempt: Option<Attempt>, wip: bool) -> Result<Diff> {
        let state = self.run.task(task).ok_or_else(|| control::no_such_task(self.run, task.as_str()))?;
        if let Some(number) = attempt {
            let record = state.attempts.iter().find(|record| record.attempt == number);
            return self.attempt(task, record.ok_or_else(|| no_such_attempt(task, number, &state.attempts))?, wip);
        }
        if wip {
            return self.latest_wip(task, &state.attempts)?.ok_or_else(|| {
                Error::new(Kind::Invalid, format!("{task} has no saved work in progress"))
                    .hint("Work is saved when an attempt ends without a verified commit.")
            });
        }
        if let Some(job) = self.job(task) {
            return self.worktree(&job);
        }
        if matches!(state.status, TaskStatus::Completed { .. }) {
            return self.committed(task, done_attempt(&state.attempts));
        }
        let latest = self.latest_left(task, &state.attempts)?;
        latest.ok_or_else(|| match state.attempts.is_empty() {
            true => Error::new(Kind::Invalid, format!("{task} was not started yet")),
            false => Error::new(Kind::Invalid, format!("{task} is not completed, and its attempts left nothing"))
                .hint(format!("See why: mahabharatha logs --task {task}")),
        })
    }

    /// Shows what one attempt made: its commit, else what it saved, or what it has in its worktree now.
    fn attempt(&self, task: &TaskId, record: &AttemptRecord, wip: bool) -> Result<Diff> {
        if let Some(job) = self.job(task).filter(|job| job.attempt == record.attempt && !wip) {
            return self.worktree(&job);
        }
        if let Some((_, report)) = &record.ended
            && let JobEnd::Done { commit } = &report.end
            && !wip
        {
            if !self.git.lost(std::slice::from_ref(commit))?.is_empty() {
                return Err(Error::new(
                    Kind::Invalid,
                    format!("the commit of {task} attempt {} is gone", record.attempt),
                )
                .hint(format!("`mahabharatha diff {task}` shows what the task has now.")));
            }
            return self.diff("commit", Some(record.attempt), self.steps(std::slice::from_ref(commit))?);
        }
        let left = if wip { self.wip(task, record)? } else { self.left(task, record)? };
        left.ok_or_else(|| {
            Error::new(Kind::Invalid, format!("{task} attempt {} left no work", record.attempt))
                .hint(format!("See why: mahabharatha logs --task {task}"))
        })
    }

    /// Returns the job of a task that is in progress.
    fn job(&self, task: &TaskId) -> Option<Job> {
        self.run.outstanding().find_map(|(_, effect)| match effect {
            Effect::RunJob(job) if job.task == *task => Some(job.clone()),
            _ => None,
        })
    }

    /// Shows what an attempt in progress has in its worktree.
    fn worktree(&self, job: &Job) -> Result<Diff> {
        let (task, attempt) = (&job.task, job.attempt);
        let job_dir = self.place.paths.job(task, attempt);
        if !job_dir.is_dir() || !self.place.paths.worktree(job.worker).is_dir() {
            return Err(Error::new(Kind::Invalid, format!("{task} attempt {attempt} has no worktree yet")));
        }
        let job = match job.on.is_empty() {
            true => job.clone(),
            // Only the job spec has the commit that was made of the base and that work.
            false => Job { base: JobSpec::read(&job_dir)?.job.base, ..job.clone() },
        };
        self.slot(&job, format!("{task} attempt {attempt} is in progress: this is not verified"))
    }

    /// Shows what an ended attempt saved, else what it left in its worktree when it was killed.
    fn left(&self, task: &TaskId, record: &AttemptRecord) -> Result<Option<Diff>> {
        if let Some(diff) = self.wip(task, record)? {
            return Ok(Some(diff));
        }
        let (paths, attempt) = (&self.place.paths, record.attempt);
        let job_dir = paths.job(task, attempt);
        let is_there = paths.worktree(record.worker).is_dir();
        if !is_there || occupant(paths.dir(), record.worker)?.as_ref() != Some(&job_dir) {
            return Ok(None);
        }
        let job = Job { task: task.clone(), attempt, worker: record.worker, ..JobSpec::read(&job_dir)?.job };
        let note = format!(
            "this is what {task} attempt {attempt} left in its worktree when it was killed; it is not verified, and the \
             next run saves it"
        );
        Ok(Some(self.slot(&job, note)?).filter(|diff| !diff.files.is_empty() || diff.notes.len() > 1))
    }

    fn slot(&self, job: &Job, note: String) -> Result<Diff> {
        let (paths, task) = (&self.place.paths, &job.task);
        let (job_dir, worktree) = (paths.job(task, job.attempt), paths.worktree(job.worker));
        let owned = self.run.graph().task(task).map_or(&[][..], |task| &task.owned);
        let pinned = Pinned(self.run.setup().git_config.clone());
        let running =
            Running { job, owned, pinned: &pinned, common_dir: self.place.project.common_dir(), worktree: &worktree };
        let Snapshot { git, tree, strays, left_out } =
            snapshot(&running, &job_dir, &self.scratch.path().join("worktree"))?;
        let mut notes = vec![note];
        if !strays.is_empty() {
            notes.push(format!("{task} does not own: {}", mahabharatha_core::excerpt::few(&strays)));
        }
        notes.extend(left_out);
        let files = git.patches(&job.base, &tree)?;
        Ok(Diff { source: "worktree", attempt: Some(job.attempt), commits: Vec::new(), files, notes })
    }

    fn latest_left(&self, task: &TaskId, attempts: &[AttemptRecord]) -> Result<Option<Diff>> {
        attempts.iter().rev().find_map(|record| self.left(task, record).transpose()).transpose()
    }

    fn latest_wip(&self, task: &TaskId, attempts: &[AttemptRecord]) -> Result<Option<Diff>> {
        for record in attempts.iter().rev() {
            if let Some(diff) = self.wip(task, record)? {
                return Ok(Some(diff));
            }
        }
        Ok(None)
    }

    fn wip(&self, task: &TaskId, record: &AttemptRecord) -> Result<Option<Diff>> {
        let saved = self.place.project.git().resolve_ref(&self.place.paths.wip_ref(task, record.attempt))?;
        let recorded = record.ended.as_ref().and_then(|(_, report)| report.wip.clone());
        let Some(wip) = saved.or(recorded) else { return Ok(None) };
        if !self.git.lost(std::slice::from_ref(&wip))?.is_empty() {
            return Ok(None);
        }
        let base = base_of_wip(&self.git, &wip)?;
        let mut diff = self.diff("wip", Some(record.attempt), vec![Step { old: base, new: wip }])?;
        diff.notes.push(format!("this is what {task} attempt {} saved; it is not verified", record.attempt));
        Ok(Some(diff))
    }

    fn committed(&self, task: &TaskId, attempt: Option<Attempt>) -> Result<Diff> {
        let steps = self.steps_of(task)?;
        self.diff("commit", attempt, steps)
    }

    /// Returns the steps of a completed task. If its commits are gone, as after a rebase, they are looked for on the
    /// branch by their trailers.
    fn steps_of(&self, task: &TaskId) -> Result<Vec<Step>> {
        let commits = commits_of(self.run, task);
        if self.git.lost(&commits)?.is_empty() {
            return self.steps(&commits);
        }
        let branch = self.run.landing_branch();
        let repository = self.place.project.git();
        let Some(tip) = repository.resolve_ref(&branch)? else { return Err(gone(task, &branch)) };
        let of = |name: &str, value: &str| format!("--grep=^{name}: {}$", value.replace('.', "\\."));
        let (feature, own) =
            (of("Mahabharatha-Feature", self.run.feature().as_str()), of("Mahabharatha-Task", task.as_str()));
        let args = ["rev-list", "--reverse", "--no-merges", "--all-match", &feature, &own, tip.as_str()];
        let found: Vec<Oid> = repository.run(args)?.text()?.lines().filter_map(|line| Oid::new(line).ok()).collect();
        if found.is_empty() { Err(gone(task, &branch)) } else { self.steps(&found) }
    }

    fn level(&self, level: Level) -> Result<Diff> {
        let state = self.run.levels().iter().find(|state| state.level == level);
        let state = state.ok_or_else(|| control::no_such_level(self.run.graph(), level))?;
        let steps = self.steps_of_level(state)?;
        if steps.is_empty() && !matches!(state.status, LevelStatus::Merged { .. }) {
            return Err(Error::new(Kind::Invalid, format!("no task of level {level} is completed yet")));
        }
        let mut diff = self.diff("level", None, steps)?;
        if state.open > 0 {
            diff.notes.push(format!("{} of level {level} not completed yet", count(state.open, "task")));
        }
        Ok(diff)
    }

    /// Returns what the level brought, what is staged of it, or the commits of its completed tasks.
    fn steps_of_level(&self, level: &LevelState) -> Result<Vec<Step>> {
        match (&level.status, &level.base, &level.staging) {
            (LevelStatus::Merged { commit, .. }, ..) if self.git.lost(std::slice::from_ref(commit))?.is_empty() => {
                let text = self.read(commit)?;
                let is_of_level = |line: &[u8]| line == format!("Mahabharatha-Level: {}", level.level).as_bytes();
                // A level that changes nothing has no commit of its own.
                let own = text.message.split(|&byte| byte == b'\n').any(is_of_level);
                let old = text.parents.first().filter(|_| own).cloned();
                Ok(old.map(|old| Step { old, new: commit.clone() }).into_iter().collect())
            }
            (status, Some(base), Some(staging))
                if !matches!(status, LevelStatus::Merged { .. } | LevelStatus::Running) =>
            {
                Ok(vec![Step { old: base.clone(), new: staging.clone() }])
            }
            _ => {
                let tasks = &self.run.graph().tasks()[level.tasks.clone()];
                let completed = tasks.iter().filter(|task| completed(self.run, &task.id).is_some());
                let steps: Vec<Vec<Step>> = completed.map(|task| self.steps_of(&task.id)).collect::<Result<_>>()?;
                Ok(steps.into_iter().flatten().collect())
            }
        }
    }

    fn feature(&self) -> Result<Diff> {
        let (mut steps, mut notes) = (Vec::new(), Vec::new());
        for level in self.run.levels() {
            steps.extend(self.steps_of_level(level)?);
        }
        let merged = self.run.levels().iter().rev().find_map(|level| match &level.status {
            LevelStatus::Merged { commit, .. } => Some(commit),
            _ => None,
        });
        let open: usize = self.run.levels().iter().map(|level| level.open).sum();
        if steps.is_empty() {
            notes.push(format!("{} has changed nothing yet", self.run.feature()));
        } else if merged.is_none() {
            notes.push("nothing of this is merged yet".to_owned());
        }
        if open > 0 {
            notes.push(format!("{} not completed yet", count(open, "task")));
        }
        let diff = self.diff("feature", None, net(steps))?;
        Ok(Diff { notes: [notes, diff.notes].concat(), ..diff })
    }

    /// Returns one step for each commit, from its parent.
    fn steps(&self, commits: &[Oid]) -> Result<Vec<Step>> {
        let texts = if commits.is_empty() { Vec::new() } else { self.git.read_commits(commits)? };
        let steps = commits
            .iter()
            .zip(texts)
            .filter_map(|(commit, text)| Some(Step { old: text.parents.first()?.clone(), new: commit.clone() }));
        Ok(steps.collect())
    }

    fn read(&self, commit: &Oid) -> Result<mahabharatha_sys::git::CommitText> {
        let mut texts = self.git.read_commits(std::slice::from_ref(commit))?;
        texts.pop().ok_or_else(|| Error::new(Kind::Failed, format!("there is no commit {commit}")))
    }

    fn diff(&self, source: &'static str, attempt: Option<Attempt>, steps: Vec<Step>) -> Result<Diff> {
        let mut files = Vec::new();
        for step in &steps {
            files.extend(self.git.patches(&step.old, &step.new)?);
        }
        let commits = steps.into_iter().map(|step| step.new).collect();
        Ok(Diff { source, attempt, commits, files, notes: Vec::new() })
    }
}

/// Joins steps of which each begins where the one before ends. Commits of others between two levels are left out.
fn net(steps: Vec<Step>) -> Vec<Step> {
    let mut joined: Vec<Step> = Vec::new();
    for step in steps {
        match joined.last_mut() {
            Some(last) if last.new == step.old => last.new = step.new,
            _ => joined.push(step),
        }
    }
    joined
}

fn done_attempt(attempts: &[AttemptRecord]) -> Option<Attempt> {
    let is_done = |record: &&AttemptRecord| {
        record.ended.as_ref().is_some_and(|(_, report)| matches!(report.end, JobEnd::Done { .. })) && !record.fix
    };
    attempts.iter().rfind(is_done).map(|record| record.attempt)
}

fn no_such_attempt(task: &TaskId, attempt: Attempt, attempts: &[AttemptRecord]) -> Error {
    let known: Vec<String> = attempts.iter().map(|record| record.attempt.to_string()).collect();
    let error = Error::new(Kind::Usage, format!("{task} has no attempt {attempt}"));
    if known.is_empty() {
        error.hint("It was not started yet.")
    } else {
        error.hint(format!("Its attempts are: {}.", known.join(", ")))
    }
}

fn gone(task: &TaskId, branch: &str) -> Error {
    let branch = short_branch(branch);
    Error::new(Kind::Invalid, format!("the commit of {task} is no longer in the repository"))
        .detail(format!("No commit on {branch} names it in its trailers either."))
        .hint("`git reflog` may still know it.")
}
