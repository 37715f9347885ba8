//! Completions that know the project: its features, tasks, agents and gates.
//!
//! The scripts of `completions` call the program with the words typed so far. It reads a few bounded files, starts no
//! process, and stays silent on every error: a prompt must neither wait nor show one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use mahabharatha_core::ids::TaskId;
use mahabharatha_core::spec::GraphFile;
use mahabharatha_engine::specs;
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::ui::{fit, one_line};
use serde_json::Value;

use super::{Cli, called_as};

/// Set by the scripts, to the name of the shell.
const VARIABLE: &str = "_MAHABHARATHA_COMPLETE";
/// Most columns of a candidate's description.
const MAX_COLUMNS: usize = 60;

/// Prints the candidates if a completion script called. Called before the command line is parsed.
pub fn run_if_called() -> Option<std::process::ExitCode> {
    let here = std::env::current_dir().ok();
    let request = CompleteEnv::with_factory(|| with_candidates(Cli::command())).var(VARIABLE);
    match request.try_complete(std::env::args_os(), here.as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(std::process::ExitCode::SUCCESS),
        Err(_) => Some(std::process::ExitCode::FAILURE),
    }
}

/// Returns the script that makes a shell ask this program for candidates.
pub fn script(shell: clap_complete::Shell) -> String {
    let (name, mut script) = (called_as(), Vec::new());
    if let Some(shell) = Shells::builtins().completer(&shell.to_string()) {
        // Writing to a Vec cannot fail.
        let _ = shell.write_registration(VARIABLE, name, name, name, &mut script);
    }
    String::from_utf8_lossy(&script).trim_start().to_owned()
}

/// Adds the candidates to every argument, known by its name, so that a new command has them too.
fn with_candidates(command: Command) -> Command {
    let retries = command.get_name() == "retry";
    let command = command.mut_args(|arg| match arg.get_id().as_str() {
        "feature" | "named" => arg.add(ArgValueCandidates::new(features)),
        "task" | "tasks" if retries => arg.add(ArgValueCandidates::new(|| tasks(is_retriable))),
        "task" | "tasks" => arg.add(ArgValueCandidates::new(|| tasks(|_| true))),
        "agent" => arg.add(ArgValueCandidates::new(agents)),
        "gate" => arg.add(ArgValueCandidates::new(gates)),
        _ => arg,
    });
    command.mut_subcommands(with_candidates)
}

fn features() -> Vec<CompletionCandidate> {
    let known = Typed::now().project().map(|project| project.known_features()).unwrap_or_default();
    known.iter().map(|feature| CompletionCandidate::new(feature.as_str())).collect()
}

fn tasks(is_wanted: fn(&str) -> bool) -> Vec<CompletionCandidate> {
    let paths = Typed::now().feature();
    let known = paths.map(|paths| known_tasks(&paths)).unwrap_or_default();
    let wanted = known.into_iter().filter(|(_, (status, _))| is_wanted(status));
    wanted.map(|(id, (status, title))| candidate(id.as_str(), &format!("{status}: {title}"))).collect()
}

/// Tells whether `retry` may take a task with this status; a task whose level is merged is refused later.
fn is_retriable(status: &str) -> bool {
    !matches!(status, "pending" | "in_progress" | "waiting")
}

/// Returns the tasks of the graph and of the latest run, each with its status and title.
fn known_tasks(paths: &FeaturePaths) -> BTreeMap<TaskId, (String, String)> {
    let graph = bounded::read_to_string(&paths.graph(), LARGE_FILE_BYTES).ok();
    let specified = graph.and_then(|text| GraphFile::parse(&text).ok()).map(|graph| graph.tasks).unwrap_or_default();
    let planned = specified.iter().map(|task| (task.id.clone(), ("pending".to_owned(), task.title.clone())));
    let projection = bounded::read(&paths.projection(), LARGE_FILE_BYTES).ok();
    let projection: Value = projection.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let seen = projection["tasks"].as_object().into_iter().flatten();
    let seen = seen.map(|(id, task)| (id.clone(), (text(&task["status"]), text(&task["title"]))));
    planned.chain(seen).filter_map(|(id, about)| Some((TaskId::new(id).ok()?, about))).collect()
}

fn agents() -> Vec<CompletionCandidate> {
    let config = Typed::now().project().and_then(|project| specs::load_config(&project).ok());
    names(config.map(|config| config.agents.into_keys()))
}

fn gates() -> Vec<CompletionCandidate> {
    let config = Typed::now().project().and_then(|project| specs::load_config(&project).ok());
    names(config.map(|config| config.quality_gates.into_iter().map(|gate| gate.name)))
}

/// Returns the names that a shell takes as they are: scripts expand patterns in candidates.
fn names(all: Option<impl Iterator<Item = String>>) -> Vec<CompletionCandidate> {
    let is_plain = |name: &String| name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-'));
    all.into_iter().flatten().filter(is_plain).map(CompletionCandidate::new).collect()
}

fn candidate(value: &str, about: &str) -> CompletionCandidate {
    CompletionCandidate::new(value).help(Some(fit(&one_line(about), MAX_COLUMNS).into()))
}

/// The options on the command line being typed that decide which project and feature is meant.
#[derive(Debug, Default, PartialEq)]
struct Typed {
    directory: Option<PathBuf>,
    feature: Option<String>,
}

impl Typed {
    fn now() -> Typed {
        Typed::of(std::env::args_os().skip_while(|word| word != "--").skip(1))
    }

    fn of(words: impl Iterator<Item = OsString>) -> Typed {
        let mut typed = Typed::default();
        let mut words = words.map(|word| word.to_string_lossy().into_owned());
        while let Some(word) = words.next() {
            match word.as_str() {
                "-C" => typed.directory = words.next().map(PathBuf::from),
                "-f" | "--feature" => typed.feature = words.next().filter(|name| !name.is_empty()),
                word => {
                    if let Some(name) = word.strip_prefix("--feature=") {
                        typed.feature = Some(name.to_owned());
                    }
                }
            }
        }
        typed
    }

    fn project(&self) -> Option<Project> {
        Project::locate_without_git(self.directory.as_deref().unwrap_or(".".as_ref()))
    }

    fn feature(&self) -> Option<FeaturePaths> {
        let project = self.project()?;
        let feature = project.which_feature(self.feature.as_deref(), std::env::var_os).ok()?;
        Some(project.feature(&feature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &[&str]) -> Typed {
        Typed::of(words.iter().map(OsString::from))
    }

    #[test]
    fn options_typed_so_far_count() {
        let there = typed(&["mahabharatha", "-C", "../other", "retry", "-f", "auth", ""]);
        assert_eq!(there, Typed { directory: Some("../other".into()), feature: Some("auth".to_owned()) });
        assert_eq!(typed(&["mbh", "retry", "--feature=auth"]).feature.as_deref(), Some("auth"));
        assert_eq!(typed(&["mbh", "retry", "--feature", ""]), Typed::default());
        assert_eq!(typed(&["mbh", "-C"]), Typed::default());
    }
}
