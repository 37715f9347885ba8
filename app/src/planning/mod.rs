//! From an idea to approved requirements, and on to a design with a task graph.

mod approval;
mod asker;
mod documents;
mod interview;
mod product_owner;
mod signals;
mod source;

pub use approval::{Standing, approve, gap_line, standing};
pub use asker::{Asker, Role};
pub use documents::{keep_aside, read_document};
pub use interview::interview;
pub use product_owner::{Brief, elicit};
pub use signals::{end_on_signals, uninterrupted};
pub use source::{Source, read_source};

/// A longer document is none that anybody reads.
const LONGEST_DOCUMENT: u64 = 1 << 20;
