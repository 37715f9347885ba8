//! Finds the task that an entry of a session's task list stands for.

use std::path::{Path, PathBuf};

use mahabharatha_core::ids::{Feature, TaskId};
use mahabharatha_sys::error::Result;
use serde::Deserialize;

use super::dir::{Content, ListDir};
use super::entry::{Key, origin_of};
use super::{RETRY_INTERVAL, home, shown_list};

/// Input of the hook before the client marks an entry as completed.
#[derive(Debug, Deserialize)]
pub struct TaskCompleted {
    pub session_id: String,
    /// Id of the entry in the list.
    pub task_id: String,
}

/// A task of ours that a list shows.
#[derive(Debug, PartialEq, Eq)]
pub struct ListedTask {
    /// The main checkout of the project.
    pub project: PathBuf,
    pub feature: Feature,
    pub task: TaskId,
}

impl TaskCompleted {
    /// Returns the task of the entry; `None` if the entry is not ours.
    pub fn our_task(&self) -> Result<Option<ListedTask>> {
        let list = shown_list(Some(self.session_id.clone())).filter(|list| !list.is_empty());
        let (Some(list), Ok(id)) = (list, self.task_id.parse()) else { return Ok(None) };
        Ok(find(&home()?, &list, id))
    }
}

/// Reads an entry. A list that cannot be opened, such as one behind a symlink, contains no entry of ours.
fn find(home: &Path, list: &str, id: u64) -> Option<ListedTask> {
    let dir = ListDir::open(home, list).ok().flatten()?;
    let task = loop {
        match dir.read(id) {
            Content::Task(task) => break task,
            Content::Nothing => return None,
            Content::BeingWritten => std::thread::sleep(RETRY_INTERVAL),
        }
    };
    let (project, feature, Key::Task(task)) = origin_of(&task)? else { return None };
    Some(ListedTask { project: PathBuf::from(project), feature: Feature::new(feature).ok()?, task })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn entries_are_recognised_by_their_metadata() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("tasks/any list");
        fs::create_dir_all(&path).unwrap();
        let found = |entry: &str| {
            fs::write(path.join("1.json"), entry).unwrap();
            find(home.path(), "any list", 1)
        };
        let metadata = json!({ "project": "/p", "feature": "x", "task": "A-1" });
        let listed = found(&json!({ "id": "1", "metadata": metadata }).to_string()).unwrap();
        assert_eq!((listed.project.to_str(), listed.task.as_str()), (Some("/p"), "A-1"));
        let phase = json!({ "project": "/p", "feature": "x", "phase": "plan" });
        for other in [json!({}), json!({ "metadata": phase }), json!({ "metadata": { "task": "../x" } }), Value::Null] {
            assert_eq!(found(&other.to_string()), None);
        }
        // An incomplete file stops counting as being written after a while.
        assert_eq!(found("{"), None);
        assert_eq!(find(home.path(), "any list", 2), None);
        assert_eq!(find(home.path(), "no list", 1), None);
    }
}
