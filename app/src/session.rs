//! One process's part in a run: lock, check, journal, drive, tell.

mod changed_graph;

use std::fs;
use std::sync::Arc;

use jiff::Timestamp;
use mahabharatha_core::config::{AgentConfig, AgentKind, Config, LauncherKind};
use mahabharatha_core::graph::{Severity, TaskGraph};
use mahabharatha_core::ids::{Level, Oid, Time};
use mahabharatha_core::plan::{Plan, worker_assignments};
use mahabharatha_core::run::event::{Event, Intent, Policy, Setup};
use mahabharatha_core::run::{End, LevelStatus, Run, drive, replay};
use mahabharatha_core::spec::{GraphFile, TaskSpec};

use crate::error::{Error, ExitCode, Result, io};
use crate::git::Git;
use crate::host::{Context, LocalHost};
use crate::preflight;
use crate::proc;
use crate::project::{FeaturePaths, Project};
use crate::report::{Reporter, files};
use crate::specs;
use crate::store::atomic::write_atomic;
use crate::store::journal::Journal;
use crate::store::locks::FeatureLock;
use crate::store::ports::{self, PortLease};
use crate::store::projection;
use crate::ui::Ui;

/// How a process means to take part.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where workers run; nothing: as the configuration says.
    pub launcher: Option<LauncherKind>,
    pub workers: Option<u32>,
    pub intent: Intent,
    pub agent: Option<String>,
    pub max_cost: Option<f64>,
    pub allow_red_base: bool,
}

/// What became of it.
pub enum Outcome {
    /// There was nothing to do: the feature is completed.
    AlreadyCompleted,
    Ended(End),
}

/// The commit that the feature's run started from, where there has been one.
pub fn started_from(paths: &FeaturePaths) -> Result<Option<Oid>> {
    let records = Journal::read(&paths.journal())?;
    Ok(records.iter().find_map(|record| match &record.event {
        Event::Started(setup) => Some(setup.start.clone()),
        _ => None,
    }))
}

pub fn load_config(project: &Project) -> Result<Config> {
    let path = project.config_file();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            return Err(Error::new(ExitCode::Invalid, format!("{} is not UTF-8 text", path.display())));
        }
        Err(error) => return Err(io("read", &path)(error)),
    };
    Config::parse(&text).map_err(|problems| {
        let start = Error::new(ExitCode::Invalid, format!("{} is not valid", path.display()));
        problems
            .iter()
            .fold(start, |error, problem| error.detail(problem.to_string()))
            .hint("docs/config.md lists every key.")
    })
}

/// Takes the feature's lock, starts or resumes its run, and carries it as far as was asked.
pub fn run(project: &Project, paths: &FeaturePaths, ui: &Arc<Ui>, options: &Options) -> Result<Outcome> {
    let lock = FeatureLock::try_acquire(paths.dir(), &paths.lock_sign())?
        .map_err(|holder| holder.refusal(paths.feature()))?;
    let config = load_config(project)?;
    check_launcher(options.launcher.unwrap_or(config.launcher.kind))?;
    let session = Session { project, paths, ui, options, config };
    projection::make_home(&project.home())?;
    let (mut journal, records) = Journal::open_for_append(&lock, paths.feature())?;
    let earlier = replay(records.iter().map(|record| (record.at, &record.event)))
        .map_err(|why| Error::new(ExitCode::Invalid, format!("{}: {why}", paths.journal().display())))?;
    let begun = match earlier {
        None => session.start(&mut journal)?,
        Some(run) => {
            let changed = changed_graph::find(project, paths, &run, ui)?;
            if changed.is_none() && run.ended() == Some(&End::Completed) {
                return Ok(Outcome::AlreadyCompleted);
            }
            session.resume(&mut journal, run, changed)?
        }
    };
    drop(records);
    let end = session.carry_on(journal, begun)?;
    drop(lock);
    Ok(Outcome::Ended(end))
}

/// What cannot be had is an error, never something else instead.
pub fn check_launcher(kind: LauncherKind) -> Result<()> {
    if kind != LauncherKind::Container {
        return Ok(());
    }
    Err(Error::new(ExitCode::Preflight, "workers in containers are not available in this version")
        .hint("Use --mode subprocess, or launcher.type: subprocess in .mahabharatha/config.yaml."))
}

/// What a process works with while it holds the feature.
struct Session<'a> {
    project: &'a Project,
    paths: &'a FeaturePaths,
    ui: &'a Arc<Ui>,
    options: &'a Options,
    config: Config,
}

/// A run that this process is about to carry on, and the event by which it took part.
struct Begun {
    run: Run,
    opening: Event,
}

impl Session<'_> {
    fn start(&self, journal: &mut Journal) -> Result<Begun> {
        let Session { project, paths, ui, options, .. } = *self;
        let git = Git::repository(project.common_dir());
        let start = project.head_commit()?;
        let base_branch = project.head_branch()?;
        let tree = specs::start_tree(&git, &start)?;
        let file = specs::load_graph(paths, &tree)?;
        let (graph, problems) = specs::valid_graph(paths, &file, Some(&tree))?;
        for warning in problems.iter().filter(|problem| problem.severity == Severity::Warning) {
            ui.warn(&specs::problem_line(warning));
        }
        check_intent(options.intent, &graph, None)?;
        self.preflight(&graph, None)?;
        let setup = Setup {
            feature: paths.feature().clone(),
            graph: file,
            base_branch,
            start,
            mode: "subprocess".to_string(),
            git_config: git.pinned_config()?.0,
            policy: self.policy(),
        };
        let now = now();
        let mut run = Run::start(now, &setup).map_err(|why| Error::new(ExitCode::Invalid, why))?;
        let opening = Event::Started(Box::new(setup));
        journal.append(now, &opening)?;
        if options.intent != Intent::Complete {
            let event = Event::Resumed { policy: self.policy(), intent: options.intent };
            journal.append(now, &event)?;
            run.step(now, &event);
        }
        Ok(Begun { run, opening })
    }

    fn resume(&self, journal: &mut Journal, mut run: Run, changed: Option<(GraphFile, TaskGraph)>) -> Result<Begun> {
        let graph = changed.as_ref().map_or(&**run.graph(), |(_, graph)| graph);
        check_intent(self.options.intent, graph, Some(&run))?;
        self.preflight(graph, Some(&run))?;
        let replanned = changed.map(|(file, _)| Event::Replanned { graph: Box::new(file) });
        let opening = Event::Resumed { policy: self.policy(), intent: self.options.intent };
        for event in replanned.iter().chain([&opening]) {
            let now = now();
            journal.append(now, event)?;
            run.step(now, event);
        }
        Ok(Begun { run, opening })
    }

    fn preflight(&self, graph: &TaskGraph, resumed: Option<&Run>) -> Result<()> {
        let agent = self.options.agent.as_deref();
        preflight::check(self.project, self.paths, &self.config, graph, agent, resumed)?.tell(self.ui)
    }

    fn policy(&self) -> Policy {
        let Options { workers, allow_red_base, max_cost, .. } = *self.options;
        self.config.policy(workers, allow_red_base, max_cost)
    }

    fn carry_on(self, journal: Journal, begun: Begun) -> Result<End> {
        let Session { project, paths, ui, options, config } = self;
        let Begun { mut run, opening } = begun;
        // Whatever a dying worker leaves behind falls to us.
        proc::become_subreaper().map_err(|error| Error::new(ExitCode::Failed, error.to_string()))?;
        let leases = lease_ports(project, &config, &run)?;
        write_plan(paths, &run, &leases)?;
        let reporter = Arc::new(Reporter::start(project, paths, &run, opening, ui));
        let context = Context::new(project, paths, config, options.agent.clone(), &run, leases)?;
        let mut host = LocalHost::new(context, Arc::clone(&reporter))?;
        let mut recorder = Recorder { journal, reporter: Arc::clone(&reporter) };
        let end = drive(&mut run, &mut recorder, &mut host);
        // When the command returns, nothing runs.
        proc::end_descendants(std::time::Duration::ZERO);
        drop(host);
        reporter.finish();
        end
    }
}

/// Whether the level that was asked for can be next.
fn check_intent(intent: Intent, graph: &TaskGraph, run: Option<&Run>) -> Result<()> {
    let (Intent::Level(goal) | Intent::Merge(goal)) = intent else { return Ok(()) };
    let levels = graph.levels();
    if !levels.contains(&goal) {
        let names: Vec<String> = levels.iter().map(Level::to_string).collect();
        return Err(Error::new(ExitCode::Invalid, format!("there is no level {goal}"))
            .hint(format!("The levels of {} are: {}.", graph.feature, names.join(", "))));
    }
    let is_merged = |level: &Level| {
        let states = run.map(Run::levels).unwrap_or_default();
        states.iter().any(|state| state.level == *level && matches!(state.status, LevelStatus::Merged { .. }))
    };
    match levels.iter().find(|level| **level < goal && !is_merged(level)) {
        None => Ok(()),
        Some(first) => Err(Error::new(ExitCode::Invalid, format!("level {goal} cannot run: level {first} is not merged"))
            .hint(format!("Run it first: mahabharatha run {} --level {first}", graph.feature))),
    }
}

/// Appends to the journal, then lets everybody know.
struct Recorder {
    journal: Journal,
    reporter: Arc<Reporter>,
}

impl mahabharatha_core::run::Journal for Recorder {
    type Error = Error;

    fn append(&mut self, now: Time, event: &Event) -> Result<()> {
        self.journal.append(now, event)?;
        self.reporter.recorded(now, event);
        Ok(())
    }
}

fn lease_ports(project: &Project, config: &Config, run: &Run) -> Result<Vec<PortLease>> {
    let range = config.ports.range_start..=config.ports.range_end;
    ports::lease(&project.shared_dir().join("ports"), range, run.workers().len() as u32, config.ports.per_worker as u16)
}

/// Writes what the plan says for people: the task files and who is to do what.
fn write_plan(paths: &FeaturePaths, run: &Run, leases: &[PortLease]) -> Result<()> {
    let graph = run.graph();
    let plan = Plan::new(graph, run.policy().workers);
    let ports: Vec<Vec<u16>> = leases.iter().map(|lease| lease.ports.clone()).collect();
    let assignments = worker_assignments(&plan, graph, &ports);
    let text = serde_json::to_string_pretty(&assignments).expect("assignments have string keys only") + "\n";
    write_atomic(&paths.assignments(), text.as_bytes())?;
    files::write_tasks(paths, run)
}

/// The agent that does a task: the task's own, else the one asked for, else the configured default; a task with a `run`
/// command of its own needs no coding agent.
pub fn agent_for<'a>(config: &'a Config, task: &TaskSpec, asked: Option<&str>) -> Result<(String, &'a AgentConfig)> {
    let name = task.agent.as_deref().or(asked).unwrap_or(&config.agent);
    let found = config.agent(name).ok_or_else(|| {
        Error::new(ExitCode::Invalid, format!("{}: there is no agent {name:?}", task.id))
            .hint("Name one of `agents:` in .mahabharatha/config.yaml.")
    })?;
    if found.kind == AgentKind::Claude && task.agent.is_none() && task.run.is_some()
        && let Some(command) = config.agent("command")
    {
        return Ok(("command".to_string(), command));
    }
    Ok((name.to_string(), found))
}

fn now() -> Time {
    Time(Timestamp::now().as_millisecond())
}
