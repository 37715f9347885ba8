//! One question to an agent about what rules cannot see. Without an answer, `init` goes on with what it found itself.

use std::path::Path;

use mahabharatha_core::config::Config;
use mahabharatha_core::prompt::scout::{ScoutNotes, scout};
use mahabharatha_engine::report::text::cost_phrase;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Project;
use mahabharatha_sys::ui::{Ui, one_line};

use super::infrastructure;
use crate::planning::{self, Asker, Role};

/// An error where it cannot be asked at all, which is better known before everything is read.
pub fn asker<'a>(name: &str, config: &'a Config, root: &'a Path, project: Option<&'a Project>) -> Result<Asker<'a>> {
    Asker::about_project(name, Role::Scout, config, root, project)
}

/// What it has to add to what was found; or why nothing.
pub fn ask(ui: &Ui, asker: &Asker<'_>, found: &str) -> Result<ScoutNotes, String> {
    planning::end_on_signals().map_err(|error| error.to_string())?;
    let answer = asker.ask(ui, &scout(found), &ScoutNotes::schema());
    if let Some(cost) = cost_phrase(asker.cost()).filter(|_| answer.is_ok()) {
        ui.note(&format!("{} has answered ({cost}).", asker.name()));
    }
    let why = match answer.map(|answer| answer.and_then(ScoutNotes::read)) {
        Ok(Ok(notes)) => return Ok(notes),
        Ok(Err(why)) => format!("what {} answered cannot be used: {why}", asker.name()),
        Err(error) => one_line(&error.to_string()),
    };
    Err(format!("{why}; {} has no notes of the scout", infrastructure::PATH))
}
