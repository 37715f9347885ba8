//! What is wrong with a graph, collected in the order of its file.

use serde::Serialize;

use crate::spec::GraphFile;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Stable, for programs.
    pub code: &'static str,
    pub severity: Severity,
    pub task: Option<String>,
    pub path: Option<String>,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}

pub(super) struct Report<'f> {
    file: &'f GraphFile,
    /// With the task's place in the file; what concerns the whole file comes before all tasks.
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

    /// `message` goes on after the path.
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

/// A name from the file as it may stand in a line on a terminal.
pub(super) fn shown(name: &str) -> String {
    const LONGEST: usize = 120;
    let cut = name.char_indices().nth(LONGEST).map_or(name, |(at, _)| &name[..at]);
    let more = if cut.len() < name.len() { "…" } else { "" };
    let plain: String =
        cut.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect();
    format!("`{plain}{more}`")
}
