//! `pause` and `resume`: hold a run that a process drives, and let it go on.

use clap::Args;
use mahabharatha_core::run::event::Command;
use mahabharatha_engine::session::control;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct PauseArgs {
    /// The feature
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
}

pub fn pause(global: &Global, ui: &Ui, args: &PauseArgs) -> Result<ExitCode> {
    tell(global, ui, args, &Command::Pause)
}

pub fn resume(global: &Global, ui: &Ui, args: &PauseArgs) -> Result<ExitCode> {
    tell(global, ui, args, &Command::Resume)
}

fn tell(global: &Global, ui: &Ui, args: &PauseArgs, command: &Command) -> Result<ExitCode> {
    let place = global.known_place(args.feature.as_deref())?;
    let paused = *command == Command::Pause;
    let answer = control::send_to_driver(&place, command, if paused { "pause" } else { "resume" })?;
    let message = answer.message.unwrap_or_default();
    if answer.declined {
        let wanted = if paused { "paused" } else { "resumed" };
        return Err(Error::new(Kind::Invalid, format!("{} cannot be {wanted}: {message}", place.feature))
            .hint(format!("`mahabharatha status {}` shows its state.", place.feature)));
    }
    if ui.json() {
        ui.data(&json!({ "feature": place.feature, "paused": paused, "message": message }).to_string());
    } else {
        ui.note(&format!("{}: {message}", place.feature));
    }
    Ok(ExitCode::Done)
}
