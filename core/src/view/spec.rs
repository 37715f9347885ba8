//! What a task is to do, as its spec says.

use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::graph::Task;
use crate::spec::{Shared, TaskSpec};

/// The spec of a task, of which the fields below are shown. Shared with the graph: a run of thousands of tasks is viewed
/// several times a second.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(with = "Shown<'static>")]
pub struct SpecView(Shared<TaskSpec>);

impl SpecView {
    pub fn of(task: &Task) -> SpecView {
        SpecView(task.spec.clone())
    }
}

impl Deref for SpecView {
    type Target = TaskSpec;
    fn deref(&self) -> &TaskSpec {
        &self.0
    }
}

impl Serialize for SpecView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TaskSpec { files, acceptance_criteria, verification, estimate_minutes, .. } = &**self;
        let shown = Shown {
            files: FilesView { create: &files.create, modify: &files.modify, read: &files.read },
            acceptance_criteria,
            verification: VerificationView {
                command: &verification.command,
                timeout_seconds: verification.timeout_seconds,
            },
            estimate_minutes: *estimate_minutes,
        };
        shown.serialize(serializer)
    }
}

#[derive(Serialize, JsonSchema)]
struct Shown<'a> {
    files: FilesView<'a>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    acceptance_criteria: &'a [String],
    verification: VerificationView<'a>,
    /// The spec's own estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate_minutes: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
struct FilesView<'a> {
    create: &'a [String],
    modify: &'a [String],
    read: &'a [String],
}

#[derive(Serialize, JsonSchema)]
struct VerificationView<'a> {
    command: &'a str,
    timeout_seconds: u64,
}
