//! `agents`: lists the agents that tasks can use, and which of them are installed.

use std::path::Path;

use clap::Args;
use mahabharatha_core::config::Config;
use mahabharatha_engine::agent;
use mahabharatha_engine::report::agents::agents_text;
use mahabharatha_engine::specs;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::ui::Ui;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct AgentsArgs {}

pub fn run(global: &Global, ui: &Ui, _args: &AgentsArgs) -> Result<ExitCode> {
    // Outside of a project the shipped agents are listed.
    let listed = match global.project() {
        Ok(project) => agent::list(&specs::load_config(&project)?, project.root()),
        Err(_) => agent::list(&Config::default(), Path::new("/")),
    };
    if ui.json() {
        let data = serde_json::json!({ "agents": listed });
        ui.pretty(&data);
    } else {
        ui.painted(&agents_text(&listed, ui.columns(), ui.paint()));
        ui.note(
            "use one for all tasks with `agent: <name>` in .mahabharatha/config.yaml, or with `run --agent <name>`",
        );
    }
    Ok(ExitCode::Done)
}
