//! What a task is to do, as its spec says.

use schemars::JsonSchema;
use serde::Serialize;

use crate::graph::Task;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SpecView {
    pub files: FilesView,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acceptance_criteria: Vec<String>,
    pub verification: VerificationView,
    /// The spec's own estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_minutes: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FilesView {
    pub create: Vec<String>,
    pub modify: Vec<String>,
    pub read: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct VerificationView {
    pub command: String,
    pub timeout_seconds: u64,
}

impl SpecView {
    pub fn of(task: &Task) -> SpecView {
        let spec = &task.spec;
        let (files, verification) = (&spec.files, &spec.verification);
        SpecView {
            files: FilesView { create: files.create.clone(), modify: files.modify.clone(), read: files.read.clone() },
            acceptance_criteria: spec.acceptance_criteria.clone(),
            verification: VerificationView {
                command: verification.command.clone(),
                timeout_seconds: verification.timeout_seconds,
            },
            estimate_minutes: spec.estimate_minutes,
        }
    }
}
