//! `install`: installs or removes slash commands, agents and hooks, as files or as plugins.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use mahabharatha_engine::claude::commands::Home;
use mahabharatha_engine::claude::groups::{Action, Group, Selection, count_files};
use mahabharatha_engine::claude::install::{self, PROGRAM, Plan};
use mahabharatha_engine::report::placed::{self, Operation, Tense};
use mahabharatha_engine::report::text::count;
use mahabharatha_engine::specs;
use mahabharatha_setup::init;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::proc::find_program;
use mahabharatha_sys::project::Project;
use mahabharatha_sys::store::file_set;
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::Global;
use super::exit::ExitCode;
use super::selection::GroupArgs;

#[derive(Debug, Args)]
pub struct InstallArgs {
    /// For all your projects, in ~/.claude, rather than for this one
    #[arg(long)]
    user: bool,
    /// Write two Claude Code plugins into this directory instead, for --plugin-dir or a marketplace
    #[arg(long, value_name = "DIR", conflicts_with_all = ["user", "only", "without", "minimal", "status_line", "mcp"])]
    plugin: Option<PathBuf>,
    /// Remove what `install` and `init` wrote; what you changed is kept
    #[arg(long, conflicts_with_all = ["status_line", "mcp"])]
    remove: bool,
    #[command(flatten)]
    groups: GroupArgs,
    /// Leave settings.json alone: only the groups commands and agents
    #[arg(long)]
    minimal: bool,
    /// Also set Claude Code's status line, unless you have one
    #[arg(long, conflicts_with = "minimal")]
    status_line: bool,
    /// Also tell Claude Code about the MCP server, in .mcp.json
    #[arg(long, conflicts_with_all = ["minimal", "user"])]
    mcp: bool,
    /// Show what would be written or removed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl InstallArgs {
    fn operation(&self) -> Operation {
        if self.remove { Operation::Remove } else { Operation::Write }
    }

    fn selection(&self, status_line: bool) -> Result<Selection> {
        if let Some(group) = self.groups.other_than(&Group::INSTALL) {
            let message = format!("install does not write the group {}", group.word());
            return Err(Error::new(Kind::Usage, message).hint(format!(
                "`mahabharatha init --force --only {0}` writes it, `mahabharatha install --remove --only {0}` removes it.",
                group.word()
            )));
        }
        let asked = [(Group::StatusLine, status_line), (Group::Mcp, self.mcp)];
        let also: Vec<Group> = asked.into_iter().filter(|(_, is_asked)| *is_asked).map(|(group, _)| group).collect();
        Ok(if self.minimal { minimal() } else { self.groups.selection(&also) })
    }

    fn removal(&self) -> Selection {
        if self.minimal { minimal() } else { self.groups.removal() }
    }

    /// Tells whether the user did not choose for or against a status line.
    fn leaves_status_line_open(&self) -> bool {
        let is_chosen = self.status_line || self.minimal || self.groups.is_given();
        !is_chosen && !self.remove && self.plugin.is_none()
    }
}

fn minimal() -> Selection {
    Selection::new([Group::Commands, Group::Agents])
}

pub fn run(global: &Global, ui: &Ui, args: &InstallArgs) -> Result<ExitCode> {
    let operation = args.operation();
    let root = root(global, args)?;
    // Held until the end, so that no `init` writes meanwhile. A directory that does not exist has nothing to recover.
    let _lock = if root.exists() { Some(file_set::lock(&root)?) } else { None };
    if _lock.is_some() && !args.dry_run && file_set::recover(&root)? {
        ui.note("Cleaned up after an init or install that was interrupted.");
    }
    let mut status_line_command = None;
    let plan = match (&args.plugin, args.remove) {
        (Some(_), false) => install::plan_plugins(&root)?,
        (Some(_), true) => install::plan_plugin_removal(&root)?,
        (None, false) => {
            let (plan, command) = plan(global, ui, args)?;
            status_line_command = command;
            plan
        }
        (None, true) if args.user => install::plan_removal(&Home::of_user()?, &args.removal())?,
        (None, true) => init::plan_removal(&root, &args.removal())?,
    };
    if args.dry_run {
        placed::show_plan(ui, operation, plan.root(), &plan.files);
    }
    let written = !args.dry_run && placed::confirm(ui, operation, plan.root(), &plan.files)?;
    if written {
        plan.carry_out()?;
    }
    print_result(ui, args, &plan, written);
    if let Some(command) = status_line_command.filter(|_| written) {
        ui.note(&format!("To show runs in Claude Code's status line: {command}"));
    }
    let warning = install::warning(find_program(PROGRAM).as_deref()).filter(|_| written && !args.remove);
    for warning in plan.warnings.iter().cloned().chain(warning) {
        ui.warn(&warning);
    }
    Ok(ExitCode::Done)
}

/// Plans the installation. If there is no status line, offers one: by a question if the user can be asked, otherwise
/// through the returned command.
fn plan(global: &Global, ui: &Ui, args: &InstallArgs) -> Result<(Plan, Option<&'static str>)> {
    let (home, split) = if args.user {
        // The commands are for many projects, so no project's configuration applies.
        (Home::of_user()?, true)
    } else {
        let project = global.project()?;
        let config = specs::load_config(&project)?;
        (Home::of_project(project.root()), config.plugins.context_engineering.command_splitting)
    };
    let plan = install::plan(&home, split, &args.selection(args.status_line)?)?;
    if !args.leaves_status_line_open() || install::has_status_line(&home) {
        return Ok((plan, None));
    }
    if args.dry_run || plan.changes_nothing() || ui.yes() || !ui.can_ask() {
        let user = "mahabharatha install --user --only status-line";
        let project = "mahabharatha install --only status-line";
        return Ok((plan, Some(if args.user { user } else { project })));
    }
    let wanted = ui.confirm("Also show runs in Claude Code's status line?", "--status-line");
    if wanted.map_err(|unanswered| Error::new(Kind::Usage, unanswered.to_string()))? {
        return Ok((install::plan(&home, split, &args.selection(true)?)?, None));
    }
    Ok((plan, None))
}

/// Returns the directory that contains all changes, as an absolute path.
fn root(global: &Global, args: &InstallArgs) -> Result<PathBuf> {
    if let Some(dir) = &args.plugin {
        let dir = global.directory.join(dir);
        let base = fs::canonicalize(".").map_err(io("follow", &dir))?;
        return Ok(base.join(dir));
    }
    if args.user {
        return Ok(Home::of_user()?.root().to_owned());
    }
    if !args.remove {
        return Ok(global.project()?.root().to_owned());
    }
    // `init` also works in a directory outside of any repository.
    match Project::locate(&global.directory)? {
        Some(project) => Ok(project.root().to_owned()),
        None => fs::canonicalize(&global.directory).map_err(io("follow", &global.directory)),
    }
}

fn print_result(ui: &Ui, args: &InstallArgs, plan: &Plan, written: bool) {
    let remove = remove_command(args);
    if ui.json() {
        let data = json!({ "root": plan.root(), "files": plan.files, "written": written, "remove": remove });
        ui.pretty(&data);
        return;
    }
    if !written {
        return;
    }
    for line in placed::lines(&plan.files, args.operation(), Tense::Done, true) {
        ui.data(&line);
    }
    let number = |wanted: &[Action]| count_files(plan.files.iter().filter(|file| wanted.contains(&file.action)));
    let place = plan.root().display();
    let kept = number(&[Action::Kept]);
    let kept = if kept > 0 { format!("; kept {} that you changed", count(kept, "file")) } else { String::new() };
    if plan.changes_nothing() {
        ui.note(&format!(
            "{place}: {}{kept}",
            if args.remove { "nothing of ours to remove" } else { "already up to date" }
        ));
    } else if args.remove {
        ui.note(&format!("{place}: {} removed{kept}", count(number(&[Action::Removed]), "file")));
    } else {
        let written = number(&[Action::Created, Action::Updated, Action::Merged]);
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
