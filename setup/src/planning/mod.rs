//! From an idea to approved requirements, and on to a design with a task graph.

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

/// A longer document is none that anybody reads.
const LONGEST_DOCUMENT: u64 = 1 << 20;
