//! `init`: creates a new project in an empty directory, or sets up an existing one.

use std::path::PathBuf;

use clap::Args;
use mahabharatha_engine::claude::groups::{Action, Group, Selection};
use mahabharatha_engine::report::placed::{self, Operation, Tense};
use mahabharatha_setup::init::{self, Outcome, Request};
use mahabharatha_setup::planning;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::ui::Ui;

use super::Global;
use super::exit::ExitCode;
use super::selection::GroupArgs;

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Set up again; files that you changed are kept, with the new version beside them
    #[arg(long)]
    force: bool,
    /// Name of the project
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// One sentence about the project
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The language of a new project: python, typescript, go or rust
    #[arg(long, value_name = "LANGUAGE")]
    language: Option<String>,
    /// The framework of a new project, such as fastapi, hono, gin or axum
    #[arg(long, value_name = "FRAMEWORK")]
    framework: Option<String>,
    /// Answers to the questions about a new project
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// An agent that reads an existing project and adds its notes [default: none]
    #[arg(long, value_name = "NAME|none")]
    agent: Option<String>,
    #[command(flatten)]
    groups: GroupArgs,
    /// Write only what a run needs: the group config
    #[arg(long)]
    minimal: bool,
    /// Also set Claude Code's status line, unless you have one
    #[arg(long, conflicts_with = "minimal")]
    status_line: bool,
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &InitArgs) -> Result<ExitCode> {
    let request = Request {
        selection: match args.minimal {
            true => Selection::new([Group::Config]),
            false => args.groups.selection(if args.status_line { &[Group::StatusLine] } else { &[] }),
        },
        dry_run: args.dry_run,
        force: args.force,
        name: args.name.clone(),
        description: args.description.clone(),
        language: args.language.clone(),
        framework: args.framework.clone(),
        answers: args.answers.as_ref().map(|file| global.directory.join(file)),
        agent: args.agent.clone().filter(|agent| agent != "none"),
    };
    if request.agent.is_some() || ui.can_ask() {
        planning::exit_on_signals(ExitCode::Stopped as i32)?;
    }
    let outcome = init::run(&global.directory, ui, &request)?;
    if ui.json() {
        ui.pretty(&outcome);
    } else {
        show(ui, &outcome);
    }
    Ok(ExitCode::Done)
}

fn show(ui: &Ui, outcome: &Outcome) {
    if !outcome.written {
        return;
    }
    let (kept, changed): (Vec<_>, Vec<_>) = outcome.files.iter().cloned().partition(|file| file.action == Action::Kept);
    for line in placed::lines(&changed, Operation::Write, Tense::Done, ui.verbose()) {
        ui.note(&line);
    }
    if !kept.is_empty() {
        ui.note("Kept as you have them, with the new version beside:");
        for file in &kept {
            ui.note(&format!("  {}", placed::shown(file)));
        }
    }
    if outcome.files.iter().all(|file| file.action == Action::Unchanged) {
        ui.note("Already up to date; nothing was changed.");
    } else {
        let has_scaffold = outcome.files.iter().any(|file| file.group == Group::Scaffold);
        let kept = if has_scaffold { "the scaffold and what you changed" } else { "what you changed" };
        ui.note(&format!("Remove them with: {} (keeps {kept})", outcome.remove));
    }
    for step in &outcome.next {
        ui.note(&format!("Next: {step}"));
    }
}
