//! Collects the problems of a graph and sorts them in the order of the file.

use serde::Serialize;

use crate::severity::Severity;
use crate::spec::GraphFile;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Stable identifier for programs.
    pub code: &'static str,
    pub severity: Severity,
    pub task: Option<String>,
    pub path: Option<String>,
    pub message: String,
}

pub(super) struct Report<'f> {
    file: &'f GraphFile,
    /// Each with the task's index in the file. Problems of the whole file have none and come first.
    found: Vec<(Option<usize>, Problem)>,
}

impl<'f> Report<'f> {
    pub fn new(file: &'f GraphFile) -> Self {
        Report { file, found: Vec::new() }
    }

    pub fn whole(&mut self, severity: Severity, code: &'static str, message: String) {
        self.found.push((None, Problem { code, severity, task: None, path: None, message }));
    }

    pub fn task(&mut self, severity: Severity, code: &'static str, index: usize, message: String) {
        let task = Some(self.file.tasks[index].id.clone());
        self.found.push((Some(index), Problem { code, severity, task, path: None, message }));
    }

    /// Reports a problem with a path. `message` continues the sentence after the path.
    pub fn path(&mut self, severity: Severity, code: &'static str, index: usize, path: &str, message: &str) {
        let message = format!("{} {message}", shown(path));
        self.task(severity, code, index, message);
        if let Some((_, problem)) = self.found.last_mut() {
            problem.path = Some(path.to_owned());
        }
    }

    pub fn has_errors(&self) -> bool {
        self.found.iter().any(|(_, problem)| problem.severity == Severity::Error)
    }

    pub fn finish(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|(index, _)| *index);
        self.found.into_iter().map(|(_, problem)| problem).collect()
    }
}

/// Quotes a name from the file so that it is safe to print: control characters are escaped, and it is cut if too long.
pub(super) fn shown(name: &str) -> String {
    const MAX_CHARS: usize = 120;
    let cut = name.char_indices().nth(MAX_CHARS).map_or(name, |(at, _)| &name[..at]);
    let more = if cut.len() < name.len() { "…" } else { "" };
    let plain: String =
        cut.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect();
    format!("`{plain}{more}`")
}
