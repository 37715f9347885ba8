//! `plan`: writes the requirements of a feature and has the user approve them. Must not go on to the design.

use std::path::PathBuf;

use clap::Args;
use mahabharatha_engine::report::extended;
use mahabharatha_engine::report::text::cost_phrase;
use mahabharatha_setup::planning::{self, ApprovalStatus, PlanOptions, Planned, Source, gap_line};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The feature: lower-case letters, digits and -
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// What you want, in your own words
    #[arg(long, value_name = "TEXT", group = "wish")]
    describe: Option<String>,
    /// A file with what you want, or with whole requirements; - reads the standard input
    #[arg(long, value_name = "FILE", group = "wish")]
    from: Option<PathBuf>,
    /// A GitHub issue that says what is wanted, read with gh
    #[arg(long, value_name = "N", group = "wish")]
    issue: Option<u64>,
    /// Agent that writes the requirements, or none for a form [default: the configured agent, else an interview]
    #[arg(long, value_name = "NAME|none")]
    agent: Option<String>,
    /// Approve the requirements as they are
    #[arg(long)]
    approve: bool,
    /// Let this Claude Code session plan the feature: its next calls and its drafts need no permission; changes nothing
    #[arg(long, conflicts_with_all = ["wish", "agent", "approve"])]
    begin: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &PlanArgs) -> Result<ExitCode> {
    let place = global.place(args.feature.as_deref())?;
    if args.begin {
        return begin(&place, ui);
    }
    planning::exit_on_signals(ExitCode::Stopped as i32)?;
    let (source, agent) = (args.source(), args.agent.clone());
    let options = PlanOptions { source, agent, approve: args.approve, draft_only: false };
    let planned = planning::plan(&place, ui, &global.directory, &options)?;
    print(&place, ui, &planned);
    Ok(ExitCode::Done)
}

fn print(place: &Place, ui: &Ui, planned: &Planned) {
    let (Place { feature, paths, .. }, Planned { status, gaps, cost }) = (place, planned);
    if ui.json() {
        let data = json!({
            "feature": feature.as_str(), "requirements": paths.requirements(), "status": status, "problems": gaps,
        });
        ui.pretty(&extended(data, *cost));
        return;
    }
    if !ui.can_ask() {
        gaps.iter().for_each(|gap| ui.warn(&gap_line(gap)));
    }
    let cost = cost_phrase(*cost).map(|cost| format!(" ({cost})")).unwrap_or_default();
    ui.note(&format!("{} is {status}{cost}.", paths.requirements().display()));
    ui.note(&match status {
        ApprovalStatus::Approved => format!("Next: mahabharatha design {feature}"),
        _ => format!("When it is right: mahabharatha plan {feature} --approve"),
    });
}

/// Lets the calling session plan the feature, and prints where its requirements stand.
pub(super) fn begin(place: &Place, ui: &Ui) -> Result<ExitCode> {
    let Place { project, feature, paths } = place;
    planning::begin_in_session(paths)?;
    let status = planning::approval_status(project, paths)?;
    if ui.json() {
        ui.data(&json!({ "feature": feature.as_str(), "requirements": status }).to_string());
    } else {
        ui.note(&format!("The requirements of {feature} are {status}."));
    }
    Ok(ExitCode::Done)
}

impl PlanArgs {
    pub(super) fn feature(&self) -> Option<&str> {
        self.feature.as_deref()
    }

    /// Tells whether a session that plans the feature itself may make this call: it asks no agent.
    pub(super) fn is_for_sessions(&self) -> bool {
        self.begin || self.agent.as_deref() == Some("none") || self.approve && self.source().is_none()
    }

    fn source(&self) -> Option<Source> {
        let text = self.describe.clone().map(Source::Text);
        text.or(self.from.clone().map(Source::File)).or(self.issue.map(Source::Issue))
    }
}
