//! What became of a completed feature's levels, in words.

use super::{LevelView, RunView};

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
