//! `undo`: lists the merged levels of a feature, asks, and reverts them.

use clap::Args;
use mahabharatha_engine::session::undo::{self, Undone};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct UndoArgs {
    /// The feature to undo
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// Show which commits it would make; move no branch
    #[arg(long)]
    dry_run: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &UndoArgs) -> Result<ExitCode> {
    let place = global.known_place(args.feature.as_deref())?;
    let planned = undo::undo(&place, true)?;
    if !ui.json() {
        for revert in &planned.reverts {
            let files = revert.files.join(", ");
            ui.data(&format!("level {} ({}): {files}\n", revert.level, revert.landed.short()));
        }
    }
    if !args.dry_run && !planned.reverts.is_empty() && !confirm(ui, &planned)? {
        ui.note("Nothing was changed.");
        return Ok(ExitCode::Done);
    }
    let Undone { branch, reverts, commit } = if args.dry_run { planned } else { undo::undo(&place, false)? };
    let feature = &place.feature;
    if ui.json() {
        let reverts: Vec<_> = reverts
            .iter()
            .map(|it| json!({ "level": it.level, "landed": it.landed, "commit": it.commit, "files": it.files }))
            .collect();
        let data = json!({ "feature": feature.as_str(), "branch": branch, "reverts": reverts,
            "commit": commit, "undone": !args.dry_run });
        ui.pretty(&data);
        return Ok(ExitCode::Done);
    }
    ui.note(&match (reverts.is_empty(), args.dry_run) {
        // Whether it still is, only the later commits tell.
        (true, _) => format!("{feature} was undone in {} on {branch}. Nothing was changed.", commit.short()),
        (false, true) => {
            format!("{feature} can be undone: {} on {branch}. Nothing was changed.", commits(reverts.len()))
        }
        (false, false) => format!("{feature} is undone: {} on {branch}.", commits(reverts.len())),
    });
    Ok(ExitCode::Done)
}

/// Asks whether to revert the levels that were listed.
fn confirm(ui: &Ui, planned: &Undone) -> Result<bool> {
    let levels = if planned.reverts.len() == 1 { "this level" } else { "these levels" };
    let question = format!("Revert {levels} on {}?", planned.branch);
    ui.confirm(&question, "--yes").map_err(|unanswered| Error::new(Kind::Usage, unanswered.to_string()))
}

fn commits(number: usize) -> String {
    mahabharatha_engine::report::text::count(number, "revert commit")
}
