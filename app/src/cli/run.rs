//! `kurukshetra`, alias `run`: runs a feature's task graph, or resumes it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use mahabharatha_core::config::{LauncherKind, SandboxMode};
use mahabharatha_core::graph::Task;
use mahabharatha_core::ids::{Level, TaskId};
use mahabharatha_core::plan::Plan;
use mahabharatha_core::run::event::{Intent, Schedule};
use mahabharatha_engine::agent;
use mahabharatha_engine::containers::Containers;
use mahabharatha_engine::history;
use mahabharatha_engine::preflight::{self, Report};
use mahabharatha_engine::report::plan::{render_containers, render_plan, render_routes};
use mahabharatha_engine::session::{self, Options, Outcome, control};
use mahabharatha_engine::specs;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;
use super::finish::{Driver, end_stream, finish};
use super::{Global, attach, detach, record};

#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// The feature to run
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// How many agents work at once [default: workers.count]
    #[arg(short, long, value_name = "N", value_parser = super::worker_count())]
    workers: Option<u32>,
    /// When a task starts [default: run.schedule]
    #[arg(long, value_name = "SCHEDULE")]
    schedule: Option<ScheduleArg>,
    /// Run only this level; all lower levels must be merged
    #[arg(long, value_name = "N")]
    level: Option<u32>,
    /// Resume an earlier run; this is what `run` does anyway
    #[arg(long)]
    resume: bool,
    /// Show the plan and every command that would run; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Where workers run
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: Mode,
    /// How agents, verifications and gates are confined [default: sandbox]
    #[arg(long, value_name = "SANDBOX")]
    sandbox: Option<SandboxArg>,
    /// The agent for tasks that name none [default: agent]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Stop launching tasks once this much is spent
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// Run even if a gate fails on the base; such gates are only reported
    #[arg(long)]
    allow_red_base: bool,
    /// Resume with a configuration that changed since the run began
    #[arg(long)]
    accept_config: bool,
    /// Don't wait for the API limit to reset
    #[arg(long)]
    no_wait: bool,
    /// Run in the background: closing the terminal does no harm; `attach` follows it
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
    /// Print lines instead of opening the screen
    #[arg(long)]
    plain: bool,
    /// Started by `run --detach`
    #[arg(long = detach::STARTED, hide = true)]
    detached: bool,
    /// Write the results of verifications and gates to this file, as JUnit XML
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    junit: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// What launcher.type says
    #[default]
    Auto,
    /// As processes of this machine
    Subprocess,
    /// Each in a container of the project's .devcontainer
    Container,
    /// In a Claude Code session, by its slash command
    Task,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScheduleArg {
    /// When the level below is merged
    Levels,
    /// When the tasks that it depends on are completed
    Dependencies,
}

impl From<ScheduleArg> for Schedule {
    fn from(schedule: ScheduleArg) -> Self {
        match schedule {
            ScheduleArg::Levels => Schedule::Levels,
            ScheduleArg::Dependencies => Schedule::Dependencies,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SandboxArg {
    /// The strongest one that works on this machine
    Auto,
    Bwrap,
    Landlock,
    /// Only on macOS; untested
    SandboxExec,
    /// None: everything runs with your rights
    Off,
}

impl From<SandboxArg> for SandboxMode {
    fn from(sandbox: SandboxArg) -> Self {
        match sandbox {
            SandboxArg::Auto => SandboxMode::Auto,
            SandboxArg::Bwrap => SandboxMode::Bwrap,
            SandboxArg::Landlock => SandboxMode::Landlock,
            SandboxArg::SandboxExec => SandboxMode::SandboxExec,
            SandboxArg::Off => SandboxMode::Off,
        }
    }
}

impl RunArgs {
    /// Returns the arguments of a run that prints lines, for commands that go on with one.
    pub fn in_lines() -> RunArgs {
        RunArgs { plain: true, ..RunArgs::default() }
    }

    /// Tells whether the run is shown on the screen, and so driven by a process of its own.
    fn opens_screen(&self, ui: &Ui) -> bool {
        !self.plain && !self.dry_run && !self.detach && !self.detached && ui.can_open_screen()
    }

    /// Tells whether only the user may decide on the call: it accepts a configuration.
    pub fn needs_user(&self) -> bool {
        self.accept_config
    }
}

pub fn run(global: &Global, ui: &Arc<Ui>, args: &RunArgs) -> Result<ExitCode> {
    let result = try_run(global, ui, args);
    end_stream(ui, ui.json() && !args.dry_run && !args.detach, &result);
    result
}

fn try_run(global: &Global, ui: &Arc<Ui>, args: &RunArgs) -> Result<ExitCode> {
    let place = global.known_place(args.feature.as_deref())?;
    let junit = args.junit.as_ref().map(|file| global.directory.join(file));
    junit.as_deref().map(record::check_junit).transpose()?;
    if args.dry_run || args.detach || args.opens_screen(ui) {
        return try_run_at(&place, ui, args);
    }
    let since = session::now();
    let result = try_run_at(&place, ui, args);
    record::send_trace(&place, ui, since);
    match junit.as_deref().map(|file| record::write_junit(&place, file, &result)) {
        // The run's own error says more.
        Some(Err(error)) if result.is_ok() => Err(error),
        Some(Err(error)) => {
            ui.warn(&error.to_string());
            result
        }
        _ => result,
    }
}

fn try_run_at(place: &Place, ui: &Arc<Ui>, args: &RunArgs) -> Result<ExitCode> {
    let launcher = launcher(args.mode)?;
    check_max_cost(args.max_cost)?;
    args.agent.as_deref().map(|name| check_agent(place, name)).transpose()?;
    if args.dry_run {
        return dry_run(place, ui, args);
    }
    if args.detach {
        return detach::detach(place, ui);
    }
    if args.opens_screen(ui) {
        return match detach::on_screen(place, ui) {
            Err(error) if error.kind() == Kind::Held && control::is_driven(place)? => {
                attach_instead(place, ui, error, false)
            }
            ended => ended,
        };
    }
    if args.detached {
        proc::begin_session().map_err(Error::caused("cannot leave the terminal"))?;
    }
    let options = Options {
        launcher,
        workers: args.workers,
        schedule: args.schedule.map(Schedule::from),
        agent: args.agent.clone(),
        sandbox: args.sandbox.map(SandboxMode::from),
        max_cost: args.max_cost,
        allow_red_base: args.allow_red_base,
        accept_config: args.accept_config,
        no_wait: args.no_wait,
        streams: ui.json(),
        ..Options::new(args.level.map_or(Intent::Complete, |level| Intent::Level(Level(level))))
    };
    drive(place, ui, &options)
}

pub(super) fn check_max_cost(max_cost: Option<f64>) -> Result<()> {
    match max_cost {
        Some(cost) if !cost.is_finite() || cost < 0.0 => {
            Err(Error::new(Kind::Usage, "--max-cost takes an amount of 0 or more"))
        }
        _ => Ok(()),
    }
}

/// Fails if the user names an agent that the configuration does not have. That the configuration can be read is checked
/// later: if another process holds the feature, the command says that instead.
pub(super) fn check_agent(place: &Place, name: &str) -> Result<()> {
    match specs::load_config(&place.project) {
        Ok(config) => agent::named(&config, name).map(|_| ()),
        Err(_) => Ok(()),
    }
}

/// Runs the feature and reports how that ended.
pub(super) fn drive(place: &Place, ui: &Arc<Ui>, options: &Options) -> Result<ExitCode> {
    let outcome = match session::run(&place.project, &place.paths, ui, options) {
        Err(error) if error.kind() == Kind::Held && control::is_driven(place)? => {
            return attach_instead(place, ui, error, true);
        }
        outcome => outcome?,
    };
    match outcome {
        Outcome::AlreadyCompleted => {
            ui.note(&format!("{} is completed already; {}", place.feature, place.paths.completion().display()));
            Ok(ExitCode::Done)
        }
        Outcome::Open => Ok(ExitCode::Done),
        Outcome::Ended(end) => finish(place, ui, &end, Driver::Run),
    }
}

/// Offers to follow the process that drives the run already.
fn attach_instead(place: &Place, ui: &Arc<Ui>, held: Error, plain: bool) -> Result<ExitCode> {
    let feature = &place.feature;
    let question = format!("{feature} is running already. Follow it?");
    if ui.can_ask() && !ui.json() && ui.confirm(&question, "mahabharatha attach").unwrap_or(false) {
        return attach::attach(place, ui, plain);
    }
    Err(held
        .hint(format!("Follow it with `mahabharatha attach {feature}`, or end it with `mahabharatha stop {feature}`.")))
}

/// Returns the launcher that the user chose; `None` for the configured one.
fn launcher(mode: Mode) -> Result<Option<LauncherKind>> {
    match mode {
        Mode::Auto => Ok(None),
        Mode::Subprocess => Ok(Some(LauncherKind::Subprocess)),
        Mode::Container => Ok(Some(LauncherKind::Container)),
        Mode::Task => Err(Error::new(Kind::Usage, "task mode is for a Claude Code session, by its slash command")
            .hint("There, type `/mahabharatha:kurukshetra`; here, use --mode subprocess.")),
    }
}

fn dry_run(place: &Place, ui: &Ui, args: &RunArgs) -> Result<ExitCode> {
    let config = specs::load_config(&place.project)?;
    let containers = match launcher(args.mode)?.unwrap_or(config.launcher.kind) {
        LauncherKind::Container => Some(Containers::outline(&place.project, place.paths.specs(), &config)?),
        LauncherKind::Subprocess => None,
    };
    let run = session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)?;
    let start = session::start_commit(&place.project, run.as_ref())?;
    let tree = specs::start_tree(&place.project.git(), &start)?;
    let file = specs::read_graph(&place.paths, &tree)?;
    let (graph, problems) = specs::valid_graph(&place.paths, &file, Some(&tree), config.graph_rules())?;
    specs::warnings(&problems).for_each(|warning| ui.warn(&warning));
    let mut report = Report::default();
    preflight::check_commands(&mut report, &config, &graph, args.agent.as_deref())?;
    report.conclude(|warning| ui.warn(&warning))?;
    let schedule = args.schedule.map_or(config.run.schedule, Schedule::from);
    let plan = Plan::new(&graph, args.workers.unwrap_or(config.workers.count));
    let is_done = |id: &TaskId| run.as_ref().and_then(|run| run.task(id)).is_some_and(|task| !task.is_open());
    let (done, to_do): (Vec<&Task>, Vec<&Task>) = graph.tasks().iter().partition(|task| is_done(&task.id));
    let commands = agent::commands(&config, &to_do, args.agent.as_deref())?;
    let routes = history::assign(&place.project, &config, &graph, args.agent.as_deref()).routes;
    if ui.json() {
        let commands: Vec<_> =
            commands.iter().map(|(place, command)| serde_json::json!({ "where": place, "command": command })).collect();
        let done: Vec<&TaskId> = done.iter().map(|task| &task.id).collect();
        let containers = containers.map(|outline| outline.into_iter().collect::<BTreeMap<_, _>>());
        let data = serde_json::json!({
            "feature": place.feature.as_str(), "schedule": schedule, "plan": plan, "done": done, "commands": commands, "containers": containers,
            "routes": routes,
        });
        ui.pretty(&data);
        return Ok(ExitCode::Done);
    }
    ui.data(&render_plan(&plan, &graph, &commands, ui.columns().unwrap_or(100)));
    if !routes.is_empty() {
        ui.data(&render_routes(&routes));
    }
    if let Some(outline) = containers {
        ui.data(&render_containers(&outline));
    }
    if to_do.is_empty() {
        ui.note("Every task is done already: a run would launch nothing.");
    } else if !done.is_empty() {
        let done: Vec<&str> = done.iter().map(|task| task.id.as_str()).collect();
        ui.note(&format!("Done already, and not done again: {}.", done.join(", ")));
    }
    Ok(ExitCode::Done)
}
