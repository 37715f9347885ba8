//! The `init` command: makes a directory a project that a run can start in. Never replaces what a person has written.
//!
//! `mode` decides whether the project is new or existing. `inception` starts a new one from a `scaffold`; `detect`
//! surveys an existing one, and `scout` asks an agent about it if the user names one. `infrastructure`, `config`,
//! `rules_install` and `devcontainer` derive files from that, and `place` writes all of them or none.
//!
//! Called by the `init` command, and by `install --remove`. Must never start a run.

mod claude_md;
mod config;
mod detect;
mod devcontainer;
mod inception;
mod infrastructure;
mod judge;
mod machine;
mod mode;
mod place;
mod record;
mod remove;
mod root;
mod rules;
mod rules_install;
mod scaffold;
mod scout;

use std::fs;
use std::path::{Path, PathBuf};

use mahabharatha_core::config::Config;
use mahabharatha_core::prompt::scout::ScoutNotes;
use serde::Serialize;

use crate::planning;
use detect::Survey;
use inception::Founder;
use mahabharatha_engine::claude::commands::Home;
use mahabharatha_engine::claude::groups::{Group, Placed, Selection};
use mahabharatha_engine::claude::install::{self, Plan};
use mahabharatha_engine::report::placed::{self, Operation};
use mahabharatha_engine::report::schema;
use mahabharatha_engine::specs;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::proc;
use mahabharatha_sys::project::Project;
use mahabharatha_sys::store::file_set::{self, FileSet};
use mahabharatha_sys::store::projection;
use mahabharatha_sys::ui::Ui;
use record::Record;

pub use mode::Mode;
pub use place::NewFile;
pub use remove::plan as plan_removal;

/// Options from the command line.
#[derive(Debug, Clone)]
pub struct Request {
    /// Groups of files to write.
    pub selection: Selection,
    /// Only show what would be written.
    pub dry_run: bool,
    pub force: bool,
    pub name: Option<String>,
    pub description: Option<String>,
    pub language: Option<String>,
    pub framework: Option<String>,
    /// File with answers to the questions.
    pub answers: Option<PathBuf>,
    /// The agent to ask about an existing project.
    pub agent: Option<String>,
}

/// Result of `init`.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub mode: Mode,
    /// The reason for the mode.
    pub why: String,
    pub root: PathBuf,
    pub files: Vec<Placed>,
    /// Whether the files were written, rather than only planned.
    pub written: bool,
    /// The command that removes the files.
    pub remove: &'static str,
    pub warnings: Vec<String>,
    /// What the user can do next.
    pub next: Vec<String>,
    /// What an existing project consists of.
    pub survey: Option<Survey>,
    /// What the agent added.
    pub scout: Option<ScoutNotes>,
}

pub fn run(dir: &Path, ui: &Ui, request: &Request) -> Result<Outcome> {
    let root = root::find(dir)?;
    let _one_at_a_time = file_set::lock(&root)?;
    let interrupted = !request.dry_run && file_set::recover(&root)?;
    let (mode, why) = mode::of(&root)?;
    match mode {
        Mode::Inception => ui.note(&format!("{}: a new project ({why})", root.display())),
        Mode::Discovery => ui.note(&format!("{}: an existing project ({why})", root.display())),
    }
    let mut outcome = Outcome {
        mode,
        why,
        root,
        files: Vec::new(),
        written: false,
        remove: "mahabharatha install --remove",
        warnings: Vec::new(),
        next: Vec::new(),
        survey: None,
        scout: None,
    };
    if place::is_set_up(&outcome.root, interrupted) && !request.force {
        ui.note("Already set up; nothing was changed. Use --force to set it up again, with --only for some groups; your changes are kept.");
        return Ok(outcome);
    }
    match mode {
        Mode::Inception => found(&mut outcome, ui, request)?,
        Mode::Discovery => discover(&mut outcome, ui, request)?,
    }
    if outcome.written && [Group::Commands, Group::Hooks].iter().any(|group| request.selection.has(*group)) {
        outcome.warnings.extend(install::warning(proc::find_program(install::PROGRAM).as_deref()));
    }
    for warning in &outcome.warnings {
        ui.warn(warning);
    }
    Ok(outcome)
}

/// Starts a new project, all or nothing: until the first commit exists, everything can be undone.
fn found(outcome: &mut Outcome, ui: &Ui, request: &Request) -> Result<()> {
    refuse_agent(request, &outcome.why)?;
    let root = &outcome.root;
    let founder = Founder::find(root)?;
    let charter = inception::decide(root, ui, request)?;
    let mut files = inception::files(root, &charter);
    let mut survey = survey_of(&files)?;
    survey.name = Some(charter.names.title().to_owned());
    survey.description = Some(charter.names.description().to_owned());
    let config = specs::read_config(&root.join(config::PATH))?;
    let source =
        Source { survey: &survey, record: &Record::read(root), config: &config, selection: &request.selection };
    files.extend(follows_from(root, source, &mut outcome.warnings));
    let proposal = Proposal::new(root, files, &config, &request.selection)?;
    if !proposal.is_agreed(outcome, ui, request)? {
        return Ok(());
    }
    let root = &outcome.root;
    let (placed, files) = proposal.plan(root)?;
    let applied = files.completed_by(".git").apply()?;
    let mut paths: Vec<String> = placed.iter().map(|file| file.path.clone()).collect();
    paths.extend(already_there(root)?.into_iter().filter(|name| !placed.iter().any(|file| file.is(name))));
    founder.commit(root, &charter, &paths)?;
    applied.keep();
    outcome.next = machine::missing_programs(&survey, is_there);
    outcome.next.extend([
        format!("`{}`, and commit the lock file", scaffold::set_up(charter.framework)),
        format!("read {} and {}, then `mahabharatha plan <feature>`", inception::PATH, config::PATH),
    ]);
    outcome.files = placed;
    outcome.written = true;
    Ok(())
}

/// Surveys a project that consists of these files.
fn survey_of(files: &[NewFile]) -> Result<Survey> {
    let dir = tempfile::tempdir().map_err(Error::caused("cannot create a temporary directory"))?;
    for file in files {
        let path = dir.path().join(&file.path);
        let parent = path.parent().unwrap_or(dir.path());
        fs::create_dir_all(parent).map_err(io("create the directory", parent))?;
        fs::write(&path, &file.text).map_err(io("write", &path))?;
    }
    detect::survey(dir.path(), |_| false)
}

/// Returns the names of the files that were there before and belong into the first commit: the licence and the like.
fn already_there(root: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(root).map_err(io("read", root))?.flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names = files.filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| mode::is_document(name)).collect())
}

fn discover(outcome: &mut Outcome, ui: &Ui, request: &Request) -> Result<()> {
    let root = &outcome.root.clone();
    let is_bare_beginning = mode::is_bare_beginning(root)?;
    refuse_inception_flags(request, &outcome.why, is_bare_beginning)?;
    let config = specs::read_config(&root.join(config::PATH))?;
    let project = Project::locate(root)?;
    let asker = request.agent.as_deref().map(|name| scout::asker(name, &config, root, project.as_ref())).transpose()?;
    let record = Record::read(root);
    let mut survey = detect::survey(root, |path| path.starts_with(".devcontainer/") && record.knows(path))?;
    survey.name = request.name.clone().or(survey.name);
    survey.description = request.description.clone().or(survey.description);
    let found = infrastructure::text(&survey);
    let mut files = vec![NewFile::ours(infrastructure::PATH, found.as_str())];
    let source = Source { survey: &survey, record: &record, config: &config, selection: &request.selection };
    files.extend(follows_from(root, source, &mut outcome.warnings));
    outcome.warnings.extend(survey.notes.iter().cloned());
    let mut proposal = Proposal::new(root, files, &config, &request.selection)?;
    if !proposal.is_agreed(outcome, ui, request)? {
        outcome.survey = Some(survey);
        return Ok(());
    }
    // Only after the user has agreed: the agent costs money.
    if let Some(asker) = asker {
        match scout::ask(ui, &asker, &found) {
            Ok(notes) => {
                proposal.replace(infrastructure::PATH, found + &infrastructure::notes_section(asker.name(), &notes));
                outcome.scout = Some(notes);
            }
            Err(why) => outcome.warnings.push(why),
        }
    }
    let _whole = planning::uninterrupted();
    let (placed, files) = proposal.plan(root)?;
    files.apply()?.keep();
    outcome.next = machine::missing_programs(&survey, is_there);
    outcome.next.extend(is_bare_beginning.then(|| format!("there is no code yet; {BEGIN_ELSEWHERE}")));
    outcome.next.push(next_step(project.is_some()));
    outcome.files = placed;
    outcome.written = true;
    outcome.survey = Some(survey);
    Ok(())
}

/// Everything that will be written.
struct Proposal {
    files: Vec<NewFile>,
    /// Commands, agents and hooks.
    install: Plan,
}

impl Proposal {
    fn new(root: &Path, mut files: Vec<NewFile>, config: &Config, selection: &Selection) -> Result<Proposal> {
        files.retain(|file| selection.has(Group::of_project_file(&file.path)));
        let split = config.plugins.context_engineering.command_splitting;
        Ok(Proposal { files, install: install::plan(&Home::of_project(root), split, selection)? })
    }

    /// Shows what will be written, and asks for confirmation if the user can be asked. For a dry run, stores the plan
    /// in the outcome.
    fn is_agreed(&self, outcome: &mut Outcome, ui: &Ui, request: &Request) -> Result<bool> {
        let root = &outcome.root;
        let (files, _) = self.plan(root)?;
        outcome.warnings.extend(self.install.warnings.iter().cloned());
        if request.dry_run {
            placed::show_plan(ui, Operation::Write, root, &files);
            outcome.files = files;
            return Ok(false);
        }
        placed::confirm(ui, Operation::Write, root, &files)
    }

    fn replace(&mut self, path: &str, text: String) {
        for file in self.files.iter_mut().filter(|file| file.path == path) {
            file.text.clone_from(&text);
        }
    }

    fn plan(&self, root: &Path) -> Result<(Vec<Placed>, FileSet)> {
        let (mut placed, set) = place::plan(root, &self.files, Some(self.install.changes()))?;
        placed.extend(self.install.files.iter().cloned());
        Ok((placed, set))
    }
}

/// Input from which the files are derived.
#[derive(Clone, Copy)]
struct Source<'a> {
    survey: &'a Survey,
    record: &'a Record,
    config: &'a Config,
    selection: &'a Selection,
}

/// Returns the files that every project needs, new or existing.
fn follows_from(root: &Path, source: Source<'_>, warnings: &mut Vec<String>) -> Vec<NewFile> {
    let Source { survey, record, config, selection } = source;
    let mut files = vec![NewFile::ours(config::PATH, config::text(survey, is_there, proc::is_set, machine::exists))];
    files.push(NewFile::ours(config::SCHEMA_PATH, format!("{:#}\n", schema::config())));
    // The same content that a run writes where the file is missing.
    if !root.join(IGNORE).exists() {
        files.push(NewFile::ours(IGNORE, projection::IGNORE));
    }
    // The container mounts this directory; if it were missing, the container engine would create it, owned by root.
    files.push(NewFile::ours(".gsd/specs/.gitkeep", ""));
    if selection.has(Group::Rules) {
        let repository = config.security.rules_repository.as_deref();
        let (rules, about) = rules_install::files(root, survey, repository, &rules::EMBEDDED);
        files.extend(rules);
        warnings.extend(about);
    }
    if selection.has(Group::Devcontainer) {
        let (container, about) = devcontainer::files(root, survey, record);
        files.extend(container);
        warnings.extend(about);
    }
    if selection.has(Group::ClaudeMd) {
        let has_rules = selection.has(Group::Rules) || root.join(".claude/rules").is_dir();
        match claude_md::file(root, survey, has_rules, is_there) {
            Ok(file) => files.push(file),
            Err(why) => warnings.push(why),
        }
    }
    files
}

fn is_there(program: &str) -> bool {
    proc::find_program(program).is_some()
}

const IGNORE: &str = ".mahabharatha/.gitignore";

fn next_step(is_repository: bool) -> String {
    let commit = "git add -A && git commit";
    if is_repository {
        format!("read {}, then commit the new files: {commit}", config::PATH)
    } else {
        format!("create a git repository, which a run needs: git init && {commit}")
    }
}

fn refuse_agent(request: &Request, why: &str) -> Result<()> {
    let Some(agent) = &request.agent else { return Ok(()) };
    let message = format!("--agent {agent} is for an existing project, but this is a new one: {why}");
    Err(Error::new(Kind::Usage, message)
        .hint(format!("Leave it out, or use it later, when there is code: mahabharatha init --force --agent {agent}")))
}

/// Advice for a user who wants a scaffold but already has a repository.
const BEGIN_ELSEWHERE: &str =
    "to get a scaffold, run init in a directory without .git (init creates the repository itself)";

fn refuse_inception_flags(request: &Request, why: &str, is_bare_beginning: bool) -> Result<()> {
    let flags = [
        ("--language", request.language.is_some()),
        ("--framework", request.framework.is_some()),
        ("--answers", request.answers.is_some()),
    ];
    match flags.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            Err(Error::new(Kind::Usage, format!("{flag} is for a new project, but this is an existing one: {why}"))
                .hint(if is_bare_beginning {
                    format!("Leave it out; {BEGIN_ELSEWHERE}.")
                } else {
                    "Leave it out, or name an empty directory with -C <dir>.".to_owned()
                }))
        }
        None => Ok(()),
    }
}
