//! `diff`: shows what a task, a level or the feature changed.

use clap::Args;
use mahabharatha_core::ids::{Attempt, Level};
use mahabharatha_engine::report::diff::{files_json, patch_bytes, patch_text, stat_text};
use mahabharatha_engine::session::control;
use mahabharatha_engine::session::diff::{self, Diff, Selection};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::exit::ExitCode;
use super::{Global, answer};

#[derive(Debug, Args)]
#[command(after_help = super::examples::DIFF)]
pub struct DiffArgs {
    /// The task; without it the level, or all that the feature has changed so far
    task: Option<String>,
    /// What this attempt committed, saved, or has in its worktree
    #[arg(long, value_name = "N", requires = "task")]
    attempt: Option<u32>,
    /// The work in progress that was saved, also where the task was completed later
    #[arg(long, requires = "task")]
    wip: bool,
    /// The whole level: what was merged or staged, else the commits of its completed tasks
    #[arg(long, value_name = "N", conflicts_with = "task")]
    level: Option<u32>,
    /// Only the files, with the number of changed lines
    #[arg(long)]
    stat: bool,
    /// Never use a pager
    #[arg(long)]
    no_pager: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &DiffArgs) -> Result<ExitCode> {
    let place = global.known_place(None)?;
    let run = control::read_run(&place)?;
    let selection = match (&args.task, args.level) {
        (Some(task), _) => {
            let task = answer::task_id(task)?;
            Selection::Task { task, attempt: args.attempt.map(Attempt), wip: args.wip }
        }
        (None, Some(level)) => Selection::Level(Level(level)),
        (None, None) => Selection::Feature,
    };
    let found = diff::find(&place, &run, &selection)?;
    found.notes.iter().for_each(|note| ui.note(note));
    if ui.json() {
        let data = json!({
            "feature": place.feature.as_str(),
            "task": args.task,
            "level": args.level,
            "source": found.source,
            "attempt": found.attempt.map(|attempt| attempt.0),
            "commits": found.commits,
            "files": files_json(&found.files),
            "notes": found.notes,
        });
        ui.pretty(&data);
    } else {
        show(ui, &found, args);
    }
    Ok(ExitCode::Done)
}

fn show(ui: &Ui, found: &Diff, args: &DiffArgs) {
    let text = match (args.stat, ui.is_for_people()) {
        (true, _) => stat_text(&found.files, ui.paint()),
        (false, true) => patch_text(&found.files, ui.paint()),
        (false, false) => return ui.exact(&patch_bytes(&found.files)),
    };
    if text.is_empty() {
        return;
    }
    if args.no_pager { ui.painted(&text) } else { ui.paged(&text) }
}
