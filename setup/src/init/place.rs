//! Plans what `init` writes into the project: nothing of a user's is replaced.

use std::path::Path;

use mahabharatha_engine::claude::groups::{Action, Group, Placed};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::store::file_set::FileSet;

use super::judge::Judge;
use super::record::{self, Record};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// From the root, with `/`.
    pub path: String,
    pub text: String,
    pub how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Ours; one that a person has changed stays, and this is put beside it.
    Ours,
    /// Holds everything that stood there.
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

/// Whether `init` has been here before, on this machine or on that of whoever committed what it made. One that was
/// interrupted may have made anything but its record.
pub fn is_set_up(root: &Path, interrupted: bool) -> bool {
    let is_there = |path: &str| root.join(path).is_file();
    is_there(record::PATH)
        || !interrupted
            && is_there(".mahabharatha/config.yaml")
            && (is_there(".gsd/INFRASTRUCTURE.md") || is_there(".gsd/PROJECT.md"))
}

/// Plans the files, then what `more` has planned, then the record: whoever finds that finds all the rest.
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
        // What holds a user's words is never ours to replace.
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
