//! Shows `[Plan]` and `[Design]` as tasks in the feature's Claude Code task list.

use mahabharatha_core::ids::Feature;
use mahabharatha_engine::claude::tasks::{self, Phase, Status};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Project;
use mahabharatha_sys::ui::Ui;

/// Marks the phase as in progress while `work` runs, then as completed or pending.
pub fn show_in_task_list(
    ui: &Ui,
    project: &Project,
    feature: &Feature,
    phase: Phase,
    work: impl FnOnce() -> Result<bool>,
) -> Result<bool> {
    let show = |status| {
        if let Err(error) = tasks::show_phase(project, feature, phase, status) {
            ui.warn(&format!("cannot update the task list: {}", error.message()));
        }
    };
    show(Status::InProgress);
    let completed = work();
    show(if matches!(completed, Ok(true)) { Status::Completed } else { Status::Pending });
    completed
}
