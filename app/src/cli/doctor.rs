//! `doctor`: every preflight check, with what to do.

use clap::Args;

use super::Global;
use crate::error::{ExitCode, Result};
use crate::git::Git;
use crate::preflight::{self, CheckStatus, Report};
use crate::session;
use crate::specs;
use crate::ui::Ui;

#[derive(Debug, Args)]
pub struct DoctorArgs {}

pub fn run(global: &Global, ui: &Ui, _args: &DoctorArgs) -> Result<ExitCode> {
    let report = examine(global)?;
    if ui.json() {
        let data = serde_json::json!({ "checks": report.checks });
        ui.data(&(serde_json::to_string_pretty(&data).expect("checks are plain data") + "\n"));
    } else {
        for check in &report.checks {
            let mark = match check.status {
                CheckStatus::Ok => "ok     ",
                CheckStatus::Warning => "warning",
                CheckStatus::Failed => "FAILED ",
            };
            ui.data(&format!("{mark} {}: {} {}\n", check.name, check.message, check.hint.as_deref().unwrap_or_default()));
        }
    }
    Ok(if report.failed() { ExitCode::Preflight } else { ExitCode::Done })
}

/// With a feature everything is checked, without one what can be.
fn examine(global: &Global) -> Result<Report> {
    let project = global.project()?;
    let config = session::load_config(&project)?;
    let Ok(place) = global.place(None) else { return preflight::check_machine(&project) };
    let git = Git::repository(project.common_dir());
    let tree = specs::start_tree(&git, &project.head_commit()?)?;
    let file = specs::read_graph(&place.paths, &tree)?;
    let (graph, _) = specs::valid_graph(&place.paths, &file, None)?;
    preflight::check(&project, &place.paths, &config, &graph, None, None)
}
