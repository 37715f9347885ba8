//! Shows `[Plan]` and `[Design]` as tasks in the feature's Claude Code task list.

use mahabharatha_engine::claude::tasks::{self, Phase, Status};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::Ui;

/// Marks the phase as in progress while `work` runs, then as completed or pending.
pub fn show_in_task_list<T>(
    ui: &Ui,
    place: &Place,
    phase: Phase,
    work: impl FnOnce() -> Result<T>,
    is_completed: impl FnOnce(&T) -> bool,
) -> Result<T> {
    let show = |status| {
        if let Err(error) = tasks::show_phase(&place.project, &place.feature, phase, status) {
            ui.warn(&format!("cannot update the task list: {}", error.message()));
        }
    };
    show(Status::InProgress);
    let result = work();
    show(if result.as_ref().is_ok_and(is_completed) { Status::Completed } else { Status::Pending });
    result
}
