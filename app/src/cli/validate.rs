//! `design --validate-only`: lists every problem of a task graph.

use mahabharatha_core::graph::{Severity, trace};
use mahabharatha_core::spec::Requirements;
use mahabharatha_engine::report::text::{count, graph_size};
use mahabharatha_engine::session;
use mahabharatha_engine::specs;
use mahabharatha_setup::planning::{self, ApprovalStatus};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::{FeaturePaths, Place};
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::ui::Ui;
use serde::Serialize;

use super::exit::ExitCode;

pub fn run(place: &Place, ui: &Ui) -> Result<ExitCode> {
    let run = session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)?;
    let start = session::start_commit(&place.project, run.as_ref())?;
    let tree = specs::start_tree(&place.project.git(), &start)?;
    let file = match specs::try_read_graph(&place.paths, &tree)? {
        Ok(file) => file,
        Err(unreadable) if ui.json() => {
            print_json(ui, &unreadable);
            return Ok(ExitCode::Invalid);
        }
        Err(unreadable) => return Err(specs::cannot_read(&place.paths, &unreadable)),
    };
    let rules = specs::load_config(&place.project)?.graph_rules();
    let (graph, mut problems) = specs::check_graph(&place.feature, &file, Some(&tree), rules);
    if let Some(requirements) = planning::read_document(&place.paths.requirements())? {
        problems.extend(trace(&Requirements::parse(&requirements), &file).1);
        if planning::approval_status(&place.project, &place.paths)? == ApprovalStatus::Changed {
            ui.warn(&format!("the requirements of {} were changed since approval", place.feature));
        }
    }
    if ui.json() {
        print_json(ui, &problems);
    } else {
        for problem in &problems {
            let line = specs::problem_line(problem);
            match problem.severity {
                Severity::Error => ui.data(&format!("error {line}\n")),
                Severity::Warning => ui.data(&format!("warning {line}\n")),
            }
        }
    }
    let Some(graph) = graph else {
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
        return if ui.json() { Ok(ExitCode::Invalid) } else { Err(invalid(&place.paths, errors)) };
    };
    ui.note(&format!("{} is valid: {}", source(&place.paths), graph_size(&graph)));
    Ok(ExitCode::Done)
}

pub fn print_json(ui: &Ui, problems: &(impl Serialize + ?Sized)) {
    let data = serde_json::json!({ "problems": problems });
    ui.pretty(&data);
}

fn invalid(paths: &FeaturePaths, errors: usize) -> Error {
    Error::new(Kind::Invalid, format!("{} has {}", source(paths), count(errors, "error")))
}

/// Describes where the graph was read from.
fn source(paths: &FeaturePaths) -> String {
    let graph = paths.graph();
    if graph.exists() {
        graph.display().to_string()
    } else {
        format!("the graph of the files in {}", paths.task_files().display())
    }
}
