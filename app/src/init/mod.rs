//! `init`: from a directory to a project that a run can start in.
//!
//! `mode` says whether there is something to discover, `detect` discovers it, `infrastructure`, `config`, `rules_install`
//! and `devcontainer` say what follows from it, and `place` writes all of it or nothing.

mod config;
mod detect;
mod infrastructure;
mod mode;
mod place;
mod record;
mod root;

use std::path::{Path, PathBuf};

use serde::Serialize;

use detect::Survey;

use crate::error::{Error, ExitCode, Result};
use crate::proc;
use crate::ui::Ui;

pub use mode::Mode;
pub use place::{Action, NewFile, Placed};

/// What the command line asks for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub force: bool,
    pub name: Option<String>,
    pub description: Option<String>,
    pub language: Option<String>,
    pub framework: Option<String>,
    /// A file of answers.
    pub answers: Option<PathBuf>,
}

/// What was done.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub mode: Mode,
    /// What decided the mode.
    pub why: String,
    pub root: PathBuf,
    pub files: Vec<Placed>,
    pub warnings: Vec<String>,
    /// What the person can do now.
    pub next: Vec<String>,
}

pub fn run(dir: &Path, ui: &Ui, request: &Request) -> Result<Outcome> {
    let root = root::find(dir)?;
    let _one_at_a_time = place::lock(&root)?;
    let (mode, why) = mode::of(&root)?;
    match mode {
        Mode::Inception => ui.note(&format!("{}: a new project, since {why}", root.display())),
        Mode::Discovery => ui.note(&format!("{}: an existing project, since {why}", root.display())),
    }
    if place::is_set_up(&root) && !request.force {
        let next = vec!["it is set up already; `mahabharatha init --force` does it again".to_owned()];
        return Ok(Outcome { mode, why, root, files: Vec::new(), warnings: Vec::new(), next });
    }
    let files = match mode {
        Mode::Inception => {
            return Err(Error::new(ExitCode::Failed, "a new project cannot be made yet"));
        }
        Mode::Discovery => {
            refuse_inception_flags(request, &why)?;
            let mut survey = detect::survey(&root)?;
            survey.name = request.name.clone().or(survey.name);
            survey.description = request.description.clone().or(survey.description);
            let mut files = vec![NewFile::ours(infrastructure::PATH, infrastructure::text(&survey))];
            files.extend(follows_from(&survey));
            files
        }
    };
    let placing = place::Placing::begin(&root)?;
    let (files, placing) = placing.place(files)?;
    placing.keep();
    Ok(Outcome { mode, why, root, files, warnings: Vec::new(), next: Vec::new() })
}

/// What a project of this kind needs, old or new.
fn follows_from(survey: &Survey) -> Vec<NewFile> {
    let is_there = |program: &str| proc::find_program(program).is_some();
    vec![NewFile::ours(config::PATH, config::text(survey, is_there))]
}

fn refuse_inception_flags(request: &Request, why: &str) -> Result<()> {
    let flags = [
        ("--language", request.language.is_some()),
        ("--framework", request.framework.is_some()),
        ("--answers", request.answers.is_some()),
    ];
    match flags.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            Err(Error::new(ExitCode::Usage, format!("{flag} is for a new project, but here is one already: {why}"))
                .hint("Leave it out, or name an empty directory with -C <dir>."))
        }
        None => Ok(()),
    }
}
