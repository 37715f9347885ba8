//! Takes a feature from an idea to approved requirements, and from there to a design with a task graph. Called by the
//! `plan` and `design` commands; `init` uses the asker.

mod approval;
mod architect;
mod asker;
mod client_session;
mod design;
mod documents;
mod interview;
mod product_owner;
mod scratch;
mod signals;
mod source;
mod task_list;

pub use approval::{ApprovalStatus, approval_line, approval_status, approve, gap_line};
pub use architect::ask_architect;
pub use asker::{Asker, Role};
pub use client_session::{begin_in_session, count_session, end_in_session};
pub use design::{DesignFiles, Designed, Provenance, collect_files, form, judge, to_commit, width};
pub use documents::{aside, read_document, text_of};
pub use interview::{interview, required};
pub use product_owner::{Brief, elicit};
pub use scratch::{Commit, ScratchCheckout};
pub use signals::{exit_on_signals, uninterrupted};
pub use source::{Source, read_source};
pub use task_list::show_in_task_list;

/// Maximum length of a document, in bytes.
const MAX_DOCUMENT_BYTES: u64 = 1 << 20;
