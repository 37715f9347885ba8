//! `install`: puts slash commands, agents and hooks in place.

use clap::Args;

use super::Global;
use crate::claude::commands::Home;
use crate::claude::install::{Installed, PROGRAM, install, warning};
use crate::error::{ExitCode, Result};
use crate::proc::find_program;
use crate::report::text::count;
use crate::specs;
use crate::ui::Ui;

#[derive(Debug, Args)]
pub struct InstallArgs {
    /// For all your projects, in ~/.claude, rather than for this one
    #[arg(long)]
    user: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &InstallArgs) -> Result<ExitCode> {
    let (home, split) = if args.user {
        // A person's commands serve many projects, so no project's configuration counts.
        (Home::of_user()?, true)
    } else {
        let project = global.project()?;
        let config = specs::load_config(&project)?;
        (Home::of_project(project.root()), config.plugins.context_engineering.command_splitting)
    };
    let installed = install(&home, split)?;
    if ui.json() {
        ui.data(&serde_json::to_string_pretty(&installed).expect("paths are plain data"));
    } else {
        tell(ui, &home, &installed);
    }
    if let Some(warning) = warning(find_program(PROGRAM).as_deref()) {
        ui.warn(&warning);
    }
    Ok(ExitCode::Done)
}

fn tell(ui: &Ui, home: &Home, installed: &Installed) {
    for path in &installed.written {
        ui.data(&format!("written {}", path.display()));
    }
    for path in &installed.removed {
        ui.data(&format!("removed {}", path.display()));
    }
    for kept in &installed.kept {
        ui.data(&format!("kept    {}; the new version is in {}", kept.path.display(), kept.new.display()));
    }
    let (written, kept) = (installed.written.len(), installed.kept.len());
    let mut text = format!(
        "{}: {} written, {} as they were",
        home.dir().display(),
        count(written, "file"),
        count(installed.unchanged, "file")
    );
    if kept > 0 {
        text.push_str(&format!(", {} that you changed kept", count(kept, "file")));
    }
    ui.note(&text);
}
