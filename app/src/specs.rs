//! What the main checkout says about a feature: its graph, or the task files that one is made from.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

use mahabharatha_core::graph::{EntryKind, Problem, Severity, StartTree, TaskGraph};
use mahabharatha_core::ids::{Feature, Oid};
use mahabharatha_core::spec::{self, GraphFile};

use crate::error::{Error, ExitCode, Result, io};
use crate::git::{EntryType, Git};
use crate::project::FeaturePaths;
use crate::store::atomic::write_atomic;

/// What stands in a commit, as the graph is checked against it.
pub fn start_tree(git: &Git, commit: &Oid) -> Result<StartTree> {
    let entries = git.ls_tree(commit)?;
    let links: Vec<&Oid> = entries.iter().filter(|entry| entry.kind == EntryType::Symlink).map(|entry| &entry.oid).collect();
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

/// As `read_graph`; a graph that was made from task files is kept.
pub fn load_graph(paths: &FeaturePaths, start: &StartTree) -> Result<GraphFile> {
    let graph = read_graph(paths, start)?;
    if !paths.graph().exists() {
        write_atomic(&paths.graph(), graph.to_json().as_bytes())?;
    }
    Ok(graph)
}

/// The feature's graph as written; where there is none, made from hand-written task files.
pub fn read_graph(paths: &FeaturePaths, start: &StartTree) -> Result<GraphFile> {
    let path = paths.graph();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return import(paths, start),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            return Err(Error::new(ExitCode::Invalid, format!("{} is not UTF-8 text", path.display())));
        }
        Err(error) => return Err(io("read", &path)(error)),
    };
    GraphFile::parse(&text).map_err(|error| {
        Error::new(ExitCode::Invalid, format!("{} cannot be read", path.display()))
            .detail(located(&path.display().to_string(), &error))
            .hint("Mend the file at that place; docs/task-graph.md tells its form.")
    })
}

fn located(file: &str, error: &spec::SpecError) -> String {
    match error.at {
        Some((line, column)) => format!("{file}:{line}:{column}: {}", error.message),
        None => format!("{file}: {}", error.message),
    }
}

fn import(paths: &FeaturePaths, start: &StartTree) -> Result<GraphFile> {
    let files = read_task_files(paths)?;
    if files.is_empty() {
        return Err(Error::new(ExitCode::Invalid, format!("{} has no task graph", paths.feature()))
            .detail(format!("neither {} nor {}/*.md is there", paths.graph().display(), paths.task_files().display()))
            .hint("Write a task graph there; docs/task-graph.md tells its form, `mahabharatha demo` shows one."));
    }
    let exists = |path: &str| start.entries.contains_key(path);
    spec::import_tasks(paths.feature().as_str(), &files, exists).map_err(|errors| {
        let start = Error::new(ExitCode::Invalid, "the task files cannot be read");
        errors.iter().fold(start, |error, (file, cause)| {
            error.detail(located(&paths.task_files().join(file).display().to_string(), cause))
        })
    })
}

fn read_task_files(paths: &FeaturePaths) -> Result<Vec<(String, String)>> {
    let dir = paths.task_files();
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io("read", &dir)(error)),
    };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.ends_with(".md")).collect();
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let path = dir.join(&name);
            fs::read_to_string(&path).map(|text| (name, text)).map_err(io("read", &path))
        })
        .collect()
}

/// Every problem of a graph; the caller decides what to do about warnings.
pub fn check_graph(feature: &Feature, file: &GraphFile, start: Option<&StartTree>) -> (Option<TaskGraph>, Vec<Problem>) {
    let (graph, mut problems) = TaskGraph::check(file, start);
    if file.feature != feature.as_str() {
        problems.push(Problem {
            code: "feature_mismatch",
            severity: Severity::Error,
            task: None,
            path: None,
            message: format!("the graph says that it is of feature {:?}, but it stands in that of {feature}", file.feature),
        });
        return (None, problems);
    }
    (graph, problems)
}

/// A graph that holds, or all that is wrong with it as one error.
pub fn valid_graph(paths: &FeaturePaths, file: &GraphFile, start: Option<&StartTree>) -> Result<(TaskGraph, Vec<Problem>)> {
    let (graph, problems) = check_graph(paths.feature(), file, start);
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    match graph {
        Some(graph) => Ok((graph, problems)),
        None => Err(errors.fold(
            Error::new(ExitCode::Invalid, format!("{} is not valid", paths.graph().display())),
            |error, problem| error.detail(problem_line(problem)),
        )
        .hint("Mend the graph; `mahabharatha design --validate-only` checks it without running anything.")),
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
