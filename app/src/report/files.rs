//! The files that are made from a run and can be made again at any time.

use std::fs;

use mahabharatha_core::ids::TaskId;
use mahabharatha_core::run::Run;
use mahabharatha_core::spec::write_task_file;
use mahabharatha_core::view::RunView;

use super::{completion_md, failure, projection, state_md};
use crate::error::Result;
use crate::project::{FeaturePaths, Project};
use crate::store::atomic::{write_atomic, write_projected};
use crate::store::locks::WorktreesLock;

/// Everything, as it is at a stop.
pub fn write_all(project: &Project, paths: &FeaturePaths, run: &Run) -> Result<()> {
    write_projection(paths, &RunView::of(run))?;
    write_state(project, paths, run)?;
    for task in run.graph().tasks() {
        write_task(paths, run, &task.id)?;
    }
    Ok(())
}

pub fn write_projection(paths: &FeaturePaths, view: &RunView) -> Result<()> {
    crate::store::projection::write_projection(&paths.projection(), &projection::project(view))
}

/// This feature's section of `STATE.md`; those of others stay as they are.
pub fn write_state(project: &Project, paths: &FeaturePaths, run: &Run) -> Result<()> {
    let section = state_md::section(&RunView::of(run));
    let path = project.state_file();
    let _one_at_a_time = WorktreesLock::wait(project.shared_dir())?;
    let before = fs::read_to_string(&path).unwrap_or_default();
    write_projected(&path, state_md::replace_section(&before, paths.feature().as_str(), &section).as_bytes())
}

/// `tasks/<id>.md`, with the failure analysis of a task that is blocked.
pub fn write_task(paths: &FeaturePaths, run: &Run, id: &TaskId) -> Result<()> {
    let Some(task) = run.graph().task(id) else { return Ok(()) };
    let text = write_task_file(&task.spec, failure::of_task(run, id).as_deref());
    let path = paths.task_file(id);
    if fs::read_to_string(&path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    write_projected(&path, text.as_bytes())
}

pub fn write_completion(paths: &FeaturePaths, run: &Run) -> Result<()> {
    write_atomic(&paths.completion(), completion_md::render(run).as_bytes())
}
