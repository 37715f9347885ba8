//! What every effect needs to know.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mahabharatha_core::config::{Config, MergeTarget};
use mahabharatha_core::graph::TaskGraph;
use mahabharatha_core::ids::Oid;
use mahabharatha_core::run::Run;
use mahabharatha_core::run::effect::Job;

use super::integrate::{Cancel, Integration};
use super::ports::PortLease;
use crate::error::{Error, ExitCode, Result};
use crate::git::{Git, Identity, Pinned};
use crate::launch::subprocess;
use crate::project::{FeaturePaths, Project};
use crate::session;
use crate::agent::AgentOrder;
use crate::worker::{Limits, Logs, Order};

/// How long agents have to end by themselves when nobody says otherwise.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Context(Arc<Inner>);

pub struct Inner {
    pub project: Project,
    pub paths: FeaturePaths,
    pub config: Config,
    pub repository: Git,
    pub program: PathBuf,
    pub cancel: Cancel,
    pub start: Oid,
    graph: Arc<TaskGraph>,
    base_branch: String,
    pinned: Pinned,
    identity: Identity,
    agent: Option<String>,
    ports: Vec<PortLease>,
}

impl std::ops::Deref for Context {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Context {
    pub fn new(
        project: &Project,
        paths: &FeaturePaths,
        config: Config,
        agent: Option<String>,
        run: &Run,
        ports: Vec<PortLease>,
    ) -> Result<Context> {
        let repository = Git::repository(project.common_dir());
        Ok(Context(Arc::new(Inner {
            identity: repository.identity()?,
            project: project.clone(),
            paths: paths.clone(),
            program: subprocess::own_program()?,
            cancel: Cancel::default(),
            start: run.setup().start.clone(),
            graph: Arc::clone(run.graph()),
            base_branch: run.setup().base_branch.clone(),
            pinned: Pinned(run.setup().git_config.clone()),
            config,
            repository,
            agent,
            ports,
        })))
    }
}

impl Inner {
    pub fn grace(&self) -> Duration {
        GRACE
    }

    /// Where levels land.
    pub fn landing_branch(&self) -> String {
        match self.config.merge.target {
            MergeTarget::Base => self.base_branch.clone(),
            MergeTarget::Staging => self.paths.staging_branch(),
        }
    }

    /// What a worker needs to know about its job.
    pub fn order(&self, job: &Job) -> Result<Order> {
        let task = self
            .graph
            .task(&job.task)
            .ok_or_else(|| Error::new(ExitCode::Failed, format!("there is no task {}", job.task)))?;
        let (_, agent) = session::agent_for(&self.config, &task.spec, self.agent.as_deref())?;
        let worktree = self.paths.worktree(job.worker);
        let worktree_git_dir = self.repository.worktree_git_dir(&worktree)?.ok_or_else(|| {
            Error::new(ExitCode::Failed, format!("{} is no worktree of this repository any more", worktree.display()))
        })?;
        Ok(Order {
            feature: self.paths.feature().clone(),
            job: job.clone(),
            task: task.spec.clone(),
            owned: task.owned.clone(),
            root: self.project.root().to_owned(),
            common_dir: self.project.common_dir().to_owned(),
            worktree,
            worktree_git_dir,
            branch: self.paths.worker_branch(job.worker),
            spec_dir: self.paths.specs().to_owned(),
            pinned: self.pinned.clone(),
            identity: self.identity.clone(),
            agent: AgentOrder::new(agent, &task.spec),
            env_pass: self.config.env.pass.clone(),
            ports: self.ports.get(job.worker.0 as usize).map(|lease| lease.ports.clone()).unwrap_or_default(),
            task_list_id: Some(self.paths.feature().to_string()),
            limits: Limits {
                attempt_ms: millis(self.config.workers.timeout),
                stall_ms: millis(self.config.workers.stall),
                grace_ms: millis(GRACE),
            },
            generated: self.config.ownership.generated.patterns().map(str::to_owned).collect(),
            logs: Logs { worker: self.paths.worker_log(job.worker), task: self.paths.task_log(&job.task) },
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
