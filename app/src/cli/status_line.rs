//! `status --line`: a feature's state in one line, for Claude Code's status line and for shell prompts.
//!
//! It reads a few small files and starts no process, so it answers within milliseconds. Claude Code starts it in the session's
//! directory with a description of the session on stdin, which it must not read: a prompt must never wait.

use mahabharatha_engine::report::status_line::{StatusLine, text};
use mahabharatha_engine::session::control;
use mahabharatha_sys::bounded;
use mahabharatha_sys::project::{Place, Project};
use mahabharatha_sys::ui::Ui;
use serde_json::Value;

use super::Global;
use super::exit::ExitCode;

/// Prints the line, or nothing without a project, feature or run: a prompt should not show errors.
pub fn run(global: &Global, ui: &Ui, named: Option<&str>) -> ExitCode {
    let line = read(global, named.or(global.feature.as_deref()));
    if ui.json() {
        ui.data(&serde_json::to_string(&line).expect("a line is plain data"));
    } else if let Some(line) = line {
        ui.data(&text(&line));
    }
    ExitCode::Done
}

fn read(global: &Global, named: Option<&str>) -> Option<StatusLine> {
    let project = Project::locate_without_git(&global.directory)?;
    let feature = project.which_feature(named, std::env::var_os).ok()?;
    let place = Place::new(project, feature);
    // Read first: if nothing drives the run, the projection read below is final.
    let is_driven = control::is_at_work(&place).unwrap_or(true);
    let projection = bounded::read(&place.paths.projection(), bounded::LARGE_FILE_BYTES).ok()?;
    let projection: Value = serde_json::from_slice(&projection).ok()?;
    let line = StatusLine::of(&place.feature, &projection);
    Some(if is_driven { line } else { line.undriven() })
}
