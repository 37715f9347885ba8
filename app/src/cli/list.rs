//! `list`: lists all features of the project.

use clap::Args;
use mahabharatha_engine::report::list::list_text;
use mahabharatha_engine::session;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::ui::Ui;

use super::Global;
use super::exit::ExitCode;
use crate::observe::features;

#[derive(Debug, Args)]
pub struct ListArgs {}

pub fn run(global: &Global, ui: &Ui, _args: &ListArgs) -> Result<ExitCode> {
    let listed = features(&global.project()?)?;
    if ui.json() {
        let data = serde_json::json!({ "features": listed });
        ui.pretty(&data);
    } else if listed.is_empty() {
        ui.note("There is no feature in this project yet. Begin one: mahabharatha plan <name>");
    } else {
        ui.painted(&list_text(&listed, session::now(), ui.columns(), ui.paint()));
    }
    Ok(ExitCode::Done)
}
