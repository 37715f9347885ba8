//! Plans which files `init` writes into the project. Must never replace what the user wrote.

use std::path::Path;

use mahabharatha_engine::claude::groups::{Action, Group, Placed};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::store::file_set::FileSet;

use super::judge::Judge;
use super::record::{self, Record};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Path from the root, with `/`.
    pub path: String,
    pub text: String,
    pub how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Our file; if the user has changed it, it stays and the new one is written beside it.
    Ours,
    /// Contains everything that the file had before.
    Merged,
}

impl NewFile {
    pub fn ours(path: impl Into<String>, text: impl Into<String>) -> NewFile {
        NewFile { path: path.into(), text: text.into(), how: How::Ours }
    }

    pub fn merged(path: impl Into<String>, text: impl Into<String>) -> NewFile {
        NewFile { path: path.into(), text: text.into(), how: How::Merged }
    }
}

/// Tells whether `init` has run in this project, here or on the machine from which its files were committed. If it was
/// interrupted, only its record proves that it finished.
pub fn is_set_up(root: &Path, interrupted: bool) -> bool {
    let is_there = |path: &str| root.join(path).is_file();
    is_there(record::PATH)
        || !interrupted
            && is_there(".mahabharatha/config.yaml")
            && (is_there(".gsd/INFRASTRUCTURE.md") || is_there(".gsd/PROJECT.md"))
}

/// Plans the files, then those of `more`, then the record, which is last so that it implies all the others.
pub fn plan(root: &Path, files: &[NewFile], more: Option<&FileSet>) -> Result<(Vec<Placed>, FileSet)> {
    let mut set = FileSet::within(&[root]).journaled(root, "init");
    let mut record = Record::read(root);
    let mut placed = Vec::new();
    for file in files {
        let decision = Judge { root, record: &record }.decide(file)?;
        let target = decision.beside.as_ref().unwrap_or(&file.path);
        if decision.is_written {
            set.write(root.join(target), file.text.as_str())?;
        }
        // A file with text of the user is not recorded as ours, so it is never replaced.
        let is_ours = file.how == How::Ours || decision.action == Action::Created || decision.beside.is_some();
        if is_ours && (decision.is_written || decision.action == Action::Unchanged) {
            record.note(target, file.text.as_bytes());
        }
        let (group, path) = (Group::of_project_file(&file.path), file.path.clone());
        placed.push(Placed { group, path, action: decision.action, beside: decision.beside });
    }
    more.map_or(Ok(()), |more| set.extend(more))?;
    set.write(root.join(record::PATH), record.text())?;
    Ok((placed, set))
}

#[cfg(test)]
mod tests;
