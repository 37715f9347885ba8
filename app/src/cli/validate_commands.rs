//! `validate-commands`: checks that slash commands and agents are consistent and call this program correctly.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Parser};
use mahabharatha_engine::claude::validate::{Files, Problem, validate};
use mahabharatha_engine::report::text::count;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;
use super::{Cli, Global};

#[derive(Debug, Args)]
pub struct ValidateCommandsArgs {
    /// A project, a `.claude` directory or one of plugins [default: this project, else what `install` would write]
    dir: Option<PathBuf>,
}

pub fn run(global: &Global, ui: &Ui, args: &ValidateCommandsArgs) -> Result<ExitCode> {
    let (place, sets) = find(global, args)?;
    let problems: Vec<Problem> = sets.iter().flat_map(|files| validate(files, &|words| parses(words))).collect();
    let files: usize = sets.iter().map(|files| files.texts.len()).sum();
    if ui.json() {
        let data = serde_json::json!({ "place": place, "files": files, "problems": problems });
        ui.pretty(&data);
    } else {
        for problem in &problems {
            ui.data(&format!("{}:{}: {}", problem.file.display(), problem.line, problem.message));
        }
    }
    if !problems.is_empty() {
        let message = format!("{place}: {} in {}", count(problems.len(), "problem"), count(files, "file"));
        return if ui.json() { Ok(ExitCode::Invalid) } else { Err(Error::new(Kind::Invalid, message)) };
    }
    ui.note(&format!("{place}: {} hold together", count(files, "file")));
    Ok(ExitCode::Done)
}

/// Returns the installed files; if there are none, both sets that `install` can write.
fn find(global: &Global, args: &ValidateCommandsArgs) -> Result<(String, Vec<Files>)> {
    let named = args.dir.as_ref().map(|dir| global.directory.join(dir));
    let dirs = match &named {
        Some(dir) => vec![dir.clone(), dir.join(".claude")],
        None => global.project().map(|project| project.root().join(".claude")).into_iter().collect(),
    };
    for dir in &dirs {
        if let Some(files) = Files::installed(dir)? {
            return Ok((dir.display().to_string(), vec![files]));
        }
    }
    match named {
        None => Ok(("as installed".to_owned(), vec![Files::embedded(), Files::embedded_plugins()])),
        Some(dir) => Err(Error::new(Kind::Usage, format!("there are no commands of ours in {}", dir.display()))
            .hint("Put them there with `mahabharatha install`, or name another directory.")),
    }
}

/// Checks that a call can be parsed, with placeholders in capitals replaced by values.
fn parses(words: &[String]) -> Result<(), String> {
    let filled = words.iter().map(|word| match word.as_str() {
        "FEATURE" | "NAME" => "feature",
        "N" => "1",
        other => other,
    });
    match Cli::try_parse_from(filled) {
        Ok(_) => Ok(()),
        // A text that only names a command, such as `mahabharatha skip`.
        Err(error) if is_command_name(words) && error.kind() == ErrorKind::MissingRequiredArgument => Ok(()),
        Err(error) => {
            Err(error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
        }
    }
}

fn is_command_name(words: &[String]) -> bool {
    words.len() <= 3 && words.iter().all(|word| word.chars().all(|c| c.is_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_in_our_own_commands_is_valid() {
        for files in [Files::embedded(), Files::embedded_plugins()] {
            let problems = validate(&files, &|words| parses(words));
            assert!(problems.is_empty(), "{problems:#?}");
        }
    }

    #[test]
    fn an_invalid_call_is_reported() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for good in [
            "mahabharatha merge --level N",
            "mahabharatha skip",
            "mahabharatha task prompt",
            "mbh status --json --feature FEATURE",
        ] {
            assert_eq!(parses(&words(good)), Ok(()), "{good}");
        }
        for bad in ["mahabharatha conquer", "mahabharatha merge --lvl 1", "mahabharatha skip --keep-dependents"] {
            assert!(parses(&words(bad)).is_err(), "{bad}");
        }
    }
}
