//! Cost of a feature before its run. The first feature that asks an agent or runs also takes over the cost of project
//! setup.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use jiff::Timestamp;
use mahabharatha_core::cost::Cost;

use super::{FeaturePaths, Project};
use crate::error::{Result, io};
use crate::store::atomic::{make_dir, sync_dir};
use crate::store::costs;
use crate::store::tree::remove_file;

/// Name prefix of files in a feature's directory that hold setup costs which it has taken over.
const TAKEN_OVER: &str = "setup-";

impl FeaturePaths {
    /// Returns the planning cost of the feature, including the setup costs that it has taken over.
    pub fn planning_cost(&self) -> Result<Cost> {
        self.cost_files().iter().map(|path| costs::total(path)).sum()
    }

    /// Removes the records of what planning the feature cost.
    pub fn forget_planning_cost(&self) -> Result<()> {
        for file in self.cost_files() {
            remove_file(&file)?;
        }
        Ok(())
    }

    fn cost_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir()).into_iter().flatten().flatten();
        let is_taken_over = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(TAKEN_OVER);
        entries.filter(is_taken_over).map(|entry| entry.path()).chain([self.planning_costs()]).collect()
    }

    /// Moves the project's setup costs to this feature.
    pub fn take_over_setup_costs(&self, project: &Project) -> Result<()> {
        let setup = project.setup_costs();
        if !setup.exists() {
            return Ok(());
        }
        make_dir(self.dir())?;
        let target = self.dir().join(format!("{TAKEN_OVER}{}.jsonl", Timestamp::now().as_nanosecond()));
        match fs::rename(&setup, &target) {
            Ok(()) => sync_dir(self.dir()),
            // Another feature took them over first.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io("move", &setup)(error)),
        }
    }
}
