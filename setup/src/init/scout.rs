//! Asks an agent about what static detection cannot see. If there is no usable answer, `init` continues with its own
//! findings.

use std::path::Path;

use mahabharatha_core::config::Config;
use mahabharatha_core::prompt::scout::{ScoutNotes, scout};
use mahabharatha_engine::report::text::cost_phrase;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Project;
use mahabharatha_sys::ui::{Ui, one_line};

use super::infrastructure;
use crate::planning::{Asker, Role};

/// Returns the asker, or an error if the agent cannot be asked at all. Called early, so that the error comes before the
/// survey.
pub fn asker<'a>(name: &str, config: &'a Config, root: &'a Path, project: Option<&'a Project>) -> Result<Asker<'a>> {
    Asker::about_project(name, Role::Scout, config, root, project)
}

/// Returns the agent's notes on the findings, or the reason why there are none.
pub fn ask(ui: &Ui, asker: &Asker<'_>, found: &str) -> Result<ScoutNotes, String> {
    let answer = asker.ask(ui, &scout(found), &ScoutNotes::schema());
    if let Some(cost) = cost_phrase(asker.cost()).filter(|_| answer.is_ok()) {
        ui.note(&format!("{} answered ({cost})", asker.name()));
    }
    let why = match answer.map(|answer| answer.and_then(ScoutNotes::read)) {
        Ok(Ok(notes)) => return Ok(notes),
        Ok(Err(why)) => format!("{}'s answer cannot be used: {why}", asker.name()),
        Err(error) => one_line(&error.to_string()),
    };
    Err(format!("{why}; {} was written without scout notes", infrastructure::PATH))
}
