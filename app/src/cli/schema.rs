//! `schema`: JSON Schemas of the files that people write and of the data that programs read.

use clap::{Args, ValueEnum};
use mahabharatha_engine::report::schema;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct SchemaArgs {
    #[arg(value_enum)]
    of: Subject,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// .gsd/specs/FEATURE/task-graph.json
    Graph,
    /// .mahabharatha/config.yaml
    Config,
    /// The output of status --json
    Status,
    /// Each line of run, attach and merge --json
    Events,
}

pub fn run(ui: &Ui, args: &SchemaArgs) -> Result<ExitCode> {
    let schema = match args.of {
        Subject::Graph => schema::graph(),
        Subject::Config => schema::config(),
        Subject::Status => schema::status(),
        Subject::Events => schema::events(),
    };
    ui.data(&format!("{schema:#}\n"));
    Ok(ExitCode::Done)
}
