//! Takes a feature from an idea to approved requirements, and from there to a design with a task graph. Called by the
//! `plan` and `design` commands; `init` uses the asker. Never starts a run.

mod approval;
mod architect;
mod asker;
mod client_session;
mod design;
mod design_files;
mod documents;
mod interview;
mod plan;
mod product_owner;
mod scratch;
mod signals;
mod source;
mod task_list;

pub use approval::{ApprovalStatus, approval_status, gap_line};
pub(crate) use asker::{Asker, Role};
pub use client_session::begin_in_session;
pub use design::{DesignAuthor, DesignOptions, check_requirements, design};
pub use documents::read_document;
pub use plan::{PlanOptions, Planned, plan};
pub use scratch::ScratchCheckout;
pub(crate) use signals::uninterrupted;
pub use signals::{exit_on_signals, release_signals};
pub use source::Source;

/// Maximum length of a document, in bytes.
const MAX_DOCUMENT_BYTES: u64 = 1 << 20;
