//! `init`: a new project in an empty directory, or an existing one made ready.

use std::path::PathBuf;

use clap::Args;

use super::Global;
use crate::error::{ExitCode, Result};
use crate::init::{self, Action, Outcome, Request};
use crate::ui::Ui;

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Set up again; what you changed is kept, and the new version put beside it
    #[arg(long)]
    force: bool,
    /// What the project is called
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What the project is, in a sentence
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
    /// An agent that reads an existing project too, and adds its notes [default: none, which asks no model]
    #[arg(long, value_name = "NAME|none")]
    agent: Option<String>,
}

pub fn run(global: &Global, ui: &Ui, args: &InitArgs) -> Result<ExitCode> {
    let request = Request {
        force: args.force,
        name: args.name.clone(),
        description: args.description.clone(),
        language: args.language.clone(),
        framework: args.framework.clone(),
        answers: args.answers.as_ref().map(|file| global.directory.join(file)),
        agent: args.agent.clone().filter(|agent| agent != "none"),
    };
    let outcome = init::run(&global.directory, ui, &request)?;
    if ui.json() {
        ui.data(&(serde_json::to_string_pretty(&outcome).expect("an outcome is plain data") + "\n"));
    } else {
        show(ui, &outcome);
    }
    Ok(ExitCode::Done)
}

fn show(ui: &Ui, outcome: &Outcome) {
    let of = |wanted: Action| outcome.files.iter().filter(move |file| file.action == wanted);
    for (action, word) in [(Action::Created, "created"), (Action::Updated, "updated"), (Action::Merged, "added to")] {
        let paths: Vec<&str> = of(action).map(|file| file.path.as_str()).collect();
        for line in if ui.verbose() { paths.iter().map(|path| (*path).to_owned()).collect() } else { gathered(&paths) }
        {
            ui.note(&format!("{word} {line}"));
        }
    }
    let kept: Vec<_> = of(Action::Kept).collect();
    if !kept.is_empty() {
        ui.note("Kept as you have them, with the new version beside:");
        for file in kept {
            ui.note(&format!("  {} → {}", file.path, file.beside.as_deref().unwrap_or_default()));
        }
    }
    if !outcome.files.is_empty() && outcome.files.iter().all(|file| file.action == Action::Unchanged) {
        ui.note("Everything is as it should be already; nothing was changed.");
    }
    for step in &outcome.next {
        ui.note(&format!("Next: {step}"));
    }
}

/// Directories with many files by their number, in the order of the first.
fn gathered(paths: &[&str]) -> Vec<String> {
    let top = |path: &str| path.split_once('/').map(|(dir, _)| format!("{dir}/"));
    let mut lines: Vec<String> = Vec::new();
    for path in paths {
        let together = paths.iter().filter(|other| top(other).is_some() && top(other) == top(path)).count();
        let line = match top(path) {
            Some(dir) if together > LISTED_ALONE => format!("{dir} ({together} files)"),
            _ => (*path).to_owned(),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// So many files of one directory are named one by one.
const LISTED_ALONE: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_of_a_directory_are_one_line() {
        let paths = ["README.md", "src/a", ".claude/a/1", ".claude/2", "src/b", ".claude/b/3", ".claude/4", "last"];
        assert_eq!(gathered(&paths), ["README.md", "src/a", ".claude/ (4 files)", "src/b", "last"]);
    }
}
