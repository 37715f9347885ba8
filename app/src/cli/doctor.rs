//! `doctor`: runs every preflight check and says what to do about failures. Executes nothing of the repository unless
//! asked to run the gates.

use clap::Args;
use mahabharatha_engine::preflight::{self, CheckStatus, Ground, Report};
use mahabharatha_engine::report::text::graph_size;
use mahabharatha_engine::session;
use mahabharatha_engine::specs;
use mahabharatha_sys::error::{Kind, Result};
use mahabharatha_sys::project::{Place, Project};
use mahabharatha_sys::sandbox;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::Ui;

use mahabharatha_core::config::{Config, Isolation, LauncherKind};
use mahabharatha_core::run::{End, Run};

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Also run the gates on the base: executes commands and code of this repository
    #[arg(long)]
    run_gates: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &DoctorArgs) -> Result<ExitCode> {
    let report = examine(global, ui, args)?;
    if ui.json() {
        let data = serde_json::json!({ "checks": report.checks });
        ui.pretty(&data);
    } else {
        for check in &report.checks {
            let mark = match check.status {
                CheckStatus::Ok => "ok     ",
                CheckStatus::Warning => "warning",
                CheckStatus::Failed => "FAILED ",
            };
            let hint = check.hint.as_deref().map(|hint| format!("\n{hint}")).unwrap_or_default();
            ui.data(&format!("{mark} {}: {}{hint}", check.name, check.message).replace('\n', "\n        "));
        }
    }
    Ok(if report.failed() { ExitCode::Preflight } else { ExitCode::Done })
}

/// Runs all checks; without a feature, those that need none.
fn examine(global: &Global, ui: &Ui, args: &DoctorArgs) -> Result<Report> {
    let project = global.project()?;
    let mut report = preflight::check_machine(&project)?;
    let config = match specs::load_config(&project) {
        Ok(config) => config,
        Err(error) => return report.fail_with("config", error).map(|()| report),
    };
    let file = project.config_file();
    report.ok(
        "config",
        match file.exists() {
            true => format!("{} can be read", file.display()),
            false => {
                format!("no {}: using the defaults, without gates; `mahabharatha init` writes one", file.display())
            }
        },
    );
    let in_containers = config.launcher.kind == LauncherKind::Container;
    let isolation = match in_containers {
        true => Isolation::Container,
        false => match sandbox::choose(config.sandbox.mode) {
            Ok(isolation) => isolation,
            Err(error) => return report.fail_with("sandbox", error).map(|()| report),
        },
    };
    if in_containers {
        preflight::check_containers(&mut report, &project, &config)?;
    } else {
        preflight::check_programs(&mut report, &config);
    }
    preflight::check_sandbox(&mut report, isolation);
    preflight::check_worktrees(&mut report, &project, &config)?;
    let gates = args.run_gates.then_some(ui);
    let (place, source) = match global.find_known_place(None) {
        Ok(found) => found,
        Err(error) if error.kind() == Kind::Usage && !global.names_a_feature() => {
            let hint = "Its graph and branches were not checked; name it with --feature <name>.";
            report.warn("feature", format!("{}.", error.message()), hint);
            examine_without_feature(&mut report, &project, (&config, isolation), gates)?;
            tell_of_gates(ui, args, &config);
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    let run = Journal::read(&place.paths.journal()).and_then(|records| session::rebuild(&place.paths, &records));
    let run = match run {
        Ok(run) => run,
        Err(error) => return report.fail_with("journal", error).map(|()| report),
    };
    let is_completed = run.as_ref().is_some_and(|run| run.ended() == Some(&End::Completed));
    let how = source.map(|source| format!(" (from {source}; --feature names another)")).unwrap_or_default();
    report.ok("feature", format!("{}{}{how}", place.feature, if is_completed { " is completed already" } else { "" }));
    if is_completed {
        run_gates_again(&mut report, &place, (&config, isolation), gates)?;
    } else if let Err(error) = examine_feature(&mut report, &place, (&config, isolation), run, gates) {
        report.fail_with("graph", error)?;
    }
    tell_of_gates(ui, args, &config);
    Ok(report)
}

/// Says that there are gates that were not run, and how to run them.
fn tell_of_gates(ui: &Ui, args: &DoctorArgs, config: &Config) {
    if !args.run_gates && !config.quality_gates.is_empty() {
        ui.note(
            "gates were not run; `mahabharatha doctor --run-gates` runs them (this executes the repository's code)",
        );
    }
}

/// Checks what remains without a feature. Runs the gates only if `gates` says where to announce that.
fn examine_without_feature(
    report: &mut Report,
    project: &Project,
    (config, isolation): (&Config, Isolation),
    gates: Option<&Ui>,
) -> Result<()> {
    preflight::check_default_agent(report, project, config);
    run_gates(report, project, (config, isolation), gates)
}

/// Runs the gates on the base, in directories that belong to no feature.
fn run_gates(
    report: &mut Report,
    project: &Project,
    (config, isolation): (&Config, Isolation),
    gates: Option<&Ui>,
) -> Result<()> {
    let Some(ui) = gates.filter(|_| !report.failed()) else { return Ok(()) };
    match session::check_gates_without_feature(report, project, (config, isolation), ui) {
        Err(error) if error.kind() == Kind::Failed => report.fail_with("gates", error.with_kind(Kind::Preflight)),
        Err(error) => report.fail_with("gates", error),
        Ok(()) => Ok(()),
    }
}

/// Runs the gates for a feature whose run has begun, unless it goes on: that run has its own worktree for them.
fn run_gates_again(
    report: &mut Report,
    place: &Place,
    settings: (&Config, Isolation),
    gates: Option<&Ui>,
) -> Result<()> {
    let holder = match gates {
        Some(_) => FeatureLock::try_acquire(place.paths.dir(), &place.paths.holder_file())?.err(),
        None => None,
    };
    if let Some(holder) = holder {
        let feature = &place.feature;
        report.warn("gates", format!("not run: a run of {feature} is on ({holder})."), "It runs them itself.");
        return Ok(());
    }
    run_gates(report, &place.project, settings, gates)
}

/// Checks a feature. Runs its gates only if `gates` says where to announce that.
fn examine_feature(
    report: &mut Report,
    place: &Place,
    (config, isolation): (&Config, Isolation),
    run: Option<Run>,
    gates: Option<&Ui>,
) -> Result<()> {
    let start = session::start_commit(&place.project, run.as_ref())?;
    let tree = specs::start_tree(&place.project.git(), &start)?;
    let file = specs::read_graph(&place.paths, &tree)?;
    let (graph, problems) = specs::valid_graph(&place.paths, &file, Some(&tree), config.graph_rules())?;
    report.ok("graph", graph_size(&graph));
    for warning in specs::warnings(&problems) {
        report.warn("graph", warning, "This does not stop a run.");
    }
    let (project, paths) = (&place.project, &place.paths);
    let ground = Ground {
        project,
        paths,
        config,
        graph: &graph,
        launches: true,
        agent: None,
        workers: config.workers.count,
        isolation,
        containers: None,
        resumed: run.is_some(),
        executes: false,
    };
    preflight::check_ground(report, &ground)?;
    match gates {
        Some(_) if run.is_some_and(|run| run.has_begun()) => {
            run_gates_again(report, place, (config, isolation), gates)?;
        }
        Some(ui) if !report.failed() => session::check_gates(report, &ground, file, ui)?,
        _ => {}
    }
    Ok(())
}
