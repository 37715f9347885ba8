//! Paths and ref names of a feature.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::{Attempt, Feature, TaskId, WorkerId};
use mahabharatha_core::names::wip_ref;

use crate::store::journal;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeaturePaths {
    feature: Feature,
    /// `.gsd/specs/<feature>`
    specs: PathBuf,
    /// `.mahabharatha`
    home: PathBuf,
    /// `<git common dir>/mahabharatha/<feature>`
    dir: PathBuf,
}

impl FeaturePaths {
    pub(super) fn new(gsd: &Path, home: &Path, shared: &Path, feature: &Feature) -> Self {
        FeaturePaths {
            feature: feature.clone(),
            specs: gsd.join("specs").join(feature.as_str()),
            home: home.to_owned(),
            dir: shared.join(feature.as_str()),
        }
    }

    pub fn feature(&self) -> &Feature {
        &self.feature
    }

    /// `.mahabharatha`
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the directory with everything that a run depends on: journal, lock, spool and jobs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the process mark (see `proc::MARKER`) of agents that `plan` and `design` wait for; not a real directory.
    pub fn planning_mark(&self) -> PathBuf {
        self.dir.join("asked")
    }

    /// Returns the directory for objects of the repository that could not be read.
    pub fn damaged_objects(&self) -> PathBuf {
        self.dir.join("damaged-objects")
    }

    pub fn journal(&self) -> PathBuf {
        self.dir.join(journal::FILE_NAME)
    }

    /// Returns the file with the cost of agent calls that planned and designed the feature.
    pub fn planning_costs(&self) -> PathBuf {
        self.dir.join("planning.jsonl")
    }

    /// Returns the file with the answers of an interview that is not finished.
    pub fn interview_draft(&self) -> PathBuf {
        self.dir.join("interview.md")
    }

    /// Returns the file with the verdicts of reviews.
    pub fn reviews(&self) -> PathBuf {
        self.dir.join("reviews.jsonl")
    }

    pub fn job(&self, task: &TaskId, attempt: Attempt) -> PathBuf {
        job_dir(&self.dir, task, attempt)
    }

    pub fn specs(&self) -> &Path {
        &self.specs
    }

    /// Returns the file that shows the user which process holds the feature.
    pub fn holder_file(&self) -> PathBuf {
        self.specs.join(".lock")
    }

    pub fn graph(&self) -> PathBuf {
        self.specs.join("task-graph.json")
    }

    pub fn task_files(&self) -> PathBuf {
        self.specs.join("tasks")
    }

    pub fn task_file(&self, task: &TaskId) -> PathBuf {
        self.task_files().join(format!("{task}.md"))
    }

    pub fn assignments(&self) -> PathBuf {
        self.specs.join("worker-assignments.json")
    }

    pub fn completion(&self) -> PathBuf {
        self.specs.join("COMPLETION.md")
    }

    /// Returns the existing requirements file, else the path for a new one.
    pub fn requirements(&self) -> PathBuf {
        self.document(&["requirements.md", "REQUIREMENTS.md"])
    }

    /// Returns the file with the tasks in the format of Claude Code's task list.
    pub fn manifest(&self) -> PathBuf {
        self.specs.join("design-tasks-manifest.json")
    }

    /// Returns the file that records which requirements the user approved.
    pub fn approval(&self) -> PathBuf {
        self.specs.join("approval.json")
    }

    /// Returns the existing design file, else the path for a new one.
    pub fn design(&self) -> PathBuf {
        self.document(&["design.md", "DESIGN.md", "architecture.md", "ARCHITECTURE.md"])
    }

    fn document(&self, names: &[&str]) -> PathBuf {
        let paths = names.iter().map(|name| self.specs.join(name));
        paths.clone().find(|path| path.is_file()).or_else(|| paths.clone().next()).unwrap_or_default()
    }

    pub fn projection(&self) -> PathBuf {
        self.home.join("state").join(format!("{}.json", self.feature))
    }

    pub fn logs(&self) -> PathBuf {
        self.home.join("logs").join(self.feature.as_str())
    }

    /// Returns the output of the process that `run --detach` started last.
    pub fn detached_log(&self) -> PathBuf {
        self.logs().join("detached.log")
    }

    pub fn worker_log(&self, worker: WorkerId) -> PathBuf {
        self.logs().join("workers").join(format!("worker-{worker}.jsonl"))
    }

    pub fn task_log(&self, task: &TaskId) -> PathBuf {
        self.logs().join("tasks").join(format!("{task}.jsonl"))
    }

    /// Returns the log of one run of a gate. `at` is the level, or whatever else the gate ran on. In the gate's name,
    /// which comes from the configuration, characters that are unsafe in a file name become `_`.
    pub fn gate_log(&self, at: &impl Display, gate: &str, run: u32) -> PathBuf {
        let safe = |c: char| if c.is_alphanumeric() || matches!(c, '_' | '-' | ' ') { c } else { '_' };
        let name: String = gate.chars().take(60).map(safe).collect();
        self.logs().join("gates").join(format!("{at}-{name}.{run}.jsonl"))
    }

    /// Returns the file that names the gate that runs now.
    pub fn running_gate(&self) -> PathBuf {
        self.dir.join("slots").join("running.gate")
    }

    pub fn worktree(&self, worker: WorkerId) -> PathBuf {
        self.worktrees().join(format!("worker-{worker}"))
    }

    pub fn staging_worktree(&self) -> PathBuf {
        self.worktrees().join("staging")
    }

    /// Returns the full ref name of the branch on which a level is staged.
    pub fn staging_branch(&self) -> String {
        format!("refs/heads/mahabharatha/{}/staging", self.feature)
    }

    /// Returns the full ref name of the branch of the worker's worktree.
    pub fn worker_branch(&self, worker: WorkerId) -> String {
        format!("refs/heads/mahabharatha/{}/worker-{worker}", self.feature)
    }

    pub fn task_ref(&self, task: &TaskId) -> String {
        format!("refs/mahabharatha/{}/tasks/{task}", self.feature)
    }

    pub fn wip_ref(&self, task: &TaskId, attempt: Attempt) -> String {
        wip_ref(self.feature.as_str(), task.as_str(), attempt.0)
    }
}

/// Returns the job directory of an attempt. `feature_dir` is what `FeaturePaths::dir` returns.
pub fn job_dir(feature_dir: &Path, task: &TaskId, attempt: Attempt) -> PathBuf {
    feature_dir.join("jobs").join(format!("{task}.{attempt}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn paths(root: &Path) -> FeaturePaths {
        let feature = Feature::new("user-auth").unwrap();
        FeaturePaths::new(&root.join(".gsd"), &root.join(".mahabharatha"), &root.join(".git/mahabharatha"), &feature)
    }

    #[test]
    fn everything_is_where_the_contract_says() {
        let at = paths(Path::new("/p"));
        let (task, attempt, worker) = (TaskId::new("TASK-001").unwrap(), Attempt(2), WorkerId(3));
        let expected = [
            (at.journal(), "/p/.git/mahabharatha/user-auth/events.jsonl"),
            (at.planning_costs(), "/p/.git/mahabharatha/user-auth/planning.jsonl"),
            (at.interview_draft(), "/p/.git/mahabharatha/user-auth/interview.md"),
            (at.job(&task, attempt), "/p/.git/mahabharatha/user-auth/jobs/TASK-001.2"),
            (at.holder_file(), "/p/.gsd/specs/user-auth/.lock"),
            (at.graph(), "/p/.gsd/specs/user-auth/task-graph.json"),
            (at.task_file(&task), "/p/.gsd/specs/user-auth/tasks/TASK-001.md"),
            (at.projection(), "/p/.mahabharatha/state/user-auth.json"),
            (at.worker_log(worker), "/p/.mahabharatha/logs/user-auth/workers/worker-3.jsonl"),
            (at.task_log(&task), "/p/.mahabharatha/logs/user-auth/tasks/TASK-001.jsonl"),
            (at.gate_log(&1, "lint/../x", 2), "/p/.mahabharatha/logs/user-auth/gates/1-lint____x.2.jsonl"),
            (at.worktree(worker), "/p/.mahabharatha/worktrees/user-auth/worker-3"),
            (at.staging_worktree(), "/p/.mahabharatha/worktrees/user-auth/staging"),
        ];
        for (path, text) in expected {
            assert_eq!(path, Path::new(text));
        }
        assert_eq!(at.staging_branch(), "refs/heads/mahabharatha/user-auth/staging");
        assert_eq!(at.worker_branch(worker), "refs/heads/mahabharatha/user-auth/worker-3");
        assert_eq!(at.task_ref(&task), "refs/mahabharatha/user-auth/tasks/TASK-001");
        assert_eq!(at.wip_ref(&task, attempt), "refs/mahabharatha/user-auth/wip/TASK-001/2");
    }

    #[test]
    fn documents_are_read_by_either_name_and_written_in_lower_case() {
        let dir = tempfile::tempdir().unwrap();
        let at = paths(dir.path());
        assert_eq!(at.requirements(), at.specs().join("requirements.md"));
        fs::create_dir_all(at.specs()).unwrap();
        fs::write(at.specs().join("REQUIREMENTS.md"), "").unwrap();
        fs::write(at.specs().join("ARCHITECTURE.md"), "").unwrap();
        assert_eq!(at.requirements(), at.specs().join("REQUIREMENTS.md"));
        assert_eq!(at.design(), at.specs().join("ARCHITECTURE.md"));
        fs::write(at.specs().join("design.md"), "").unwrap();
        assert_eq!(at.design(), at.specs().join("design.md"));
    }
}
