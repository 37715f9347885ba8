//! `design`: for now, the check of a task graph.

use clap::Args;
use mahabharatha_core::graph::Severity;

use super::Global;
use crate::error::{Error, ExitCode, Result};
use crate::git::Git;
use crate::session;
use crate::specs;
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
    let git = Git::repository(place.project.common_dir());
    let start = match session::started_from(&place.paths)? {
        Some(commit) => commit,
        None => place.project.head_commit()?,
    };
    let tree = specs::start_tree(&git, &start)?;
    let file = specs::read_graph(&place.paths, &tree)?;
    let (graph, problems) = specs::check_graph(&place.feature, &file, Some(&tree));
    if ui.json() {
        ui.data(&serde_json::to_string_pretty(&serde_json::json!({ "problems": problems })).expect("problems are plain data"));
    } else {
        for problem in &problems {
            let line = specs::problem_line(problem);
            match problem.severity {
                Severity::Error => ui.data(&format!("error {line}\n")),
                Severity::Warning => ui.data(&format!("warning {line}\n")),
            }
        }
    }
    match graph {
        Some(graph) => {
            ui.note(&format!("{} is valid: {} tasks on {} levels", place.paths.graph().display(), graph.tasks().len(), graph.levels().len()));
            Ok(ExitCode::Done)
        }
        None if ui.json() => Ok(ExitCode::Invalid),
        None => {
            let count = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
            Err(Error::new(ExitCode::Invalid, format!("{} has {count} problem(s)", place.paths.graph().display())))
        }
    }
}
