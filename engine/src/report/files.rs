//! Writes the files that are derived from a run and can be rebuilt at any time.

use std::io::ErrorKind;
use std::path::Path;

use jiff::Timestamp;
use mahabharatha_core::ids::TaskId;
use mahabharatha_core::run::Run;
use mahabharatha_core::spec::{write_continued_task_file, write_task_file};
use mahabharatha_core::view::{RunView, TaskView};
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::store::atomic::{sweep, write_atomic, write_projected};
use mahabharatha_sys::store::locks::WorktreesLock;

use super::completion_md::{Findings, render_completion};
use super::failure::failure_analysis;
use super::markdown::block;
use super::projection::projection;
use super::state_md::{self, StateSection};
use super::text::cost_fact;
use crate::claude::tasks;

/// Returns the view of a run with the current cost of planning, which may have grown since the run was last resumed.
pub fn view(paths: &FeaturePaths, run: &Run) -> Result<RunView> {
    let (view, planning) = (RunView::of(run), paths.planning_cost()?);
    Ok(if planning.is_zero() { view } else { view.with_planning(run, planning) })
}

/// Writes all files, for a run that no process drives.
pub fn write_all(project: &Project, paths: &FeaturePaths, run: &Run) -> Result<()> {
    write_files(project, paths, run)?;
    if let Some(Ok(list)) = tasks::list_of(project, paths.feature()) {
        // Errors are ignored: `status` shows where the list differs.
        let _ = list.write(&RunView::of(run), run.graph());
    }
    Ok(())
}

/// Writes all files except the task list in Claude Code.
pub fn write_files(project: &Project, paths: &FeaturePaths, run: &Run) -> Result<()> {
    write_costs(project, paths, run)?;
    write_tasks(paths, run)
}

/// Writes the files that show what the run and its planning have cost.
pub fn write_costs(project: &Project, paths: &FeaturePaths, run: &Run) -> Result<()> {
    let view = view(paths, run)?;
    write_projection(paths, &view)?;
    write_state_of(project, paths, run, &view)
}

pub fn write_tasks(paths: &FeaturePaths, run: &Run) -> Result<()> {
    run.graph().tasks().iter().try_for_each(|task| write_task(paths, run, &task.id))
}

pub fn write_projection(paths: &FeaturePaths, view: &RunView) -> Result<()> {
    mahabharatha_sys::store::projection::write_projection(&paths.projection(), &projection(view))
}

/// Writes this feature's section of `STATE.md`; other sections stay as they are.
pub fn write_state(project: &Project, paths: &FeaturePaths, run: &Run) -> Result<()> {
    write_state_of(project, paths, run, &view(paths, run)?)
}

/// Like `write_state`, with a view of the run that the caller has.
pub fn write_state_of(project: &Project, paths: &FeaturePaths, run: &Run, view: &RunView) -> Result<()> {
    let (path, feature) = (project.state_file(), paths.feature().as_str());
    let _one_at_a_time = WorktreesLock::wait(&project.shared_dir())?;
    if let Some(dir) = path.parent() {
        sweep(dir);
    }
    let before = read_state(&path)?;
    let section = StateSection::of(view, state_md::decisions(&before, run));
    let after = state_md::replace_section(&before, feature, &state_md::render_section(&section));
    write_projected(&path, &after)
}

/// Reads bytes, so that text the user added in any encoding is preserved.
fn read_state(path: &Path) -> Result<Vec<u8>> {
    match bounded::read(path, LARGE_FILE_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        found => found.map_err(io("read", path)),
    }
}

/// Progress of a feature that has not been run yet.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoint<'a> {
    pub phase: &'a str,
    pub status: &'a str,
}

/// Writes this feature's section of `STATE.md`, unless it has a run.
pub fn write_checkpoint(project: &Project, paths: &FeaturePaths, checkpoint: &Checkpoint<'_>) -> Result<()> {
    if paths.journal().exists() {
        return Ok(());
    }
    let (path, feature) = (project.state_file(), paths.feature().as_str());
    let _one_at_a_time = WorktreesLock::wait(&project.shared_dir())?;
    let before = read_state(&path)?;
    let mut facts = vec![
        ("Phase", checkpoint.phase.to_owned()),
        ("Status", checkpoint.status.to_owned()),
        ("Last Update", format!("{:.0}", Timestamp::now())),
    ];
    facts.extend(cost_fact(paths.planning_cost()?).map(|cost| ("Cost", cost)));
    let section = StateSection::before_a_run(feature, facts, state_md::decisions_in(&before, feature));
    let after = state_md::replace_section(&before, feature, &state_md::render_section(&section));
    write_projected(&path, &after)
}

/// Writes `tasks/<id>.md`, with the failure analysis of a blocked task or the note of a task to be continued.
pub fn write_task(paths: &FeaturePaths, run: &Run, task: &TaskId) -> Result<()> {
    let Some(view) = TaskView::of(run, task) else { return Ok(()) };
    let analysis = (view.status == "blocked").then(|| failure_analysis(paths.feature().as_str(), &view));
    let text = match view.checkpoint_note() {
        Some(note) => write_continued_task_file(&view.spec, &block(note)),
        None => write_task_file(&view.spec, analysis.as_deref()),
    };
    let path = paths.task_file(task);
    if bounded::read_to_string(&path, LARGE_FILE_BYTES).is_ok_and(|before| before == text) {
        return Ok(());
    }
    write_projected(&path, text.as_bytes())
}

pub fn write_completion(paths: &FeaturePaths, run: &Run, findings: &Findings) -> Result<()> {
    write_atomic(&paths.completion(), render_completion(&view(paths, run)?, findings).as_bytes())
}
