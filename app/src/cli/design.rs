//! `design`: turns approved requirements into a valid task graph.

use std::path::PathBuf;

use clap::Args;
use mahabharatha_core::graph::Problem;
use mahabharatha_engine::session::undo;
use mahabharatha_engine::specs;
use mahabharatha_setup::planning::{self, DesignAuthor, DesignOptions};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;
use super::{Global, plan, validate};

#[derive(Debug, Args)]
pub struct DesignArgs {
    /// The feature to design
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// Agent that designs it, or none for a skeleton [default: the configured agent]
    #[arg(long, value_name = "NAME|none", conflicts_with = "from_graph")]
    agent: Option<String>,
    /// Use this graph instead of asking an agent; - reads standard input
    #[arg(long, value_name = "FILE")]
    from_graph: Option<PathBuf>,
    /// Check the graph and list every problem; change nothing
    #[arg(long, conflicts_with_all = ["agent", "from_graph", "commit", "no_commit", "force"])]
    validate_only: bool,
    /// Let this Claude Code session design the feature: its next calls and its drafts need no permission; changes nothing
    #[arg(long, conflicts_with_all = ["agent", "from_graph", "validate_only", "commit", "no_commit", "force"])]
    begin: bool,
    /// Commit the design and its stubs, once their check passed
    #[arg(long, conflicts_with = "no_commit")]
    commit: bool,
    /// Do not commit
    #[arg(long)]
    no_commit: bool,
    /// Also if the requirements are not approved, or if a run has begun
    #[arg(long)]
    force: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &DesignArgs) -> Result<ExitCode> {
    if args.validate_only {
        return validate::run(&global.known_place(args.feature.as_deref())?, ui);
    }
    let place = global.place(args.feature.as_deref())?;
    if args.begin {
        undo::refuse_undone_feature(&place)?;
        planning::check_requirements(&place, planning::approval_status(&place.project, &place.paths)?)?;
        return plan::begin(&place, ui);
    }
    planning::exit_on_signals(ExitCode::Stopped as i32)?;
    match planning::design(&place, ui, &global.directory, &args.options())? {
        Ok(_) => Ok(ExitCode::Done),
        Err(problems) if ui.json() => {
            validate::print_json(ui, &problems);
            Ok(ExitCode::Invalid)
        }
        Err(problems) => Err(invalid(&problems)),
    }
}

/// Returns the error of a design that was not written because of these problems.
pub(super) fn invalid(problems: &[Problem]) -> Error {
    let error = Error::new(Kind::Invalid, "the design is invalid; nothing was written");
    let error = problems.iter().fold(error, |error, problem| error.detail(specs::problem_line(problem)));
    error.hint("`mahabharatha help task-graph` tells the form of a graph, and what to do about each problem.")
}

impl DesignArgs {
    pub(super) fn feature(&self) -> Option<&str> {
        self.feature.as_deref()
    }

    /// Tells whether a session that designs the feature itself may make this call: it asks no agent and forces nothing.
    pub(super) fn is_for_sessions(&self) -> bool {
        (self.begin || self.validate_only || self.from_graph.is_some()) && !self.force
    }

    fn options(&self) -> DesignOptions {
        let author = match (&self.from_graph, self.agent.as_deref()) {
            (Some(path), _) => DesignAuthor::Graph(path.clone()),
            (None, Some("none")) => DesignAuthor::Form,
            (None, agent) => DesignAuthor::Agent(agent.map(str::to_owned)),
        };
        let commit = (self.commit || self.no_commit).then_some(self.commit);
        DesignOptions { author, commit, force: self.force, with_run: false }
    }
}
