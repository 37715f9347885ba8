//! What became of levels that need nothing more, in words.

use super::{LevelView, RunView};
use crate::ids::Level;
use crate::run::{LevelState, LevelStatus, Run, TaskState, TaskStatus};

/// Says that every level is merged, or that there was nothing to merge in some of them or in any.
pub fn merged_phrase(levels: &[LevelView]) -> String {
    let total = levels.len();
    match levels.iter().filter(|level| level.status == "skipped").count() {
        0 => "every level is merged".to_string(),
        skipped if skipped == total => "nothing was merged: every task was skipped".to_string(),
        skipped => format!("{} of {total} levels merged; every task of the others was skipped", total - skipped),
    }
}

impl RunView {
    /// Tells whether the feature is completed without a change, since every task was skipped.
    pub fn is_all_skipped(&self) -> bool {
        self.status == "completed" && self.levels.iter().all(|level| level.status == "skipped")
    }
}

impl Run {
    /// Says that a level is merged, or that there was nothing to merge in it.
    pub fn merged_level_phrase(&self, level: Level) -> String {
        match self.levels().iter().find(|state| state.level == level) {
            Some(state) if self.had_nothing_to_merge(state) => {
                format!("level {level} had nothing to merge: every task was skipped")
            }
            _ => format!("level {level} is merged"),
        }
    }

    /// Tells whether the run went past a level without a merge, since every task of the level was skipped.
    pub(super) fn had_nothing_to_merge(&self, level: &LevelState) -> bool {
        let is_skipped = |task: &TaskState| matches!(task.status, TaskStatus::Skipped { .. });
        matches!(level.status, LevelStatus::Merged { landed: false, .. })
            && self.tasks()[level.tasks.clone()].iter().all(is_skipped)
    }
}
