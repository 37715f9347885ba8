//! `[Plan]` and `[Design]` in the feature's task list, for those who look there.

use mahabharatha_core::ids::Feature;
use mahabharatha_engine::claude::tasks::{self, Phase, Status};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Project;
use mahabharatha_sys::ui::Ui;

/// Shows there that the phase is worked on, and, when `work` is done, whether it is completed.
pub fn in_task_list(
    ui: &Ui,
    project: &Project,
    feature: &Feature,
    phase: Phase,
    work: impl FnOnce() -> Result<bool>,
) -> Result<bool> {
    let show = |status| {
        if let Err(error) = tasks::phase(project, feature, phase, status) {
            ui.warn(&format!("the task list does not show how far it is: {}", error.message()));
        }
    };
    show(Status::InProgress);
    let completed = work();
    show(if matches!(completed, Ok(true)) { Status::Completed } else { Status::Pending });
    completed
}
