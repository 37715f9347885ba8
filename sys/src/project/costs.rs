//! Cost of a feature before its run. The first feature that asks an agent or runs also takes over the cost of project
//! setup, which includes what features cost that were given up.
//!
//! Records change their place by a rename: a crash neither loses nor duplicates them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mahabharatha_core::cost::Cost;

use super::{FeaturePaths, Project};
use crate::error::{Result, io};
use crate::store::atomic::{make_dir, sync_dir};
use crate::store::costs;

/// Start and end of the names of files with setup costs, beside the one that is appended to.
const SETUP: (&str, &str) = ("setup-", ".jsonl");

impl Project {
    /// Returns the setup cost that no feature has taken over yet.
    pub fn setup_cost(&self) -> Result<Cost> {
        self.setup_cost_files().iter().map(|path| costs::total(path)).sum()
    }

    fn setup_cost_files(&self) -> Vec<PathBuf> {
        cost_files(&self.shared_dir(), self.setup_costs())
    }
}

impl FeaturePaths {
    /// Returns the planning cost of the feature, including the setup costs that it has taken over.
    pub fn planning_cost(&self) -> Result<Cost> {
        self.planning_cost_files().iter().map(|path| costs::total(path)).sum()
    }

    /// Returns whether there are costs of the feature, even if they are 0.
    pub fn has_planning_costs(&self) -> bool {
        !self.planning_cost_files().is_empty()
    }

    /// Makes everything that the feature has cost part of the project's setup costs, for a feature that is given up.
    pub fn give_back_planning_cost(&self, project: &Project) -> Result<()> {
        move_files(self.planning_cost_files(), &project.shared_dir())
    }

    /// Moves the project's setup costs to this feature.
    pub fn take_over_setup_costs(&self, project: &Project) -> Result<()> {
        move_files(project.setup_cost_files(), self.dir())
    }

    fn planning_cost_files(&self) -> Vec<PathBuf> {
        cost_files(self.dir(), self.planning_costs())
    }
}

/// Returns the existing files with costs: the setup costs in the directory, and `appended`.
fn cost_files(dir: &Path, appended: PathBuf) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_setup = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(SETUP.0) && name.ends_with(SETUP.1)
    };
    entries.filter(is_setup).chain(appended.exists().then_some(appended)).collect()
}

/// Moves files with costs to another directory, under names that no other file has.
fn move_files(files: Vec<PathBuf>, target: &Path) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    make_dir(target)?;
    let at = Timestamp::now().as_nanosecond();
    for (number, file) in files.iter().enumerate() {
        let name = format!("{}{at}-{}-{number}{}", SETUP.0, std::process::id(), SETUP.1);
        match fs::rename(file, target.join(name)) {
            Ok(()) => {}
            // Another process moved it first.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io("move", file)(error)),
        }
    }
    sync_dir(target)
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::ids::Feature;
    use mahabharatha_testing::git;

    use super::*;
    use crate::store::costs::Question;

    fn spend(path: &Path, usd: f64) {
        Question::record(path, "plan", "claude").unwrap().cost(Cost::of(Some(usd), 10)).unwrap();
    }

    #[test]
    fn what_a_feature_cost_that_is_given_up_is_charged_to_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "-q"]);
        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "one"]);
        let project = Project::find(dir.path()).unwrap();
        let [first, second] = ["first", "second"].map(|name| project.feature(&Feature::new(name).unwrap()));
        spend(&project.setup_costs(), 2.5);
        for (round, usd, tokens) in [(1, 3.0, 20), (2, 3.5, 30)] {
            first.take_over_setup_costs(&project).unwrap();
            spend(&first.planning_costs(), 0.5);
            assert!(project.setup_cost().unwrap().is_zero() && first.has_planning_costs());
            first.give_back_planning_cost(&project).unwrap();
            assert!(first.planning_cost().unwrap().is_zero() && !first.has_planning_costs());
            assert_eq!(project.setup_cost().unwrap(), Cost::of(Some(usd), tokens), "round {round}");
        }
        spend(&project.setup_costs(), 1.0);
        second.take_over_setup_costs(&project).unwrap();
        assert_eq!(second.planning_cost().unwrap(), Cost::of(Some(4.5), 40));
        assert!(project.setup_cost().unwrap().is_zero());
    }
}
