//! `tasks/<id>.md`: a task as a person reads and writes it.
//!
//! A metadata list, a `<task>` block and sections of prose. The block is the source; the metadata says what the
//! block does not. What a text holds that would break the form is written as character references (`&lt;`).

mod block;
mod document;
mod prose;
mod read;
mod text;
mod write;

pub use read::{import_tasks, parse_task_file};
pub use write::{write_continued_task_file, write_task_file};

/// The headings that mean something to us.
const METADATA: &str = "Metadata";
const SPECIFICATION: &str = "Specification";
const ACCEPTANCE: &str = "Acceptance Criteria";
const INTERFACE: &str = "Interface Contract";
const SECURITY: &str = "Security Requirements";
/// Written by the run and never read back.
const FAILURE: &str = "Failure Analysis";
const CHECKPOINT: &str = "Checkpoint Note";
