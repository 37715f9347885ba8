//! Job spec: everything an attempt needs to know. The worker gets it on standard input. A copy in the job directory is read by
//! sessions, by `sandbox --task` and when leftovers are saved.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::{Feature, WorkerId};
use mahabharatha_core::run::effect::{Job, Purpose};
use mahabharatha_core::secrets::Allowed;
use mahabharatha_core::spec::TaskSpec;
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::git::{Identity, Pinned, short_branch};
use mahabharatha_sys::proc::{MARKER, base_env};
use mahabharatha_sys::project;
use mahabharatha_sys::store::atomic::write_projected;
use serde::{Deserialize, Serialize};

use crate::agent::AgentSpec;
use crate::agent::claude::TASK_LIST;
use crate::confinement::Confinement;
use crate::provision::Setup;
use crate::provision::warm::Warm;

pub const FILE: &str = "spec.json";
/// Environment variable that names the worktree to a program that works in it.
pub const WORKTREE_VARIABLE: &str = "MAHABHARATHA_WORKTREE";

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
    /// Branch that is checked out in the worktree, as a full ref name.
    pub branch: String,
    pub spec_dir: PathBuf,
    pub pinned: Pinned,
    pub identity: Identity,
    pub agent: AgentSpec,
    /// How agent and verification are confined.
    pub confinement: Confinement,
    /// Environment variables of the caller that every child process inherits.
    pub env_pass: Vec<String>,
    /// Names of variables that the caller has and that no command gets, to explain failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_variables: Vec<String>,
    pub ports: Vec<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_list_id: Option<String>,
    pub limits: Limits,
    /// What makes the worktree ready to work, if anything is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
    /// What a new worktree gets from the main checkout, if anything is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<Warm>,
    /// Patterns of generated files, beside the built-in ones.
    pub generated: Vec<String>,
    /// Findings of the secret scan that the configuration allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_secrets: Vec<Allowed>,
    pub logs: Logs,
    pub context: PromptContext,
}

/// Input of the prompt besides the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptContext {
    pub project: PathBuf,
    pub requirements: PathBuf,
    pub design: PathBuf,
    /// Decisions that the user made during the run.
    pub decisions: Vec<String>,
    pub max_attempts: u32,
    /// `None`: the prompt has only the task, no documents.
    pub budget_tokens: Option<u32>,
    pub rules: Rules,
}

/// Which of the project's security rules go into the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rules {
    All,
    /// Only those that concern the task's files.
    OfTheTask,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Time limit of the agent.
    pub attempt_ms: u64,
    /// Longest time without output and without a changed file.
    pub stall_ms: u64,
    /// Time between SIGTERM and SIGKILL.
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
    /// Size at which a log is rotated.
    pub max_bytes: u64,
}

const SLOTS: &str = "slots";

/// Returns the directory with the files of all workers' slots.
pub fn slots_dir(feature_dir: &Path) -> PathBuf {
    feature_dir.join(SLOTS)
}

pub fn slot_file(feature_dir: &Path, worker: WorkerId, extension: &str) -> PathBuf {
    slots_dir(feature_dir).join(format!("worker-{worker}.{extension}"))
}

/// Returns the ref for a job's verified commit.
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
        let bytes = bounded::read(&path, LARGE_FILE_BYTES).map_err(io("read", &path))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::new(Kind::Invalid, format!("{} is not a job spec: {error}", path.display())))
    }

    /// Reads what `as_input` wrote.
    pub fn from_input(mut input: impl Read) -> Result<JobSpec> {
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes).map_err(Error::caused("cannot read the job spec from standard input"))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::new(Kind::Invalid, format!("standard input is not a job spec: {error}")))
    }

    /// Returns the spec as a file that has no name, so that no agent can replace it before the worker reads it.
    pub fn as_input(&self, job_dir: &Path) -> Result<File> {
        let mut file = tempfile::tempfile_in(job_dir).map_err(io("make a file in", job_dir))?;
        file.write_all(&self.bytes()?).and_then(|()| file.rewind()).map_err(io("write a file in", job_dir))?;
        Ok(file)
    }

    pub fn write(&self, job_dir: &Path) -> Result<()> {
        // An attempt begins with this file, so losing it in a power failure is safe.
        write_projected(&job_dir.join(FILE), &self.bytes()?)
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(Error::caused("cannot write a job spec"))
    }

    /// Returns the directory with the worktrees of all features.
    pub fn worktrees_dir(&self) -> &Path {
        self.worktree.ancestors().nth(2).unwrap_or(&self.worktree)
    }

    pub fn result_ref(&self) -> String {
        result_ref(&self.feature, &self.job)
    }

    /// Returns a file in this worker's slot, which outlives the attempt.
    pub fn slot_file(&self, extension: &str) -> PathBuf {
        slot_file(&self.feature_dir(), self.job.worker, extension)
    }

    /// Returns the lock file that decides which worker fills the service's prompt cache for this prefix.
    pub fn prompt_cache_file(&self, prefix: &str) -> PathBuf {
        self.slots_dir().join(format!("{prefix}.cache"))
    }

    pub fn slots_dir(&self) -> PathBuf {
        slots_dir(&self.feature_dir())
    }

    /// Returns the feature's directory of ours below the git directory.
    pub fn feature_dir(&self) -> PathBuf {
        self.common_dir.join("mahabharatha").join(self.feature.as_str())
    }

    /// Returns the agent's environment: that of the verification plus the variables only the agent gets.
    pub fn agent_environment(&self, workdir: &Path) -> BTreeMap<OsString, OsString> {
        let mut env = base_env(&self.agent.profile.env);
        env.extend(self.environment(workdir));
        env
    }

    /// Returns the environment of the verification, which runs code that the agent wrote. `workdir` is the worktree as
    /// programs see it.
    pub fn environment(&self, workdir: &Path) -> BTreeMap<OsString, OsString> {
        let mut env = base_env(&self.env_pass);
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        let job = &self.job;
        let texts = [
            ("MAHABHARATHA_WORKER_ID", job.worker.to_string()),
            ("MAHABHARATHA_FEATURE", self.feature.to_string()),
            ("MAHABHARATHA_TASK_ID", job.task.to_string()),
            ("MAHABHARATHA_ATTEMPT", job.attempt.to_string()),
            ("MAHABHARATHA_BRANCH", short_branch(&self.branch).to_owned()),
            ("MAHABHARATHA_PORTS", ports.join(",")),
            ("MAHABHARATHA_PORT", ports.first().cloned().unwrap_or_default()),
            (TASK_LIST, self.task_list_id.clone().unwrap_or_default()),
        ];
        env.extend(
            texts.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key.into(), value.into())),
        );
        env.insert(MARKER.into(), project::job_dir(&self.feature_dir(), &job.task, job.attempt).into());
        env.insert(WORKTREE_VARIABLE.into(), workdir.into());
        env.insert("MAHABHARATHA_SPEC_DIR".into(), self.spec_dir.clone().into());
        env
    }
}
