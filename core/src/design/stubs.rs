//! Whether stubs can be put where the design says.

use std::collections::BTreeSet;

use super::Design;
use crate::graph::{EntryKind, Problem, Severity, StartTree};
use crate::spec::path::{ListedPath, ancestors, folded};

/// More of them is no set of interfaces.
const MOST: usize = 500;
const LARGEST: usize = 1 << 20;

fn error(code: &'static str, path: Option<&str>, message: String) -> Problem {
    Problem { code, severity: Severity::Error, task: None, path: path.map(str::to_owned), message }
}

/// An answer that is no design.
pub fn unreadable(why: String) -> Problem {
    error("unreadable_design", None, why)
}

/// A task that somebody left as the form has it.
pub(super) fn unfilled_task(task: &str, left: &[&str]) -> Problem {
    let message = format!("is still to be filled in: {}", left.join(", "));
    Problem { task: Some(task.to_owned()), ..error("unfilled_task", None, message) }
}

/// What a run that has begun cannot take over any more.
pub fn too_late(why: String) -> Problem {
    error("too_late", None, why)
}

/// Where a stub should go, somebody has something that no commit has.
pub fn stub_in_the_way(path: &str) -> Problem {
    error("stub_in_the_way", Some(path), "something that is not committed stands there already".to_owned())
}

/// What the stubs' check printed.
pub fn stubs_fail(output: String) -> Problem {
    error("stub_check_failed", None, output)
}

impl Design {
    /// The tree that the tasks begin on, and what is wrong with the stubs in it.
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
                push("stub_exists", &stub.path, "a stub may not replace what is there already".to_owned());
            } else if !seen.insert(folded(&path)) {
                push("stub_exists", &stub.path, "two stubs have this path".to_owned());
            } else if stub.content.len() > LARGEST {
                push("bad_stub", &stub.path, "the stub is larger than 1 MB".to_owned());
            } else {
                tree.entries.insert(path, EntryKind::File);
            }
        }
        if self.stubs.len() > MOST {
            push("bad_stub", "", format!("there are {} stubs; at most {MOST} are taken", self.stubs.len()));
        }
        if self.stub_check.as_ref().is_some_and(|check| check.command.contains('\0') || check.timeout_seconds == 0) {
            push("bad_stub", "", "the check of the stubs cannot be run: a NUL character, or no time for it".to_owned());
        }
        (tree, problems)
    }

    /// Where each stub goes, in the form that tasks name it, with what is in it.
    pub fn stub_files(&self) -> impl Iterator<Item = (String, &str)> {
        self.stubs.iter().filter_map(|stub| Some((ListedPath::read(&stub.path).ok()?.path, stub.content.as_str())))
    }
}
