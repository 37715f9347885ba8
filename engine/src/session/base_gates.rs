//! Runs the gates on the base branch for `doctor --run-gates`. Starts no run.

use mahabharatha_core::run::Run;
use mahabharatha_core::spec::GraphFile;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::Ui;

use super::{become_subreaper, now, prepare_containers, setup};
use crate::host::{self, Context, Settings};
use crate::preflight::{Ground, Report};
use crate::report::text::gate_logs;

/// Runs the gates on the base as a starting run would, unless a run is active, and cleans up afterwards.
pub fn check_gates(report: &mut Report, ground: &Ground<'_>, file: GraphFile, ui: &Ui) -> Result<()> {
    let (project, paths, config) = (ground.project, ground.paths, ground.config);
    let policy = config.policy(ground.isolation, None, false, None);
    if !policy.has_gates {
        return Ok(());
    }
    let _lock = match FeatureLock::try_acquire(paths.dir(), &paths.holder_file())? {
        Ok(lock) => lock,
        Err(holder) => {
            report.warn("gates", format!("not checked: a run is on ({holder})."), "It has checked them.");
            return Ok(());
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
    if red.is_empty() {
        report.ok("gates", "green on the base");
    }
    for failure in red {
        report.fail(
            "gates",
            format!("{} fails on the base.", failure.gate),
            format!("See {}. Fix it, or run with --allow-red-base.", gate_logs(paths.feature(), &failure.gate)),
        );
    }
    Ok(())
}
