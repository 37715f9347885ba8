//! Project, configuration, repository and run settings shared by all effects of a run, and what is derived from them:
//! job specs, agent specs and the environment of gates.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use mahabharatha_core::config::Config;
use mahabharatha_core::estimate::{Actual, Estimate, Tally};
use mahabharatha_core::graph::{OwnedPath, Task, TaskGraph};
use mahabharatha_core::ids::{Oid, TaskId, WorkerId};
use mahabharatha_core::run::Run;
use mahabharatha_core::run::effect::{GRACE_PERIOD, Job};
use mahabharatha_core::spec::TaskSpec;
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::{Git, Identity, Pinned, short_branch};
use mahabharatha_sys::proc::{self, MARKER};
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::store::ports::PortLease;

use super::integrate::{Cancel, Integration, KnownFiles, Note, Verification, objection};
use crate::agent::{self, AgentSpec, Terms};
use crate::confinement::Confinement;
use crate::containers::Containers;
use crate::history::{self, Assumptions};
use crate::provision::Setup;
use crate::provision::warm::Warm;
use crate::report::state_md;
use crate::worker::{JobSpec, Limits, Logs, PromptContext, Rules, redactor};

#[derive(Clone)]
pub struct Context(Arc<Inner>);

pub struct Inner {
    pub project: Project,
    pub paths: FeaturePaths,
    pub config: Config,
    pub repository: Git,
    pub cancel: Cancel,
    known: KnownFiles,
    pub start: Oid,
    /// Changes when a task is granted a file.
    graph: RwLock<Arc<TaskGraph>>,
    base_branch: String,
    pinned: Pinned,
    identity: Identity,
    agent: Option<String>,
    max_attempts: u32,
    ports: Mutex<Vec<PortLease>>,
    /// Whether workers may run during integration.
    works_ahead: bool,
    /// Ports of gates and verifications, where workers run during integration.
    staging_ports: Mutex<Option<PortLease>>,
    confinement: Confinement,
}

impl std::ops::Deref for Context {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// Settings of the process that drives a run.
pub struct Settings {
    pub config: Config,
    /// The agent that the user asked for.
    pub agent: Option<String>,
    /// Ports of each worker.
    pub ports: Vec<PortLease>,
    /// The containers that programs run in, if any.
    pub containers: Option<Containers>,
}

impl Context {
    pub fn new(project: &Project, paths: &FeaturePaths, run: &Run, settings: Settings) -> Result<Context> {
        let Settings { config, agent, ports, containers } = settings;
        let containers = containers.map(|containers| containers.of_run(run.started_at()));
        let confinement = Confinement::new(&config.sandbox, run.policy().isolation).with_containers(containers);
        let repository = Git::repository(project.common_dir());
        Ok(Context(Arc::new(Inner {
            identity: project.identity()?,
            project: project.clone(),
            paths: paths.clone(),
            cancel: Cancel::default(),
            known: KnownFiles::default(),
            start: run.setup().start.clone(),
            graph: RwLock::new(Arc::clone(run.graph())),
            base_branch: run.setup().base_branch.clone(),
            pinned: confinement.confine_filters(Pinned(run.setup().git_config.clone()))?,
            max_attempts: run.policy().max_attempts,
            confinement,
            config,
            repository,
            agent,
            ports: Mutex::new(ports),
            works_ahead: run.works_ahead(),
            staging_ports: Mutex::default(),
        })))
    }
}

impl Inner {
    /// Takes over what tasks own now.
    pub fn update_graph(&self, run: &Run) {
        *self.graph.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(run.graph());
    }

    fn graph(&self) -> Arc<TaskGraph> {
        Arc::clone(&self.graph.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn ports_of(&self, worker: WorkerId) -> Vec<u16> {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.get(worker.0 as usize).map(|lease| lease.ports.clone()).unwrap_or_default()
    }

    /// Leases ports for a worker that the process did not begin with.
    pub fn lease_ports_for(&self, worker: WorkerId) -> Result<()> {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = (worker.0 as usize + 1).saturating_sub(ports.len());
        ports.extend(self.project.lease_ports(&self.config.ports, missing as u32)?);
        Ok(())
    }

    /// Returns the directory of integration: it holds its git directory and marks the processes that it runs.
    pub fn integration_dir(&self) -> PathBuf {
        self.paths.dir().join("integration")
    }

    /// Creates the integration's own git directory and returns the integration.
    pub fn integration(&self, report: impl Fn(Note) + Send + Sync + 'static) -> Result<Integration> {
        let owners = self.graph().tasks().iter().map(|task| (task.id.clone(), task.owned.clone())).collect();
        self.integration_in(&self.integration_dir(), owners, report)
    }

    /// Returns the job with the commit that its attempt really starts from: its base with the work on top that it needs and
    /// that is not merged yet. Repeatable, so that a job is recognised after a crash.
    pub fn based(&self, job: &Job) -> Result<Job> {
        if job.on.is_empty() {
            return Ok(job.clone());
        }
        // The integration renews its own git directory while attempts are started.
        let graph = self.graph();
        let tasks = job.on.iter().filter_map(|work| graph.task(&work.task));
        let owners = tasks.map(|task| (task.id.clone(), task.owned.clone())).collect();
        let bases = self.integration_in(&self.paths.dir().join("bases"), owners, |_| {})?;
        let base = bases.put_onto(&job.base, &job.on)?;
        crash::point(|| format!("job {} {} has its base", job.task, job.attempt));
        Ok(Job { base, on: Vec::new(), ..job.clone() })
    }

    fn integration_in(
        &self,
        dir: &Path,
        owners: BTreeMap<TaskId, Vec<OwnedPath>>,
        report: impl Fn(Note) + Send + Sync + 'static,
    ) -> Result<Integration> {
        Ok(Integration {
            project: self.project.clone(),
            paths: self.paths.clone(),
            repository: self.repository.clone(),
            objects: Git::objects(dir, self.project.common_dir(), &self.pinned)?,
            pinned: self.pinned.clone(),
            identity: self.identity.clone(),
            base_branch: self.base_branch.clone(),
            target: self.config.merge.target,
            prepare: self.config.merge.prepare.clone(),
            setup: Setup::of(&self.config.worktrees),
            warm: Warm::of(&self.config.worktrees),
            gates: self.config.quality_gates.clone(),
            caches: self.config.gates.caches.clone(),
            owners,
            env: self.integration_env()?,
            hidden_variables: proc::hidden_names(&self.config.env.pass),
            confinement: self.confinement.clone(),
            cancel: self.cancel.clone(),
            known: self.known.clone(),
            allowed_secrets: self.config.secrets.allow.clone(),
            max_log_bytes: self.config.logs.max_bytes,
            redactor: redactor(&self.passed_variables()),
            report: Box::new(report),
        })
    }

    /// Returns the names of all variables that any program of the run gets: what an agent wrote, a gate may print.
    fn passed_variables(&self) -> Vec<String> {
        let of_agents = self.config.agents.values().flat_map(|agent| agent.env.iter().cloned());
        self.config.env.pass.iter().cloned().chain(of_agents).collect()
    }

    /// Returns the ports of gates and verifications. If no worker runs during integration, those of the first one are
    /// free.
    fn integration_ports(&self) -> Result<Vec<u16>> {
        if !self.works_ahead {
            return Ok(self.ports_of(WorkerId(0)));
        }
        let mut lease = self.staging_ports.lock().unwrap_or_else(PoisonError::into_inner);
        if lease.is_none() {
            *lease = self.project.lease_ports(&self.config.ports, 1)?.pop();
        }
        Ok(lease.as_ref().map(|lease| lease.ports.clone()).unwrap_or_default())
    }

    /// Returns the environment of gates and verifications: that of an attempt, as far as it applies to staging.
    fn integration_env(&self) -> Result<BTreeMap<OsString, OsString>> {
        let mut env = proc::base_env(&self.config.env.pass);
        let ports: Vec<String> = self.integration_ports()?.iter().map(u16::to_string).collect();
        env.extend(ports.first().map(|port| ("MAHABHARATHA_PORT".into(), port.into())));
        env.extend((!ports.is_empty()).then(|| ("MAHABHARATHA_PORTS".into(), ports.join(",").into())));
        let branch = self.paths.staging_branch();
        let texts: [(&str, OsString); 4] = [
            (MARKER, self.integration_dir().into()),
            ("MAHABHARATHA_FEATURE", self.paths.feature().as_str().into()),
            ("MAHABHARATHA_BRANCH", short_branch(&branch).into()),
            ("MAHABHARATHA_SPEC_DIR", self.paths.specs().into()),
        ];
        env.extend(texts.map(|(key, value)| (key.into(), value)));
        Ok(env)
    }

    /// Returns the verifications of these tasks, to be run on the combined work of all.
    pub fn verifications(&self, run: &Run, tasks: &[TaskId]) -> Vec<Verification> {
        let tasks = tasks.iter().filter_map(|task| run.graph().task(task));
        let verified = tasks.filter(|task| !task.spec.verification.is_blank());
        verified
            .map(|task| Verification {
                task: task.id.clone(),
                command: task.spec.verification.command.clone(),
                timeout: Duration::from_secs(task.spec.verification.timeout_seconds),
            })
            .collect()
    }

    /// Returns the reasons to reject the commit as this job's result.
    pub fn objections_to(&self, job: &Job, commit: &Oid) -> Result<Vec<String>> {
        let commits = std::slice::from_ref(commit);
        let graph = self.graph();
        let owned = graph.task(&job.task).map_or(&[][..], |task| task.owned.as_slice());
        let texts = self.repository.read_commits(commits)?;
        let mut found: Vec<String> = Vec::new();
        if texts.iter().any(|text| text.parents != [job.base.clone()]) {
            found.push(format!("{} was not made on {}", commit.short(), job.base.short()));
        }
        let changes = self.repository.diff_commits(commits)?.into_iter().flatten();
        found.extend(changes.filter_map(|change| Some(format!("{} {}", change.path, objection(&change, owned)?))));
        Ok(found)
    }

    /// Returns the decisions of the run's agents and those that users noted in `STATE.md`.
    fn decisions(&self, run: &Run) -> Vec<String> {
        let state = bounded::read(&self.project.state_file(), LARGE_FILE_BYTES).unwrap_or_default();
        state_md::decisions(&state, run)
    }

    /// Returns what the run was expected to take, by the history before it, what it took so far, and what the attempts of
    /// each agent came to with it.
    pub fn estimate(&self, run: &Run) -> Result<Option<(Estimate, Actual, Vec<Tally>)>> {
        let Some(observed) = history::observe(&self.paths)? else { return Ok(None) };
        let mut history = history::load(&self.project, self.paths.feature(), Some(run.started_at())).history;
        let assumptions = Assumptions { workers: run.policy().workers, agent: self.agent.clone(), model: None };
        let estimate = history::estimate(run.graph(), &self.config, &history, &assumptions);
        history.add(&observed);
        Ok(Some((estimate, observed.actual(), history.tallies())))
    }

    fn task(&self, job: &Job) -> Result<Task> {
        let missing = || Error::new(Kind::Failed, format!("there is no task {}", job.task));
        self.graph().task(&job.task).cloned().ok_or_else(missing)
    }

    /// Returns the job spec for a worker.
    pub fn spec(&self, job: &Job, run: &Run) -> Result<JobSpec> {
        let mut task = self.task(job)?;
        task.spec.files.modify.extend(run.granted_to(&job.task));
        let worktree = self.paths.worktree(job.worker);
        let worktree_git_dir = self.repository.worktree_git_dir(&worktree).ok_or_else(|| {
            Error::new(Kind::Failed, format!("{} is no worktree of this repository any more", worktree.display()))
        })?;
        let engineering = &self.config.plugins.context_engineering;
        let agent = self.agent_spec(job)?;
        Ok(JobSpec {
            feature: self.paths.feature().clone(),
            job: job.clone(),
            task: TaskSpec::clone(&task.spec),
            owned: task.owned.clone(),
            root: self.project.root().to_owned(),
            common_dir: self.project.common_dir().to_owned(),
            worktree,
            worktree_git_dir,
            branch: self.paths.worker_branch(job.worker),
            spec_dir: self.paths.specs().to_owned(),
            pinned: self.pinned.clone(),
            identity: self.identity.clone(),
            confinement: self.confinement.clone(),
            env_pass: self.config.env.pass.clone(),
            hidden_variables: proc::hidden_names(&self.config.env.pass),
            ports: self.ports_of(job.worker),
            task_list_id: Some(self.paths.feature().to_string()),
            limits: Limits {
                attempt_ms: millis(self.config.workers.timeout),
                stall_ms: millis(agent.profile.stall.unwrap_or(self.config.workers.stall)),
                grace_ms: millis(GRACE_PERIOD),
            },
            setup: Setup::of(&self.config.worktrees),
            warm: Warm::of(&self.config.worktrees),
            generated: self.config.ownership.generated.added().map(str::to_owned).collect(),
            allowed_secrets: self.config.secrets.allow.clone(),
            context: PromptContext {
                project: self.project.project_file(),
                requirements: self.paths.requirements(),
                design: self.paths.design(),
                decisions: self.decisions(run),
                max_attempts: self.max_attempts,
                budget_tokens: engineering.enabled.then_some(engineering.task_context_budget_tokens),
                rules: if engineering.security_rule_filtering { Rules::OfTheTask } else { Rules::All },
            },
            agent,
            logs: Logs {
                worker: self.paths.worker_log(job.worker),
                task: self.paths.task_log(&job.task),
                max_bytes: self.config.logs.max_bytes,
            },
        })
    }
}

impl Inner {
    /// Returns the agent that the configuration names for a job.
    pub fn agent_spec(&self, job: &Job) -> Result<AgentSpec> {
        let task = self.task(job)?;
        let chosen = job.performer.agent().and_then(|name| Some((name, self.config.agent(name)?)));
        let (name, agent) = match chosen {
            Some(found) => found,
            None => agent::choose(&self.config, &task.spec, self.agent.as_deref())?,
        };
        Ok(AgentSpec { name: name.to_owned(), profile: agent.clone(), terms: self.terms(job) })
    }

    fn terms(&self, job: &Job) -> Terms {
        let gates = self.config.quality_gates.iter().map(|gate| gate.command.clone());
        Terms {
            max_usd: job.max_usd,
            context_threshold: self.config.workers.context_threshold,
            task_tools: self.config.claude_tasks.worker_tools,
            commands: gates.chain(self.config.merge.prepare.clone()).collect(),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
