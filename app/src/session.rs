//! One process's part in a run: lock, check, journal, drive, tell.

use std::fs;
use std::sync::Arc;

use jiff::Timestamp;
use mahabharatha_core::config::{AgentConfig, AgentKind, Config};
use mahabharatha_core::graph::{Severity, TaskGraph};
use mahabharatha_core::ids::{Level, Oid, Time};
use mahabharatha_core::plan::{Plan, worker_assignments};
use mahabharatha_core::run::event::{Event, Intent, Policy, Setup};
use mahabharatha_core::run::{End, LevelStatus, Run, TaskStatus, drive, replay};
use mahabharatha_core::spec::{GraphFile, TaskSpec};

use crate::error::{Error, ExitCode, Result, io};
use crate::git::Git;
use crate::host::{self, Context, LocalHost};
use crate::preflight::{self, Ground, Report};
use crate::proc;
use crate::project::{FeaturePaths, Project};
use crate::report::{Opening, Reporter, files};
use crate::specs;
use crate::store::atomic::write_atomic;
use crate::store::journal::{Journal, Record};
use crate::store::locks::FeatureLock;
use crate::store::ports::{self, PortLease};
use crate::store::projection;
use crate::ui::Ui;

/// How a process means to take part.
#[derive(Debug, Clone)]
pub struct Options {
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

/// The commit that a run starts from. Where nothing has begun the base may have gained one meanwhile, such as one that
/// makes its gates green.
pub fn start_commit(project: &Project, run: Option<&Run>) -> Result<Oid> {
    let Some(run) = run else { return project.head_commit() };
    let tip = if run.has_begun() { None } else { project.git().resolve_ref(&run.setup().base_branch)? };
    Ok(tip.unwrap_or_else(|| run.setup().start.clone()))
}

/// The run that a journal adds up to.
pub fn rebuild(paths: &FeaturePaths, records: &[Record]) -> Result<Option<Run>> {
    replay(records.iter().map(|record| (record.at, &record.event))).map_err(|why| {
        Error::new(ExitCode::Invalid, format!("{}: {why}", paths.journal().display()))
            .hint("The journal was changed by hand, or belongs to another version of this program.")
    })
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
    projection::make_home(&project.home())?;
    let (mut journal, records) = Journal::open_for_append(&lock, paths.feature())?;
    let begun = match rebuild(paths, &records)? {
        None => start(project, paths, &config, ui, options, &mut journal)?,
        Some(run) if run.ended() == Some(&End::Completed) => return Ok(Outcome::AlreadyCompleted),
        Some(run) => resume(project, paths, &config, ui, options, &mut journal, run)?,
    };
    drop(records);
    let end = carry_on(project, paths, config, ui, options, journal, begun)?;
    drop(lock);
    Ok(Outcome::Ended(end))
}

/// A run that this process may drive, and what it did to it so far.
struct Begun {
    run: Run,
    opening: Opening,
}

fn start(
    project: &Project,
    paths: &FeaturePaths,
    config: &Config,
    ui: &Ui,
    options: &Options,
    journal: &mut Journal,
) -> Result<Begun> {
    let git = Git::repository(project.common_dir());
    let start = project.head_commit()?;
    let base_branch = project.head_branch()?;
    let tree = specs::start_tree(&git, &start)?;
    let file = specs::load_graph(paths, &tree)?;
    let (graph, problems) = specs::valid_graph(paths, &file, Some(&tree))?;
    for warning in problems.iter().filter(|problem| problem.severity == Severity::Warning) {
        ui.warn(&specs::problem_line(warning));
    }
    let policy = config.policy(options.workers, options.allow_red_base, options.max_cost);
    let (agent, workers) = (options.agent.as_deref(), policy.workers);
    let ground = Ground { project, paths, config, graph: &graph, agent, workers, resumed: false };
    preflight::check(&ground)?.tell(ui)?;
    check_intent(options.intent, None)?;
    let setup = setup(&ground, file, base_branch, start, policy)?;
    let now = now();
    let started = Event::Started(Box::new(setup.clone()));
    journal.append(now, &started)?;
    let mut run = Run::start(now, &setup).map_err(|why| Error::new(ExitCode::Invalid, why))?;
    let mut opening = Opening::default();
    opening.tell(&started, &run);
    if options.intent != Intent::Complete {
        let event = Event::Resumed { policy: setup.policy, intent: options.intent };
        journal.append(now, &event)?;
        run.step(now, &event);
    }
    Ok(Begun { run, opening })
}

fn setup(ground: &Ground<'_>, graph: GraphFile, base_branch: String, start: Oid, policy: Policy) -> Result<Setup> {
    Ok(Setup {
        feature: ground.paths.feature().clone(),
        graph,
        base_branch,
        start,
        mode: "subprocess".to_string(),
        git_config: ground.project.git().pinned_config()?.0,
        policy,
    })
}

/// Runs the gates on the base as the start of a run does, where nothing runs now, and leaves nothing behind.
pub fn check_gates(report: &mut Report, ground: &Ground<'_>, file: GraphFile, ui: &Ui) -> Result<()> {
    let (project, paths, config) = (ground.project, ground.paths, ground.config);
    let policy = config.policy(None, false, None);
    if !policy.has_gates {
        return Ok(());
    }
    let _lock = match FeatureLock::try_acquire(paths.dir(), &paths.lock_sign())? {
        Ok(lock) => lock,
        Err(holder) => {
            report.warn("gates", format!("not checked: a run is on ({holder})."), "It has checked them.");
            return Ok(());
        }
    };
    let base_branch = project.head_branch()?;
    ui.note(&format!("running the gates on {}", base_branch.trim_start_matches("refs/heads/")));
    let setup = setup(ground, file, base_branch, project.head_commit()?, policy)?;
    let run = Run::start(now(), &setup).map_err(|why| Error::new(ExitCode::Invalid, why))?;
    proc::become_subreaper().map_err(|error| Error::new(ExitCode::Failed, error.to_string()))?;
    let context = Context::new(project, paths, config.clone(), None, &run, Vec::new())?;
    let red = host::check_base(&context)?;
    if red.is_empty() {
        report.ok("gates", "green on the base");
    }
    for failure in red {
        let log = paths.gate_log(&"base", &failure.gate);
        report.fail(
            "gates",
            format!("{} fails on the base.", failure.gate),
            format!("Its output is in {}. Mend it, or run with --allow-red-base.", log.display()),
        );
    }
    Ok(())
}

fn resume(
    project: &Project,
    paths: &FeaturePaths,
    config: &Config,
    ui: &Ui,
    options: &Options,
    journal: &mut Journal,
    mut run: Run,
) -> Result<Begun> {
    check_intent(options.intent, Some(&run))?;
    let mut events = Vec::new();
    let start = start_commit(project, Some(&run))?;
    let file = current_graph(project, paths, &run, &start, ui)?;
    if start != run.setup().start {
        let git_config = project.git().pinned_config()?.0;
        events.push(Event::Started(Box::new(Setup { start, git_config, ..run.setup().clone() })));
    }
    if let Some(file) = file {
        events.push(Event::Replanned { graph: Box::new(file) });
    }
    let policy = config.policy(options.workers, options.allow_red_base, options.max_cost);
    let (agent, workers) = (options.agent.as_deref(), policy.workers);
    let ground = Ground { project, paths, config, graph: run.graph(), agent, workers, resumed: true };
    preflight::check(&ground)?.tell(ui)?;
    events.push(Event::Resumed { policy, intent: options.intent });
    let mut opening = Opening::of(&run);
    for event in &events {
        let now = now();
        journal.append(now, event)?;
        run.step(now, event);
        opening.tell(event, &run);
    }
    Ok(Begun { run, opening })
}

/// Whether the level that was asked for can be next.
fn check_intent(intent: Intent, run: Option<&Run>) -> Result<()> {
    let (Intent::Level(goal) | Intent::Merge(goal)) = intent else { return Ok(()) };
    let Some(run) = run else {
        return Ok(());
    };
    let unmerged: Vec<Level> = run
        .levels()
        .iter()
        .filter(|level| level.level < goal && !matches!(level.status, LevelStatus::Merged { .. }))
        .map(|level| level.level)
        .collect();
    match unmerged.first() {
        None => Ok(()),
        Some(first) => Err(Error::new(ExitCode::Invalid, format!("level {goal} cannot run: level {first} is not merged"))
            .hint(format!("Run it first: mahabharatha run {} --level {first}", run.feature()))),
    }
}

/// The graph as it is written now, where it differs from the one that the run has.
fn current_graph(
    project: &Project,
    paths: &FeaturePaths,
    run: &Run,
    start: &Oid,
    ui: &Ui,
) -> Result<Option<GraphFile>> {
    let Ok(text) = fs::read_to_string(paths.graph()) else {
        ui.warn(&format!("{} is gone; the run goes on with the graph that it began with", paths.graph().display()));
        return Ok(None);
    };
    let file = GraphFile::parse(&text).map_err(|error| {
        Error::new(ExitCode::Invalid, format!("{} cannot be read: {error}", paths.graph().display()))
    })?;
    if file == run.setup().graph && *start == run.setup().start {
        return Ok(None);
    }
    // At the commit that the run starts from, so that it does not trip over its own work.
    let tree = specs::start_tree(&project.git(), start)?;
    let (graph, _) = specs::valid_graph(paths, &file, Some(&tree))?;
    let differences = differences(run, &graph);
    for difference in &differences {
        ui.note(&format!("graph changed: {}", difference.text));
    }
    let settled: Vec<&Difference> = differences.iter().filter(|difference| difference.settled).collect();
    if settled.is_empty() {
        return Ok(Some(file).filter(|file| *file != run.setup().graph));
    }
    let error = Error::new(ExitCode::Invalid, "the graph changed in tasks that are completed or under way");
    Err(settled
        .iter()
        .fold(error, |error, difference| error.detail(difference.text.clone()))
        .hint("Put those tasks back as they were; new work goes into new tasks on a level that is not merged."))
}

struct Difference {
    text: String,
    /// The task can no longer be changed.
    settled: bool,
}

fn differences(run: &Run, new: &TaskGraph) -> Vec<Difference> {
    let is_settled = |id| {
        run.task(id).is_some_and(|task| {
            matches!(task.status, TaskStatus::Completed { .. } | TaskStatus::InProgress { .. })
        })
    };
    let merged: Vec<Level> = run
        .levels()
        .iter()
        .filter(|level| matches!(level.status, LevelStatus::Merged { .. }))
        .map(|level| level.level)
        .collect();
    let mut found = Vec::new();
    for task in run.graph().tasks() {
        match new.task(&task.id) {
            None => found.push(Difference { text: format!("{} was removed", task.id), settled: is_settled(&task.id) }),
            Some(now) if now != task => {
                found.push(Difference { text: format!("{} was changed", task.id), settled: is_settled(&task.id) });
            }
            Some(_) => {}
        }
    }
    for task in new.tasks() {
        if run.graph().task(&task.id).is_none() {
            let text = format!("{} is new on level {}", task.id, task.level);
            let below = merged.last().is_some_and(|last| task.level <= *last);
            found.push(Difference { text, settled: below });
        }
    }
    found
}

fn carry_on(
    project: &Project,
    paths: &FeaturePaths,
    config: Config,
    ui: &Arc<Ui>,
    options: &Options,
    journal: Journal,
    begun: Begun,
) -> Result<End> {
    let Begun { mut run, opening } = begun;
    // Whatever a dying worker leaves behind falls to us.
    proc::become_subreaper().map_err(|error| Error::new(ExitCode::Failed, error.to_string()))?;
    let leases = lease_ports(project, &config, run.workers().len() as u32)?;
    write_plan(paths, &run, &leases)?;
    let reporter = Arc::new(Reporter::start(project, paths, &run, ui, opening));
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

pub fn lease_ports(project: &Project, config: &Config, workers: u32) -> Result<Vec<PortLease>> {
    let range = config.ports.range_start..=config.ports.range_end;
    ports::lease(&project.shared_dir().join("ports"), range, workers, config.ports.per_worker as u16)
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
