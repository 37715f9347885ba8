//! Which task of ours an entry of a Claude Code task list stands for.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::{Feature, TaskId};
use serde::Deserialize;
use serde_json::Value;

use super::commands::Home;
use crate::error::{Error, ExitCode, Result, io};

/// What the client tells before it calls a task of its list completed.
#[derive(Debug, Deserialize)]
pub struct TaskCompleted {
    pub session_id: String,
    /// The number in its list.
    pub task_id: String,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Listed {
    /// The main checkout of the project.
    pub project: PathBuf,
    pub feature: Feature,
    pub task: TaskId,
}

impl TaskCompleted {
    /// Nothing where the entry is not of ours.
    pub fn ours(&self) -> Result<Option<Listed>> {
        let named = std::env::var("CLAUDE_CODE_TASK_LIST_ID").ok().filter(|list| !list.is_empty());
        let list = named.unwrap_or_else(|| self.session_id.clone());
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' };
        let list: String = list.chars().map(plain).collect();
        if list.is_empty() || self.task_id.is_empty() || !self.task_id.chars().all(|c| c.is_ascii_digit()) {
            return Ok(None);
        }
        read(&Home::of_user()?.dir().join("tasks").join(list).join(format!("{}.json", self.task_id)))
    }
}

fn read(path: &Path) -> Result<Option<Listed>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("read", path)(error)),
    };
    let entry: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Error::new(ExitCode::Invalid, format!("{}: {error}", path.display())))?;
    let noted = |name: &str| entry["metadata"][name].as_str();
    let (Some(project), Some(feature), Some(task)) = (noted("project"), noted("feature"), noted("task")) else {
        return Ok(None);
    };
    let (Ok(feature), Ok(task)) = (Feature::new(feature), TaskId::new(task)) else { return Ok(None) };
    Ok(Some(Listed { project: PathBuf::from(project), feature, task }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_is_ours_by_what_is_noted_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.json");
        let found = |entry: Value| {
            fs::write(&path, entry.to_string()).unwrap();
            read(&path).unwrap()
        };
        let metadata = json!({ "project": "/p", "feature": "x", "task": "A-1" });
        let listed = found(json!({ "id": "1", "metadata": metadata })).unwrap();
        assert_eq!((listed.project.to_str(), listed.task.as_str()), (Some("/p"), "A-1"));
        let phase = json!({ "project": "/p", "feature": "x", "phase": "plan" });
        for other in [json!({}), json!({ "metadata": phase }), json!({ "metadata": { "task": "../x" } })] {
            assert_eq!(found(other), None);
        }
        fs::write(&path, "{").unwrap();
        assert!(read(&path).is_err());
        assert_eq!(read(&dir.path().join("2.json")).unwrap(), None);
    }
}
