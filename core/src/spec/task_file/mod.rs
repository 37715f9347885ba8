//! `tasks/<id>.md`: a task in the form that users read and write.
//!
//! The file has a metadata list, a `<task>` block and sections of prose. The block takes precedence; the metadata adds
//! what the block leaves out. Text that would break the format is written as character references (`&lt;`).

mod block;
mod document;
mod prose;
mod read;
mod text;
mod write;

pub use read::{import_tasks, parse_task_file};
pub use write::{write_continued_task_file, write_task_file};

/// Headings with a meaning.
const METADATA: &str = "Metadata";
const SPECIFICATION: &str = "Specification";
const ACCEPTANCE: &str = "Acceptance Criteria";
const INTERFACE: &str = "Interface Contract";
const SECURITY: &str = "Security Requirements";
/// Written by the run and never read back.
const FAILURE: &str = "Failure Analysis";
const CHECKPOINT: &str = "Checkpoint Note";
