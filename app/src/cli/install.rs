//! `install`: puts slash commands, agents and hooks in place, as files or as plugins, and removes them again.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::Global;
use super::selection::InstallSelection;
use crate::claude::commands::Home;
use crate::claude::groups::Action;
use crate::claude::install::{self, PROGRAM, Plan};
use crate::error::{ExitCode, Result, io};
use crate::init;
use crate::proc::find_program;
use crate::project::Project;
use crate::report::placed::{self, Task};
use crate::report::text::count;
use crate::specs;
use crate::ui::Ui;

#[derive(Debug, Args)]
pub struct InstallArgs {
    /// For all your projects, in ~/.claude, rather than for this one
    #[arg(long)]
    user: bool,
    /// Write two Claude Code plugins into this directory instead, for --plugin-dir or a marketplace
    #[arg(long, value_name = "DIR", conflicts_with_all = ["user", "only", "without", "minimal", "status_line"])]
    plugin: Option<PathBuf>,
    /// Remove what `install` and `init` wrote; what you changed is kept
    #[arg(long, conflicts_with = "status_line")]
    remove: bool,
    #[command(flatten)]
    groups: InstallSelection,
    /// Also set Claude Code's status line, unless you have one
    #[arg(long, conflicts_with = "minimal")]
    status_line: bool,
    /// Show what would be written or removed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &InstallArgs) -> Result<ExitCode> {
    let task = if args.remove { Task::Remove } else { Task::Write };
    // Held to the end, so that no `init` writes meanwhile.
    let mut _lock = None;
    let plan = match (&args.plugin, args.remove) {
        (Some(dir), false) => install::plan_plugins(&make_absolute(global, dir)?)?,
        (Some(dir), true) => install::plan_plugin_removal(&make_absolute(global, dir)?)?,
        (None, false) => plan(global, args)?,
        (None, true) if args.user => install::plan_removal(&Home::of_user()?, &args.groups.removal())?,
        (None, true) => {
            let root = project_root(global)?;
            _lock = Some(init::lock(&root)?);
            init::plan_removal(&root, &args.groups.removal())?
        }
    };
    if args.dry_run {
        placed::show_plan(ui, task, plan.root(), &plan.files);
    }
    let written = !args.dry_run && placed::confirm(ui, task, plan.root(), &plan.files)?;
    if written {
        plan.carry_out()?;
    }
    tell(ui, args, &plan, written);
    let warning = install::warning(find_program(PROGRAM).as_deref()).filter(|_| written && !args.remove);
    for warning in plan.warnings.iter().cloned().chain(warning) {
        ui.warn(&warning);
    }
    Ok(ExitCode::Done)
}

fn plan(global: &Global, args: &InstallArgs) -> Result<Plan> {
    let selection = args.groups.selection(args.status_line)?;
    if args.user {
        // The commands serve many projects, so no project's configuration counts.
        return install::plan(&Home::of_user()?, true, &selection);
    }
    let project = global.project()?;
    let config = specs::load_config(&project)?;
    let split = config.plugins.context_engineering.command_splitting;
    install::plan(&Home::of_project(project.root()), split, &selection)
}

/// Where `init` writes: the main checkout, or a directory that is in no repository.
fn project_root(global: &Global) -> Result<PathBuf> {
    match Project::locate(&global.directory)? {
        Some(project) => Ok(project.root().to_owned()),
        None => fs::canonicalize(&global.directory).map_err(io("follow", &global.directory)),
    }
}

fn make_absolute(global: &Global, dir: &PathBuf) -> Result<PathBuf> {
    let dir = global.directory.join(dir);
    let base = fs::canonicalize(".").map_err(io("follow", &dir))?;
    Ok(base.join(dir))
}

fn tell(ui: &Ui, args: &InstallArgs, plan: &Plan, written: bool) {
    let remove = remove_command(args);
    if ui.json() {
        let data = json!({ "root": plan.root(), "files": plan.files, "written": written, "remove": remove });
        ui.data(&serde_json::to_string_pretty(&data).expect("paths are plain data"));
        return;
    }
    if !written {
        return;
    }
    let number = |wanted: Action| plan.files.iter().filter(|file| file.action == wanted).count();
    for file in plan.files.iter().filter(|file| file.action != Action::Unchanged) {
        let word = match (file.action, args.remove) {
            (Action::Created | Action::Updated, _) => "written",
            (Action::Merged, false) => "added to",
            (Action::Merged, true) => "ours taken out of",
            (Action::Removed, _) => "removed",
            _ => "kept",
        };
        ui.data(&format!("{word} {}", placed::shown(file)));
    }
    let place = plan.root().display();
    let kept = number(Action::Kept);
    let kept = if kept > 0 { format!("; kept {} that you changed", count(kept, "file")) } else { String::new() };
    if plan.changes_nothing() {
        ui.note(&format!(
            "{place}: {}{kept}",
            if args.remove { "nothing of ours to remove" } else { "already up to date" }
        ));
    } else if args.remove {
        ui.note(&format!("{place}: {} removed{kept}", count(number(Action::Removed), "file")));
    } else {
        let written = number(Action::Created) + number(Action::Updated) + number(Action::Merged);
        ui.note(&format!("{place}: {} written{kept}. Remove them with: {remove}", count(written, "file")));
    }
}

fn remove_command(args: &InstallArgs) -> String {
    match &args.plugin {
        Some(dir) => format!("mahabharatha install --remove --plugin {}", dir.display()),
        None if args.user => "mahabharatha install --remove --user".to_owned(),
        None => "mahabharatha install --remove".to_owned(),
    }
}
