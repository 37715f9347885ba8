//! `.mahabharatha/config.yaml`: its keys and their defaults.
//!
//! Called by `engine/specs`, which reads the file, and by `init`. Must never stop at the first problem or guess a
//! value for a wrong one.

mod accepted;
mod agents;
mod decode;
mod generated;
mod inputs;
pub(crate) mod read;
mod shape;
#[cfg(test)]
mod tests;
pub(crate) mod yaml;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::isolation::Isolation;
pub use agents::{AgentConfig, Format, PathRules, RoutePolicy, Routing};
pub use decode::WORKERS;
pub use generated::{Generated, is_lock_file};
pub use inputs::SetupInputs;

use crate::graph::Rules;
use crate::run::Roster;
use crate::run::event::{Amend, Backoff, BackoffStrategy, CleanGates, Policy, Schedule};
use crate::seconds::milliseconds;
use crate::secrets::Allowed;
use crate::spec::TaskSpec;

#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub project: Project,
    pub run: RunConfig,
    pub workers: Workers,
    pub launcher: Launcher,
    pub resources: Resources,
    pub quality_gates: Vec<Gate>,
    pub gates: Gates,
    pub ports: Ports,
    pub retry: Retry,
    pub plugins: Plugins,
    /// The default agent, for tasks that name none.
    pub agent: String,
    pub agents: BTreeMap<String, AgentConfig>,
    pub routing: Routing,
    pub env: Env,
    pub merge: Merge,
    pub budget: Budget,
    pub ownership: Ownership,
    pub claude_tasks: ClaudeTasks,
    pub cleanup: Cleanup,
    pub logs: Logs,
    pub worktrees: Worktrees,
    pub security: Security,
    pub sandbox: Sandbox,
    pub secrets: Secrets,
    pub notify: Notify,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    pub name: Option<String>,
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunConfig {
    pub schedule: Schedule,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Workers {
    pub count: u32,
    /// `timeout_minutes`: how long one attempt may take.
    pub timeout: Duration,
    /// Fraction of the agent's context window at which it is stopped for a checkpoint.
    pub context_threshold: f64,
    /// `stall_minutes`: an attempt is stopped after this long without output or changes.
    pub stall: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Launcher {
    /// `type`
    pub kind: LauncherKind,
    pub engine: ContainerEngine,
    /// The network of containers: `none`, `bridge`, or the name of one.
    pub network: String,
}

/// The program that runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerEngine {
    /// Docker where it answers, else Podman.
    Auto,
    Docker,
    Podman,
}

/// Limits of each container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    pub cpus: f64,
    /// `memory`, in bytes.
    pub memory: u64,
    /// Largest number of processes and threads.
    pub pids: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LauncherKind {
    Subprocess,
    Container,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    pub name: String,
    pub command: String,
    /// In seconds.
    pub timeout: Duration,
    /// If false, a failure is only reported and blocks nothing.
    pub required: bool,
    /// A security scanner: what it prints may be SARIF.
    pub security: bool,
    /// File in which the command leaves its findings as SARIF.
    pub sarif: Option<String>,
}

/// How gates are run.
#[derive(Debug, Clone, PartialEq)]
pub struct Gates {
    pub clean: CleanGates,
    /// Patterns, in the syntax of `.gitignore`, of files that a clean checkout keeps.
    pub caches: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Ports {
    pub range_start: u16,
    pub range_end: u16,
    pub per_worker: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    pub max_attempts: u32,
    pub strategy: BackoffStrategy,
    /// `base_seconds`
    pub base: Duration,
    /// `max_seconds`
    pub max: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Plugins {
    pub context_engineering: ContextEngineering,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ContextEngineering {
    pub enabled: bool,
    pub command_splitting: bool,
    pub security_rule_filtering: bool,
    pub task_context_budget_tokens: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Env {
    /// Variables of the caller that every child process gets.
    pub pass: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Merge {
    pub target: MergeTarget,
    pub remediation_attempts: u32,
    /// Runs in staging before the gates.
    pub prepare: Option<String>,
    pub approval: MergeApproval,
}

/// What a user must approve before it is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeApproval {
    None,
    Level,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeTarget {
    Base,
    Staging,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    pub max_usd: Option<f64>,
    pub max_usd_per_task: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Ownership {
    pub generated: Generated,
    pub amend: Amend,
    /// Several tasks may own a path if dependencies order them.
    pub sequential: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClaudeTasks {
    /// Show the feature's tasks in the client's task list.
    pub enabled: bool,
    /// Give agents the tools that read and change that list.
    pub worker_tools: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Cleanup {
    pub on_completion: bool,
    /// Keep worktrees of a completed run, with what was built there, for its next run.
    pub keep_worktrees: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Logs {
    /// `max_mb`: size at which a log is rotated.
    pub max_bytes: u64,
    /// `keep_days`: logs that were not written to for so long are removed when a run starts; `None`: never.
    pub keep: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Worktrees {
    /// The directory for them; `~/` is the home directory, a relative path is below the main checkout.
    pub dir: Option<String>,
    /// Command that makes a worktree ready to work, such as `npm ci`.
    pub setup: Option<String>,
    /// Files on which the result of `setup` depends.
    pub setup_inputs: SetupInputs,
    /// Ignored directories of which a new worktree gets a copy.
    pub warm: Vec<String>,
    /// Most bytes to copy into a worktree for `warm` where the file system cannot share blocks.
    pub warm_limit: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Security {
    pub rules_repository: Option<String>,
}

/// How untrusted programs are confined.
#[derive(Debug, Clone, PartialEq)]
pub struct Sandbox {
    pub mode: SandboxMode,
    /// Further paths that confined programs may read; `~/` is the home directory.
    pub read: Vec<String>,
    /// Further paths that confined programs may write.
    pub write: Vec<String>,
    /// Whether verifications and gates may use the network.
    pub network: bool,
}

/// The sandbox that the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// The strongest one that works on this machine.
    Auto,
    Bwrap,
    Landlock,
    #[serde(rename = "sandbox-exec")]
    SandboxExec,
    Off,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Secrets {
    /// Findings of the secret scan that are none.
    pub allow: Vec<Allowed>,
}

/// How the user is told about a run that needs or deserves attention.
#[derive(Debug, Clone, PartialEq)]
pub struct Notify {
    /// Ring the terminal's bell.
    pub bell: bool,
    /// Show a notification on the desktop, by `notify-send`.
    pub desktop: bool,
    /// Gets each notice as JSON on standard input.
    pub command: Option<String>,
    pub on: Vec<NoticeKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// The feature, or the level that was asked for, is merged.
    Completed,
    /// A task or the run cannot go on without the user.
    Blocked,
    /// A task needs a decision or a person.
    Question,
    /// A gate failed for good, a level conflicts, or the run broke off.
    Failed,
    /// A budget is used up.
    Budget,
    /// The agents' service is at its limit; launches wait.
    Quota,
}

impl NoticeKind {
    pub const ALL: [(&'static str, NoticeKind); 6] = [
        ("completed", NoticeKind::Completed),
        ("blocked", NoticeKind::Blocked),
        ("question", NoticeKind::Question),
        ("failed", NoticeKind::Failed),
        ("budget", NoticeKind::Budget),
        ("quota", NoticeKind::Quota),
    ];
}

/// A problem in the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigProblem {
    /// 1-based line and column.
    pub at: Option<(usize, usize)>,
    /// The full key, such as `workers.count`; empty for the file as a whole.
    pub key: String,
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "line {line}, column {column}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::parse("").expect("an empty file means all defaults, as a test checks")
    }
}

impl Config {
    pub fn agent(&self, name: &str) -> Option<&AgentConfig> {
        self.agents.get(name)
    }

    /// Returns the agent that does a task, or the name of one that does not exist: the task's own, else the one asked for,
    /// else the default. A task with a `run` command of its own needs no coding agent.
    pub fn agent_for<'a>(
        &'a self,
        task: &'a TaskSpec,
        asked: Option<&'a str>,
    ) -> Result<(&'a str, &'a AgentConfig), &'a str> {
        let name = task.agent.as_deref().or(asked).unwrap_or(&self.agent);
        let found = self.agent(name).ok_or(name)?;
        let needs_no_model = found.is_coding_agent() && task.agent.is_none() && task.run.is_some();
        match self.agent("command").filter(|_| needs_no_model) {
            Some(command) => Ok(("command", command)),
            None => Ok((name, found)),
        }
    }

    /// Returns what a task graph may have.
    pub fn graph_rules(&self) -> Rules {
        Rules { sequential: self.ownership.sequential }
    }

    /// Returns the policy of a run; options of the command line take precedence over the configuration.
    pub fn policy(
        &self,
        isolation: Isolation,
        workers: Option<u32>,
        allow_red_base: bool,
        max_cost: Option<f64>,
    ) -> Policy {
        Policy {
            isolation,
            workers: workers.unwrap_or(self.workers.count),
            max_attempts: self.retry.max_attempts,
            backoff: Backoff {
                strategy: self.retry.strategy,
                base_ms: milliseconds(self.retry.base),
                max_ms: milliseconds(self.retry.max),
            },
            remediation_attempts: self.merge.remediation_attempts,
            has_gates: !self.quality_gates.is_empty() || self.merge.prepare.is_some(),
            allow_red_base,
            max_usd: max_cost.or(self.budget.max_usd),
            max_usd_per_task: self.budget.max_usd_per_task,
            onto_staging: self.merge.target == MergeTarget::Staging,
            clean_gates: self.gates.clean,
            waits_for_limits: true,
            accepted: self.accepted(),
            approval: self.merge.approval == MergeApproval::Level,
            amend: self.ownership.amend,
            schedule: self.run.schedule,
            roster: Roster::default(),
        }
    }
}
