//! `design`: for now, the check of a task graph.

use clap::Args;
use mahabharatha_core::graph::{Severity, TaskGraph};
use serde::Serialize;

use super::Global;
use crate::error::{Error, ExitCode, Result};
use crate::project::FeaturePaths;
use crate::report::text::count;
use crate::session;
use crate::specs;
use crate::store::journal::Journal;
use crate::ui::Ui;

#[derive(Debug, Args)]
pub struct DesignArgs {
    /// The feature whose graph is meant
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// Check the graph and list every problem; change nothing
    #[arg(long, required = true)]
    validate_only: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &DesignArgs) -> Result<ExitCode> {
    let place = global.place(args.feature.as_deref())?;
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
    let (graph, problems) = specs::check_graph(&place.feature, &file, Some(&tree));
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
    ui.note(&format!("{} is valid: {}", source(&place.paths), size(&graph)));
    Ok(ExitCode::Done)
}

fn print_json(ui: &Ui, problems: &impl Serialize) {
    let data = serde_json::json!({ "problems": problems });
    ui.data(&serde_json::to_string_pretty(&data).expect("problems are plain data"));
}

fn invalid(paths: &FeaturePaths, errors: usize) -> Error {
    Error::new(ExitCode::Invalid, format!("{} has {}", source(paths), count(errors, "error")))
}

/// What the graph was read from.
fn source(paths: &FeaturePaths) -> String {
    let graph = paths.graph();
    if graph.exists() {
        graph.display().to_string()
    } else {
        format!("the graph of the files in {}", paths.task_files().display())
    }
}

/// `3 tasks on 2 levels`
pub fn size(graph: &TaskGraph) -> String {
    format!("{} on {}", count(graph.tasks().len(), "task"), count(graph.levels().len(), "level"))
}
