//! Checks whether the stubs can be written where the design says, and defines the problems of a design.

use std::collections::BTreeSet;

use super::Design;
use crate::graph::{EntryKind, Problem, Severity, StartTree};
use crate::spec::path::{ListedPath, ancestors, folded};

/// Maximum number of stubs in a design.
const MAX_STUBS: usize = 500;
const MAX_STUB_BYTES: usize = 1 << 20;

fn error(code: &'static str, path: Option<&str>, message: String) -> Problem {
    Problem { code, severity: Severity::Error, task: None, path: path.map(str::to_owned), message }
}

/// The answer is not a design.
pub fn unreadable(why: String) -> Problem {
    error("unreadable_design", None, why)
}

/// The user left placeholders in the task.
pub(super) fn unfilled_task(task: &str, left: &[&str]) -> Problem {
    let message = format!("still has placeholders: {}", left.join(", "));
    Problem { task: Some(task.to_owned()), ..error("unfilled_task", None, message) }
}

/// A run that has started can no longer take over the design.
pub fn too_late(why: String) -> Problem {
    error("too_late", None, why)
}

/// There is an uncommitted file where a stub should go.
pub fn stub_in_the_way(path: &str) -> Problem {
    error("stub_in_the_way", Some(path), "there is already an uncommitted file".to_owned())
}

/// The check of the stubs failed; `output` is what it printed.
pub fn stubs_fail(output: String) -> Problem {
    error("stub_check_failed", None, output)
}

impl Design {
    /// Returns the tree that the tasks start from, with the stubs, and the problems of the stubs.
    pub fn with_stubs(&self, start: &StartTree) -> (StartTree, Vec<Problem>) {
        let mut tree = start.clone();
        let mut problems = Vec::new();
        let mut push = |code, path: &str, message: String| problems.push(error(code, Some(path), message));
        let mut seen = BTreeSet::new();
        for stub in &self.stubs {
            let path = match ListedPath::read(&stub.path) {
                Ok(listed) if !listed.directory => listed.path,
                Ok(_) => {
                    push("bad_stub", &stub.path, "a stub is a file, not a directory".to_owned());
                    continue;
                }
                Err(bad) => {
                    push(bad.code, &stub.path, format!("the stub's path {}", bad.why));
                    continue;
                }
            };
            if start.contains(&path) || ancestors(&path).any(|above| start.entries.contains_key(above)) {
                push("stub_exists", &stub.path, "a stub must not replace an existing file".to_owned());
            } else if !seen.insert(folded(&path)) {
                push("stub_exists", &stub.path, "two stubs have this path".to_owned());
            } else if stub.content.len() > MAX_STUB_BYTES {
                push("bad_stub", &stub.path, "the stub is larger than 1 MB".to_owned());
            } else {
                tree.entries.insert(path, EntryKind::File);
            }
        }
        if self.stubs.len() > MAX_STUBS {
            push("bad_stub", "", format!("there are {} stubs; at most {MAX_STUBS} are allowed", self.stubs.len()));
        }
        if self.stub_check.as_ref().is_some_and(|check| check.command.contains('\0') || check.timeout_seconds == 0) {
            push(
                "bad_stub",
                "",
                "the stub check cannot run: its command has a NUL character, or its timeout is 0".to_owned(),
            );
        }
        (tree, problems)
    }

    /// Returns the path of each stub, in the form that tasks use, with its content.
    pub fn stub_files(&self) -> impl Iterator<Item = (String, &str)> {
        self.stubs.iter().filter_map(|stub| Some((ListedPath::read(&stub.path).ok()?.path, stub.content.as_str())))
    }
}
