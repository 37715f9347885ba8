//! Checks an agent's proposed design and turns it into the feature's files.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mahabharatha_core::design::{Design, Page, Proposal, design_document, design_manifest, is_form, stub_in_the_way};
use mahabharatha_core::graph::{Problem, Rules, Severity, StartTree, TaskGraph, TracedCriterion, spell_out, trace};
use mahabharatha_core::plan::Plan;
use mahabharatha_core::spec::{GraphFile, Requirements, write_task_file};
use mahabharatha_engine::specs;
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::RepoPath;
use mahabharatha_sys::project::{FeaturePaths, Place, Project};
use mahabharatha_sys::store::file_set::FileSet;

use super::documents::aside;

/// A design whose task graph passed every check.
pub struct Designed {
    pub design: Design,
    pub file: GraphFile,
    pub graph: TaskGraph,
    pub criteria: Vec<TracedCriterion>,
    pub warnings: Vec<Problem>,
}

/// Checks the proposal. The error lists every problem, not only the first.
pub fn check(
    Place { project, paths, .. }: &Place,
    start: &StartTree,
    rules: Rules,
    requirements: &Requirements,
    proposal: Proposal,
) -> Result<Designed, Vec<Problem>> {
    let Proposal { design, graph: mut file } = proposal;
    let (tree, mut problems) = design.with_stubs(start);
    let taken = design.stub_files().filter(|(path, content)| is_taken(project.checkout(), path, content));
    problems.extend(taken.map(|(path, _)| stub_in_the_way(&path)));
    let (criteria, untraced) = trace(requirements, &file);
    spell_out(&mut file, requirements);
    let (graph, found) = specs::check_graph(paths.feature(), &file, Some(&tree), rules);
    problems.extend(found);
    match graph {
        Some(graph) if problems.iter().all(|problem| problem.severity == Severity::Warning) => {
            problems.extend(untraced);
            file.total_tasks = Some(file.tasks.len() as u64);
            file.max_parallelization = Some(width(&graph) as u64);
            Ok(Designed { design, file, graph, criteria, warnings: problems })
        }
        _ => Err(problems),
    }
}

/// Checks a skeleton that the user will fill in: only the form of its graph, since no criterion is covered yet.
pub fn form(start: &StartTree, requirements: &Requirements, proposal: Proposal) -> Result<Designed, Vec<Problem>> {
    let Proposal { design, graph: mut file } = proposal;
    let (criteria, _) = trace(requirements, &file);
    match TaskGraph::check(&file, Some(start), Rules::default()) {
        (Some(graph), warnings) => {
            file.total_tasks = Some(file.tasks.len() as u64);
            file.max_parallelization = Some(width(&graph) as u64);
            Ok(Designed { design, file, graph, criteria, warnings })
        }
        (None, problems) => Err(problems),
    }
}

/// Returns true if the stub cannot be written without following a symlink or replacing a file. A file with exactly the
/// stub's content is fine: a killed `design` command may have left it.
fn is_taken(checkout: &Path, path: &str, content: &str) -> bool {
    let mut at = checkout.to_owned();
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        at.push(part);
        let Ok(found) = fs::symlink_metadata(&at) else { return false };
        if parts.peek().is_none() {
            return !(found.is_file()
                && bounded::read(&at, content.len() as u64).is_ok_and(|bytes| bytes == content.as_bytes()));
        }
        if !found.is_dir() {
            return true;
        }
    }
    false
}

/// Returns the number of tasks in the widest level.
pub fn width(graph: &TaskGraph) -> usize {
    graph.tasks().chunk_by(|one, next| one.level == next.level).map(<[_]>::len).max().unwrap_or(0)
}

/// Author and approval, for the header of the design document.
pub struct Provenance<'a> {
    pub author: &'a str,
    /// Approval status of the requirements.
    pub approval: &'a str,
    /// Keep a design document that the user wrote.
    pub keep_document: bool,
}

/// The files of a design, ready to be written.
#[derive(Debug)]
pub struct DesignFiles {
    pub files: FileSet,
    /// Backup files for the documents that are replaced.
    pub kept: Vec<PathBuf>,
}

/// Collects every file of the design. The graph comes last, because a run starts from it.
pub fn collect_files(
    project: &Project,
    paths: &FeaturePaths,
    designed: &Designed,
    plan: &Plan,
    provenance: &Provenance<'_>,
) -> Result<DesignFiles> {
    let mut collected = DesignFiles { files: FileSet::within(&[project.root(), project.checkout()]), kept: Vec::new() };
    for (path, content) in designed.design.stub_files() {
        collected.files.write(project.checkout().join(path), content)?;
    }
    let old =
        bounded::read_to_string(&paths.graph(), LARGE_FILE_BYTES).ok().and_then(|text| GraphFile::parse(&text).ok());
    let gone =
        old.iter().flat_map(|old| TaskGraph::check(old, None, Rules::ACCEPTED).0).flat_map(|old| old.tasks().to_vec());
    for task in gone.filter(|task| designed.graph.task(&task.id).is_none()) {
        collected.files.remove(paths.task_file(&task.id))?;
    }
    for task in designed.graph.tasks() {
        collected.files.write(paths.task_file(&task.id), write_task_file(&task.spec, None))?;
    }
    let manifest = serde_json::to_string_pretty(&design_manifest(&designed.graph)).expect("it has string keys only");
    collected.files.write(paths.manifest(), manifest + "\n")?;
    let document = || bounded::read(&paths.design(), LARGE_FILE_BYTES);
    let written = || document().is_ok_and(|document| !is_form(&String::from_utf8_lossy(&document)));
    if !(provenance.keep_document && written()) {
        let created = Timestamp::now().strftime("%Y-%m-%d").to_string();
        let page = Page {
            design: &designed.design,
            graph: &designed.graph,
            plan,
            criteria: &designed.criteria,
            created: &created,
            author: provenance.author,
            approval: provenance.approval,
        };
        collected.put_in_place(paths.design(), design_document(&page).into_bytes())?;
    }
    collected.put_in_place(paths.graph(), designed.file.to_json().into_bytes())?;
    Ok(collected)
}

impl DesignFiles {
    fn put_in_place(&mut self, path: PathBuf, bytes: Vec<u8>) -> Result<()> {
        if let Some((beside, old)) = aside(&path, &bytes)? {
            self.files.write(beside.clone(), old)?;
            self.kept.push(beside);
        }
        self.files.write(path, bytes)
    }
}

/// Returns the files to commit, by their path in the repository: the specs that git does not ignore, and the stubs.
pub fn to_commit(project: &Project, paths: &FeaturePaths, files: &FileSet) -> Result<Vec<(PathBuf, Option<Vec<u8>>)>> {
    let mut all: Vec<(PathBuf, Option<Vec<u8>>)> = Vec::new();
    let mut add = |path: &Path, bytes: Option<Vec<u8>>| {
        if let Ok(inside) = path.strip_prefix(project.checkout()) {
            all.push((inside.to_owned(), bytes));
        }
    };
    // A document that the user wrote is not rewritten, but belongs to the commit all the same.
    let found = [paths.requirements(), paths.approval(), paths.design()];
    for path in found.iter().filter(|found| files.iter().all(|(path, _)| path != *found)) {
        if let Ok(bytes) = bounded::read(path, LARGE_FILE_BYTES) {
            add(path, Some(bytes));
        }
    }
    files.iter().for_each(|(path, bytes)| add(path, bytes.map(<[u8]>::to_vec)));
    let names: Vec<RepoPath> = all.iter().map(|(path, _)| RepoPath::new(path.as_os_str().as_encoded_bytes())).collect();
    let ignored = project.head().work_tree(project.checkout()).ignored(&names)?;
    let is_spec = |path: &Path| path.starts_with(".gsd");
    let mut names = names.into_iter();
    all.retain(|(path, _)| names.next().is_none_or(|name| !(is_spec(path) && ignored.contains(&name))));
    Ok(all)
}
