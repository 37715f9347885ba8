//! `notify`: sends test notices, to try the configuration.

use clap::Args;
use mahabharatha_engine::report::notify;
use mahabharatha_engine::report::text::count;
use mahabharatha_engine::{session, specs};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc;
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct NotifyArgs {
    /// Send one notice of each kind that notify.on names, by every configured channel
    #[arg(long, required = true)]
    test: bool,
}

pub fn run(global: &Global, ui: &Ui, _: &NotifyArgs) -> Result<ExitCode> {
    let project = global.project()?;
    let config = specs::load_config(&project)?;
    proc::become_subreaper().map_err(Error::caused("cannot run the command"))?;
    let (kinds, problems) = notify::test(&project, &config, session::now(), || ui.ring())?;
    proc::end_descendants(std::time::Duration::ZERO);
    if ui.json() {
        ui.data(&json!({ "sent": kinds, "problems": problems }).to_string());
        return Ok(if problems.is_empty() { ExitCode::Done } else { ExitCode::Failed });
    }
    if problems.is_empty() {
        ui.note(&format!("{} sent", count(kinds.len(), "notice")));
        return Ok(ExitCode::Done);
    }
    let error = Error::new(Kind::Failed, "not every notice could be sent");
    Err(problems
        .into_iter()
        .fold(error, Error::detail)
        .hint("Fix notify in .mahabharatha/config.yaml, then try again."))
}
