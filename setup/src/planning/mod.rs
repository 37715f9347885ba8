//! Takes a feature from an idea to approved requirements, and from there to a design with a task graph. Called by the
//! `plan` and `design` commands; `init` uses the asker.

mod approval;
mod architect;
mod asker;
mod design;
mod documents;
mod file_set;
mod interview;
mod product_owner;
mod scratch;
mod signals;
mod source;
mod task_list;

pub use approval::{Standing, approval_line, approve, gap_line, standing};
pub use architect::draw_up;
pub use asker::{Asker, Role};
pub use design::{Colophon, Designed, Laid, form, judge, lay_out, to_commit, width};
pub use documents::{aside, read_document, text_of};
pub use interview::{interview, required};
pub use product_owner::{Brief, elicit};
pub use scratch::{Commit, ScratchCheckout};
pub use signals::{end_on_signals, uninterrupted};
pub use source::{Source, read_source};
pub use task_list::in_task_list;

/// Maximum length of a document, in bytes.
const MAX_DOCUMENT_BYTES: u64 = 1 << 20;
