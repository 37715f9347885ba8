//! What the orchestrator wants: everything that an attempt needs to know, in one file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::{Feature, WorkerId};
use mahabharatha_core::run::effect::{Job, Purpose};
use mahabharatha_core::spec::TaskSpec;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::git::{Identity, Pinned};
use mahabharatha_sys::proc::{MARKER, base_env};
use mahabharatha_sys::store::atomic::write_projected;
use serde::{Deserialize, Serialize};

use crate::agent::AgentSpec;

pub const FILE: &str = "spec.json";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    pub feature: Feature,
    pub job: Job,
    pub task: TaskSpec,
    pub owned: Vec<OwnedPath>,
    /// The main checkout.
    pub root: PathBuf,
    /// The repository's git directory, common to all worktrees.
    pub common_dir: PathBuf,
    pub worktree: PathBuf,
    /// The worktree's own directory below `<common>/worktrees`.
    pub worktree_git_dir: PathBuf,
    /// Where the worktree stands, as a full ref name.
    pub branch: String,
    pub spec_dir: PathBuf,
    pub pinned: Pinned,
    pub identity: Identity,
    pub agent: AgentSpec,
    /// Variables of the caller that every child gets.
    pub env_pass: Vec<String>,
    pub ports: Vec<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_list_id: Option<String>,
    pub limits: Limits,
    /// Patterns of generated files, beside the built-in ones.
    pub generated: Vec<String>,
    pub logs: Logs,
    pub context: PromptContext,
}

/// What the prompt is made from beside the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptContext {
    pub project: PathBuf,
    pub requirements: PathBuf,
    pub design: PathBuf,
    /// What people decided on the way.
    pub decisions: Vec<String>,
    pub max_attempts: u32,
    /// None: the task alone.
    pub budget_tokens: Option<u32>,
    pub rules: Rules,
}

/// Which of the project's security rules an agent is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rules {
    All,
    /// Those that concern the files of its task.
    OfTheTask,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// For the agent.
    pub attempt_ms: u64,
    /// Without output and without change.
    pub stall_ms: u64,
    /// Between SIGTERM and SIGKILL.
    pub grace_ms: u64,
}

impl Limits {
    pub fn attempt(&self) -> Duration {
        Duration::from_millis(self.attempt_ms)
    }

    pub fn stall(&self) -> Duration {
        Duration::from_millis(self.stall_ms)
    }

    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logs {
    pub worker: PathBuf,
    pub task: PathBuf,
}

pub const SLOTS: &str = "slots";

pub fn slot_file(feature_dir: &Path, worker: WorkerId, extension: &str) -> PathBuf {
    feature_dir.join(SLOTS).join(format!("worker-{worker}.{extension}"))
}

/// Where verified work goes.
pub fn result_ref(feature: &Feature, job: &Job) -> String {
    let kind = match job.purpose {
        Purpose::Build => "tasks",
        Purpose::Fix { .. } => "fixes",
    };
    format!("refs/mahabharatha/{feature}/{kind}/{}", job.task)
}

impl JobSpec {
    pub fn read(job_dir: &Path) -> Result<JobSpec> {
        let path = job_dir.join(FILE);
        let bytes = fs::read(&path).map_err(io("read", &path))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::new(Kind::Invalid, format!("{} is not a job spec: {error}", path.display())))
    }

    pub fn write(&self, job_dir: &Path) -> Result<()> {
        let path = job_dir.join(FILE);
        let bytes =
            serde_json::to_vec_pretty(self).map_err(Error::caused(format_args!("cannot write {}", path.display())))?;
        // Without it the attempt has not begun.
        write_projected(&path, &bytes)
    }

    pub fn result_ref(&self) -> String {
        result_ref(&self.feature, &self.job)
    }

    /// What is ours in this worker's slot, from one attempt to the next.
    pub fn slot_file(&self, extension: &str) -> PathBuf {
        slot_file(&self.feature_dir(), self.job.worker, extension)
    }

    /// The file by which workers agree on who fills the service's cache for this prefix.
    pub fn prompt_cache_file(&self, prefix: &str) -> PathBuf {
        self.slots_dir().join(format!("{prefix}.cache"))
    }

    pub fn slots_dir(&self) -> PathBuf {
        self.feature_dir().join(SLOTS)
    }

    fn feature_dir(&self) -> PathBuf {
        self.common_dir.join("mahabharatha").join(self.feature.as_str())
    }

    /// The environment of the agent: that of the verification, and what the agent alone is given.
    pub fn agent_environment(&self) -> BTreeMap<OsString, OsString> {
        let mut env = base_env(&self.agent.env_pass);
        env.extend(self.environment());
        env
    }

    /// The environment of the verification, which runs what the agent wrote.
    pub fn environment(&self) -> BTreeMap<OsString, OsString> {
        let mut env = base_env(&self.env_pass);
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        let job = &self.job;
        let texts = [
            ("MAHABHARATHA_WORKER_ID", job.worker.to_string()),
            ("MAHABHARATHA_FEATURE", self.feature.to_string()),
            ("MAHABHARATHA_TASK_ID", job.task.to_string()),
            ("MAHABHARATHA_ATTEMPT", job.attempt.to_string()),
            ("MAHABHARATHA_BRANCH", self.branch.strip_prefix("refs/heads/").unwrap_or(&self.branch).to_owned()),
            ("MAHABHARATHA_PORTS", ports.join(",")),
            ("MAHABHARATHA_PORT", ports.first().cloned().unwrap_or_default()),
            ("CLAUDE_CODE_TASK_LIST_ID", self.task_list_id.clone().unwrap_or_default()),
        ];
        env.extend(
            texts.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key.into(), value.into())),
        );
        env.insert(MARKER.into(), self.feature_dir().join(format!("jobs/{}.{}", job.task, job.attempt)).into());
        env.insert("MAHABHARATHA_WORKTREE".into(), self.worktree.clone().into());
        env.insert("MAHABHARATHA_SPEC_DIR".into(), self.spec_dir.clone().into());
        env
    }
}
