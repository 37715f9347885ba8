//! Reads the configuration, and a feature's task graph or the task files to build one from, in the main checkout.
//!
//! Called by `session`, `preflight` and the commands. Writes only the graph that `load_graph` builds from task files.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mahabharatha_core::config::Config;
use mahabharatha_core::design::unfilled;
use mahabharatha_core::graph::{EntryKind, Problem, Rules, Severity, StartTree, TaskGraph};
use mahabharatha_core::ids::{Feature, Oid};
use mahabharatha_core::spec::{self, GraphFile, SpecError};
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::git::{EntryType, Git};
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::store::atomic::write_atomic;
use serde::Serialize;

/// Reads the project's configuration.
pub fn load_config(project: &Project) -> Result<Config> {
    read_config(&project.config_file())
}

/// Reads a configuration file; a missing file gives the defaults.
pub fn read_config(path: &Path) -> Result<Config> {
    let text = match bounded::read_to_string(path, LARGE_FILE_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) if bounded::is_unfit(&error) => return Err(io("read", path)(error).with_kind(Kind::Invalid)),
        Err(error) => return Err(io("read", path)(error)),
    };
    Config::parse(&text).map_err(|problems| {
        let start = Error::new(Kind::Invalid, format!("{} is not valid", path.display()));
        problems
            .iter()
            .fold(start, |error, problem| error.detail(problem.to_string()))
            .hint("`mahabharatha help config` lists every key.")
    })
}

/// Returns the files of a commit, for checking a graph against them.
pub fn start_tree(git: &Git, commit: &Oid) -> Result<StartTree> {
    let entries = git.ls_tree(commit)?;
    let links: Vec<&Oid> =
        entries.iter().filter(|entry| entry.kind == EntryType::Symlink).map(|entry| &entry.oid).collect();
    let mut targets = git.read_blobs(&links)?.into_iter();
    let mut tree = BTreeMap::new();
    for entry in entries {
        let kind = match entry.kind {
            EntryType::File => EntryKind::File,
            EntryType::Submodule => EntryKind::Submodule,
            EntryType::Symlink => {
                let target = targets.next().unwrap_or_default();
                EntryKind::Symlink { target: String::from_utf8_lossy(&target).into_owned() }
            }
        };
        // A path that is not UTF-8 cannot be named in a spec.
        if let Some(path) = entry.path.as_str() {
            tree.insert(path.to_owned(), kind);
        }
    }
    Ok(StartTree { entries: tree })
}

/// Reads the graph like `read_graph`, and saves one that was built from task files.
pub fn load_graph(paths: &FeaturePaths, start: &StartTree) -> Result<GraphFile> {
    let graph = read_graph(paths, start)?;
    if !paths.graph().exists() {
        write_atomic(&paths.graph(), graph.to_json().as_bytes())?;
    }
    Ok(graph)
}

/// Returns the warnings among the problems of a graph, each as one line.
pub fn warnings(problems: &[Problem]) -> impl Iterator<Item = String> {
    problems.iter().filter(|problem| problem.severity == Severity::Warning).map(problem_line)
}

/// Returns the feature's graph; without a graph file, builds it from hand-written task files.
pub fn read_graph(paths: &FeaturePaths, start: &StartTree) -> Result<GraphFile> {
    try_read_graph(paths, start)?.map_err(|unreadable| cannot_read(paths, &unreadable))
}

/// Tells whether the feature has a graph or task files, whatever is in them.
pub fn has_graph(paths: &FeaturePaths) -> Result<bool> {
    Ok(paths.graph().exists() || !task_files(paths)?.is_empty())
}

/// Returns the error for a feature that has neither.
pub fn no_graph(paths: &FeaturePaths) -> Error {
    cannot_read(paths, &[missing_graph(paths)])
}

fn missing_graph(paths: &FeaturePaths) -> Unreadable {
    let message = format!("neither {} nor {}/*.md exists", paths.graph().display(), paths.task_files().display());
    Unreadable::new(NO_GRAPH, &paths.graph(), None, message)
}

/// Combines everything that cannot be read into one error.
pub fn cannot_read(paths: &FeaturePaths, unreadable: &[Unreadable]) -> Error {
    if let [Unreadable { code: NO_GRAPH, message, .. }] = unreadable {
        return Error::new(Kind::Invalid, format!("{} has no task graph", paths.feature()))
            .detail(message.clone())
            .hint(format!(
                "Run `mahabharatha plan {0}`, then `mahabharatha design {0}`; or write the graph by hand as in `mahabharatha help \
                 task-graph` (`mahabharatha demo` shows an example).",
                paths.feature()
            ));
    }
    let error = Error::new(Kind::Invalid, "the task graph cannot be read");
    let error = unreadable.iter().fold(error, |error, one| error.detail(one.to_string()));
    error.hint("Fix the named places; `mahabharatha help task-graph` describes the format.")
}

const NO_GRAPH: &str = "no_graph";

/// State of a feature's design, for display.
pub enum FoundDesign {
    /// There is neither a graph nor a task file.
    Missing,
    /// The graph cannot be run; holds the first problem.
    Invalid(String),
    Valid(Box<TaskGraph>),
}

/// Reads the feature's graph without checking it against the committed files.
pub fn find_design(paths: &FeaturePaths, start: &StartTree, rules: Rules) -> Result<FoundDesign> {
    let file = match try_read_graph(paths, start)? {
        Ok(file) => file,
        Err(unreadable) if matches!(unreadable[..], [Unreadable { code: NO_GRAPH, .. }]) => {
            return Ok(FoundDesign::Missing);
        }
        Err(unreadable) => {
            return Ok(FoundDesign::Invalid(unreadable.first().map(ToString::to_string).unwrap_or_default()));
        }
    };
    let (graph, problems) = check_graph(paths.feature(), &file, None, rules);
    Ok(match graph {
        Some(graph) => FoundDesign::Valid(Box::new(graph)),
        None => {
            let error = problems.iter().find(|problem| problem.severity == Severity::Error);
            FoundDesign::Invalid(error.map(problem_line).unwrap_or_default())
        }
    })
}

/// A file that cannot be read as a graph or as part of one.
#[derive(Debug, Serialize)]
pub struct Unreadable {
    code: &'static str,
    severity: Severity,
    /// Always null: every reported problem has this field, but an unreadable file does not tell its task.
    task: (),
    path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    message: String,
}

impl Unreadable {
    fn new(code: &'static str, path: &Path, at: Option<(usize, usize)>, message: String) -> Self {
        let (line, column) = at.unzip();
        Unreadable { code, severity: Severity::Error, task: (), path: path.to_owned(), line, column, message }
    }

    fn spec(path: &Path, cause: &SpecError) -> Self {
        Unreadable::new("unreadable", path, cause.at, cause.message.clone())
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path.display())?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "{line}:{column}:")?;
        }
        write!(f, " {}", self.message)
    }
}

/// Reads the graph like `read_graph`, and returns unreadable files as a list instead of one error.
pub fn try_read_graph(paths: &FeaturePaths, start: &StartTree) -> Result<Result<GraphFile, Vec<Unreadable>>> {
    let path = paths.graph();
    match read_text(&path)? {
        Some(text) => Ok(text
            .map_err(|error| vec![error])
            .and_then(|text| GraphFile::parse(&text).map_err(|error| vec![Unreadable::spec(&path, &error)]))),
        None => import(paths, start),
    }
}

/// Reads a text file; `None` if it does not exist.
fn read_text(path: &Path) -> Result<Option<Result<String, Unreadable>>> {
    match bounded::read_to_string(path, LARGE_FILE_BYTES) {
        Ok(text) => Ok(Some(Ok(text))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if bounded::is_unfit(&error) => {
            Ok(Some(Err(Unreadable::new("unreadable", path, None, error.to_string()))))
        }
        Err(error) => Err(io("read", path)(error)),
    }
}

fn import(paths: &FeaturePaths, start: &StartTree) -> Result<Result<GraphFile, Vec<Unreadable>>> {
    let (mut files, mut unreadable) = (Vec::new(), Vec::new());
    for path in task_files(paths)? {
        match read_text(&path)? {
            Some(Ok(text)) => files.push((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text)),
            Some(Err(error)) => unreadable.push(error),
            None => {}
        }
    }
    if files.is_empty() && unreadable.is_empty() {
        return Ok(Err(vec![missing_graph(paths)]));
    }
    let exists = |path: &str| start.contains(path);
    match spec::import_tasks(paths.feature().as_str(), &files, exists) {
        Ok(graph) if unreadable.is_empty() => Ok(Ok(graph)),
        Ok(_) => Ok(Err(unreadable)),
        Err(errors) => {
            unreadable
                .extend(errors.iter().map(|(file, cause)| Unreadable::spec(&paths.task_files().join(file), cause)));
            Ok(Err(unreadable))
        }
    }
}

fn task_files(paths: &FeaturePaths) -> Result<Vec<PathBuf>> {
    let dir = paths.task_files();
    bounded::check_place(&dir).map_err(io("read", &dir))?;
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io("read", &dir)(error)),
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    files.sort();
    Ok(files)
}

/// Returns every problem of a graph, and the graph itself if it has no errors. Warnings are left to the caller.
pub fn check_graph(
    feature: &Feature,
    file: &GraphFile,
    start: Option<&StartTree>,
    rules: Rules,
) -> (Option<TaskGraph>, Vec<Problem>) {
    let (graph, mut problems) = TaskGraph::check(file, start, rules);
    if file.feature != feature.as_str() {
        problems.push(Problem {
            code: "feature_mismatch",
            severity: Severity::Error,
            task: None,
            path: None,
            message: format!("the graph names the feature {:?}, but it is in the directory of {feature}", file.feature),
        });
        return (None, problems);
    }
    let unfilled = unfilled(file);
    let graph = graph.filter(|_| unfilled.is_empty());
    problems.extend(unfilled);
    (graph, problems)
}

/// Returns a valid graph with its warnings, or one error that lists everything wrong with it.
pub fn valid_graph(
    paths: &FeaturePaths,
    file: &GraphFile,
    start: Option<&StartTree>,
    rules: Rules,
) -> Result<(TaskGraph, Vec<Problem>)> {
    let (graph, problems) = check_graph(paths.feature(), file, start, rules);
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    match graph {
        Some(graph) => Ok((graph, problems)),
        None => Err(errors
            .fold(Error::new(Kind::Invalid, format!("{} is not valid", paths.graph().display())), |error, problem| {
                error.detail(problem_line(problem))
            })
            .hint("Fix the graph, then check it with `mahabharatha design --validate-only`, which runs nothing.")),
    }
}

pub fn problem_line(problem: &Problem) -> String {
    let place = [problem.task.as_deref(), problem.path.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(", ");
    if place.is_empty() {
        format!("[{}] {}", problem.code, problem.message)
    } else {
        format!("[{}] {place}: {}", problem.code, problem.message)
    }
}
