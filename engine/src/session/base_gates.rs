//! Runs the gates on the base branch for `doctor --run-gates`. Starts no run.

use mahabharatha_core::config::{Config, Isolation};
use mahabharatha_core::excerpt::key_lines;
use mahabharatha_core::graph::{Rules, TaskGraph};
use mahabharatha_core::run::Run;
use mahabharatha_core::run::event::GateFailure;
use mahabharatha_core::spec::GraphFile;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::project::Project;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::store::tree;
use mahabharatha_sys::ui::{Ui, fit};

use super::{become_subreaper, now, prepare_containers, setup};
use crate::host::{self, Context, RedGates, Settings};
use crate::preflight::{Ground, Report};
use crate::report::text::gate_logs;

/// Most lines shown of a gate's output; the log has all of them.
const MAX_LINES: usize = 10;
/// Most columns shown of a line.
const MAX_COLUMNS: usize = 200;

/// Graph that stands in for that of a feature: nothing that runs on the base depends on the tasks.
const NO_FEATURE: &str = r#"{"feature":"doctor","tasks":[
    {"id":"GATES","title":"Run the gates on the base","level":1,"files":{"create":["doctor"]},"foreground":true}]}"#;

/// Runs the gates on the base as a starting run would, unless a run is active, and cleans up afterwards.
pub fn check_gates(report: &mut Report, ground: &Ground<'_>, file: GraphFile, ui: &Ui) -> Result<()> {
    check(report, ground, file, ui, |gate| gate_logs(ground.paths.feature(), gate)).map(drop)
}

/// Runs the gates on the base of a project without a feature, in directories of their own.
pub fn check_gates_without_feature(
    report: &mut Report,
    project: &Project,
    (config, isolation): (&Config, Isolation),
    ui: &Ui,
) -> Result<()> {
    let mut file = GraphFile::parse(NO_FEATURE).expect("a constant, and valid");
    let feature = project.unused_feature(&file.feature);
    file.feature = feature.to_string();
    let graph = TaskGraph::check(&file, None, Rules::ACCEPTED).0.expect("valid with the name of any feature");
    let paths = project.feature(&feature);
    let ground = Ground {
        project,
        paths: &paths,
        config,
        graph: &graph,
        launches: false,
        agent: None,
        workers: config.workers.count,
        isolation,
        containers: None,
        resumed: false,
        executes: false,
    };
    let logs = |_: &str| format!("the logs in {}", paths.logs().join("gates").display());
    if check(report, &ground, file, ui, logs)? {
        tree::remove(&paths.logs())?;
    }
    Ok(())
}

/// Runs the gates; `logs` says where the output of one is. Returns whether they ran and passed.
fn check(
    report: &mut Report,
    ground: &Ground<'_>,
    file: GraphFile,
    ui: &Ui,
    logs: impl Fn(&str) -> String,
) -> Result<bool> {
    let (project, paths, config) = (ground.project, ground.paths, ground.config);
    let policy = config.policy(ground.isolation, None, false, None);
    if !policy.has_gates {
        report.warn("gates", "there are none to run.", "Set quality_gates in .mahabharatha/config.yaml.");
        return Ok(false);
    }
    let _lock = match FeatureLock::try_acquire(paths.dir(), &paths.holder_file())? {
        Ok(lock) => lock,
        Err(holder) => {
            report.warn("gates", format!("not checked: a run is on ({holder})."), "It has checked them.");
            return Ok(false);
        }
    };
    if !paths.worktrees().exists() {
        project.use_worktrees_dir(paths, &project.worktrees_dir(config.worktrees.dir.as_deref()))?;
    }
    let base_branch = project.head_branch()?;
    let gates: Vec<&str> = config.quality_gates.iter().map(|gate| gate.name.as_str()).collect();
    let branch = short_branch(&base_branch);
    ui.note(&format!("running the gates on {branch}, which executes code of this repository: {}", gates.join(", ")));
    let setup = setup(ground, file, base_branch, project.head_commit()?, policy)?;
    let run = Run::start(now(), &setup).map_err(|why| Error::new(Kind::Invalid, why))?;
    become_subreaper()?;
    let containers = prepare_containers(project, paths, config, ground.isolation, ui)?;
    let settings = Settings { config: config.clone(), agent: None, ports: Vec::new(), containers };
    let context = Context::new(project, paths, &run, settings)?;
    let red = host::check_base(&context);
    host::jobs::remove_containers(paths)?;
    let red = red?;
    let RedGates { required, optional } = red;
    let is_red = |gate: &&str| required.iter().chain(&optional).any(|failure| failure.gate == **gate);
    let green: Vec<&str> = gates.iter().filter(|gate| !is_red(gate)).copied().collect();
    let passed = required.is_empty() && optional.is_empty();
    if passed {
        report.ok("gates", "green on the base");
    }
    for (number, failure) in optional.iter().enumerate() {
        let others = match number + 1 == optional.len() && required.is_empty() && !green.is_empty() {
            true => format!(" {} {}.", green.join(", "), if green.len() == 1 { "passes" } else { "pass" }),
            false => String::new(),
        };
        let message = message(failure, &format!("; it is not required.{others}"));
        report.warn("gates", message, format!("See {}.", logs(&failure.gate)));
    }
    for failure in &required {
        let hint = format!("See {}. Fix it, or run with --allow-red-base.", logs(&failure.gate));
        report.fail("gates", message(failure, "."), hint);
    }
    Ok(passed)
}

/// Says which gate failed and how, with the lines of its output that tell why.
fn message(failure: &GateFailure, more: &str) -> String {
    let (output, end) = failure.output_and_end();
    let end = end.map(|end| format!(" ({})", end.trim_matches(['[', ']']))).unwrap_or_default();
    let (lines, _) = key_lines(output, MAX_LINES);
    let cause = failure.cause.iter().map(|cause| format!("Likely cause: {cause}"));
    let lines = lines.iter().map(|line| fit(line, MAX_COLUMNS)).chain(cause).map(|line| format!("\n  {line}"));
    lines.fold(format!("{} fails on the base{end}{more}", failure.gate), |text, line| text + &line)
}
