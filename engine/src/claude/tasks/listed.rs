//! Which task of ours an entry stands for, in whatever list a session shows.

use std::path::{Path, PathBuf};

use mahabharatha_core::ids::{Feature, TaskId};
use mahabharatha_sys::error::Result;
use serde::Deserialize;

use super::dir::{Content, ListDir};
use super::entry::{Key, noted};
use super::{PAUSE, home, shown_list};

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
        let list = shown_list(Some(self.session_id.clone())).filter(|list| !list.is_empty());
        let (Some(list), Ok(id)) = (list, self.task_id.parse()) else { return Ok(None) };
        Ok(find(&home()?, &list, id))
    }
}

/// In a list that cannot be opened, such as one behind a link, there is nothing that we wrote.
fn find(home: &Path, list: &str, id: u64) -> Option<Listed> {
    let dir = ListDir::open(home, list).ok().flatten()?;
    let task = loop {
        match dir.read(id) {
            Content::Task(task) => break task,
            Content::Nothing => return None,
            Content::BeingWritten => std::thread::sleep(PAUSE),
        }
    };
    let (project, feature, Key::Task(task)) = noted(&task)? else { return None };
    Some(Listed { project: PathBuf::from(project), feature: Feature::new(feature).ok()?, task })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_entry_is_ours_by_what_is_noted_in_it() {
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
        // Nobody writes half a task for as long as that.
        assert_eq!(found("{"), None);
        assert_eq!(find(home.path(), "any list", 2), None);
        assert_eq!(find(home.path(), "no list", 1), None);
    }
}
